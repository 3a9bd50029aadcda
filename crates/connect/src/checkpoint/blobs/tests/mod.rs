//! What a service that fails by a script is taken for.

use std::sync::atomic::{AtomicU32, Ordering};

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpListener;

use super::*;

mod object_store;
mod service;

#[tokio::test]
async fn a_listing_of_more_than_a_page_is_whole() {
    // Services page at 5,000 blobs; what follows a marker is tested with a script, which pages at one.
    let page = |name: &str, next: &str| {
        format!(
            "<?xml version=\"1.0\" encoding=\"utf-8\"?><EnumerationResults ServiceEndpoint=\"http://x/\" \
             ContainerName=\"test\"><Prefix/><Blobs><Blob><Name>{name}</Name><Properties><Last-Modified>Fri, 20 Nov 2026 \
             22:17:43 GMT</Last-Modified><Etag>0x8DABC</Etag></Properties><Metadata><ownerid/></Metadata></Blob></Blobs>\
             <NextMarker>{next}</NextMarker></EnumerationResults>"
        )
    };
    let script = Script::start(move |request| {
        let body = match request {
            request if request.contains("maxresults=1") => page("any", ""),
            request if request.contains("marker=more") => page("n/h/g/ownership/1", ""),
            _ => page("n/h/g/ownership/0", "more"),
        };
        Some(("200 OK", String::new(), body))
    })
    .await;
    let store = BlobCheckpointStore::open(script.options()).await.expect("it answers");
    let owned = store.list_ownership(&ConsumerGroup::new("n", "h", "g")).await;
    let owned = owned.expect("it answers");
    let partitions: Vec<_> = owned.iter().map(|own| own.partition.0).collect();
    assert_eq!(partitions, [0, 1]);
    assert_eq!((owned[0].owner_id.as_str(), owned[0].etag.clone()), ("", Some(etag("0x8DABC"))));
}

#[tokio::test]
async fn what_may_pass_is_unavailable_and_what_others_won_is_lost() {
    for (status, code, meaning) in [
        ("503 Busy", "ServerBusy", "unavailable"),
        ("500 Oops", "InternalError", "unavailable"),
        ("500 Oops", "OperationTimedOut", "unavailable"),
        ("429 Slow", "TooManyRequests", "unavailable"),
        ("408 Late", "RequestTimeout", "unavailable"),
        ("412 No", "ConditionNotMet", "lost"),
        ("409 No", "BlobAlreadyExists", "lost"),
        ("404 No", "BlobNotFound", "lost"),
        ("404 No", "ContainerNotFound", "no container"),
        ("403 No", "AuthorizationFailure", "refused"),
        ("409 No", "LeaseAlreadyPresent", "refused"),
    ] {
        let script = Script::start(move |request| match request.starts_with("GET") {
            true => Some(("200 OK", String::new(), EMPTY_PAGE.to_owned())),
            false => Some((status, format!("x-ms-error-code: {code}\r\n"), String::new())),
        })
        .await;
        let store = BlobCheckpointStore::open(script.options()).await.expect("it answers");
        for etag in [None, Some(etag("0x1"))] {
            let is_lost = |error: &StoreError| matches!(error, StoreError::NotOwner { .. });
            let is = |error: &StoreError| match error {
                StoreError::Unavailable { .. } => "unavailable",
                StoreError::Refused { .. } => "refused",
                StoreError::NoContainer { .. } => "no container",
                error if is_lost(error) => "lost",
                _ => "something else",
            };
            let replaced = store.replace_checkpoint(checkpoint(etag.clone())).await;
            let error = replaced.expect_err("it fails");
            assert_eq!(is(&error), meaning, "{status} {code}: {error}");
            let claim = Ownership { etag, ..Ownership::new(error_group(), PartitionId(0), "me") };
            let claimed = store.claim_ownership(vec![claim], Duration::ZERO).await.expect("it was tried");
            assert_eq!(claimed.written, []);
            let found = claimed.failed.first().map_or("lost", |failed| is(&failed.error));
            assert_eq!(found, meaning, "{status} {code}: {claimed:?}");
        }
    }
}

#[tokio::test]
async fn claims_expire_by_the_clock_of_the_service_whatever_that_of_this_machine_says() {
    let ahead = SystemTime::now() + Duration::from_secs(600);
    let date = format!("Date: {}\r\n", units::date::http_date(ahead));
    let script = Script::start(move |_| Some(("200 OK", date.clone(), EMPTY_PAGE.to_owned()))).await;
    let store = BlobCheckpointStore::open(script.options()).await.expect("it answers");
    let difference = store.now().duration_since(SystemTime::now()).expect("it is ahead");
    assert!(difference > Duration::from_secs(590), "{difference:?}");
}

#[tokio::test]
async fn a_service_that_is_away_or_silent_is_unavailable() {
    let script = Script::start(|request| {
        let page = request.starts_with("GET").then(|| EMPTY_PAGE.to_owned())?;
        Some(("200 OK", String::new(), page))
    })
    .await;
    let options = BlobStoreOptions { request_timeout: Duration::from_millis(50), ..script.options() };
    let store = BlobCheckpointStore::open(options.clone()).await.expect("it answers");
    let silent = store.replace_checkpoint(checkpoint(None)).await.expect_err("no reply comes");
    assert!(matches!(silent, StoreError::Unavailable { .. }), "{silent}");
    let place = script.stop().await;
    let away = store.replace_checkpoint(checkpoint(None)).await.expect_err("nothing is listening");
    assert!(matches!(away, StoreError::Unavailable { .. }), "{away}");
    assert!(away.to_string().contains(&place), "{away}");
    assert!(!away.to_string().contains("c2VjcmV0"), "{away}");
}

/// The first writing is stored and its answer lost, so the second meets another ETag. `writer` is whose mark is there then.
async fn after_a_lost_answer(writer: fn(ours: &str) -> String) -> Result<ETag, StoreError> {
    let first = std::sync::Mutex::new(None::<String>);
    let script = Script::start(move |request| {
        let head = request.to_ascii_lowercase();
        let ours = head.lines().find_map(|line| line.strip_prefix("x-ms-meta-writing: ")).map(str::to_owned);
        let time = "Last-Modified: Fri, 20 Nov 2026 22:17:43 GMT\r\n";
        let mut first = first.lock().expect("nobody panics with it");
        match (&*first, ours) {
            (_, None) if head.starts_with("get") => Some(("200 OK", String::new(), EMPTY_PAGE.to_owned())),
            (Some(first), None) => {
                let mark = writer(first);
                Some(("200 OK", format!("ETag: \"0x2\"\r\n{time}{mark}"), String::new()))
            }
            (None, ours) => {
                *first = ours;
                Some(("503 Busy", "x-ms-error-code: ServerBusy\r\n".to_owned(), String::new()))
            }
            (Some(_), Some(_)) if head.contains("if-match: \"0x2\"") => {
                Some(("200 OK", format!("ETag: \"0x3\"\r\n{time}"), String::new()))
            }
            (Some(_), Some(_)) => {
                Some(("412 No", "x-ms-error-code: ConditionNotMet\r\n".to_owned(), String::new()))
            }
        }
    })
    .await;
    let store = BlobCheckpointStore::open(script.options()).await.expect("it answers");
    let lost = store.replace_checkpoint(checkpoint(Some(etag("0x1")))).await.expect_err("the answer is lost");
    assert!(matches!(lost, StoreError::Unavailable { .. }), "{lost}");
    store.replace_checkpoint(checkpoint(Some(etag("0x1")))).await
}

#[tokio::test]
async fn a_writing_whose_answer_was_lost_is_known_again_as_ours() {
    let ours = after_a_lost_answer(|ours| format!("x-ms-meta-writing: {ours}\r\n")).await;
    assert_eq!(ours.expect("nobody else has written"), etag("0x3"));
    for other in [|_: &str| String::new(), |ours: &str| format!("x-ms-meta-writing: {ours}0\r\n")] {
        let lost = after_a_lost_answer(other).await.expect_err("somebody else has written since");
        assert!(matches!(lost, StoreError::NotOwner { .. }), "{lost}");
    }
}

#[tokio::test]
async fn a_listing_is_asked_for_again_where_the_service_was_busy() {
    let asked = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&asked);
    let script = Script::start(move |_| match counted.fetch_add(1, Ordering::Relaxed) {
        0 => Some(("503 Busy", "x-ms-error-code: ServerBusy\r\n".to_owned(), String::new())),
        _ => Some(("200 OK", String::new(), EMPTY_PAGE.to_owned())),
    })
    .await;
    BlobCheckpointStore::open(script.options()).await.expect("it answers in the end");
    assert_eq!(asked.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn the_first_of_a_group_writes_in_lower_case_since_most_processors_look_there() {
    let written = Arc::new(std::sync::Mutex::new(Vec::new()));
    let noted = Arc::clone(&written);
    let script = Script::start(move |request| {
        if request.starts_with("GET") {
            return Some(("200 OK", String::new(), EMPTY_PAGE.to_owned()));
        }
        let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
        noted.lock().expect("nobody panicked").push(path);
        let stop = "x-ms-error-code: AuthorizationFailure\r\n".to_owned();
        Some(("403 No", stop, String::new()))
    })
    .await;
    let store = BlobCheckpointStore::open(script.options()).await.expect("it answers");
    let first = Checkpoint { group: ConsumerGroup::new("N", "H", "$Default"), ..checkpoint(None) };
    let refused = store.replace_checkpoint(first).await;
    refused.expect_err("the script refuses what it has noted");
    let paths = written.lock().expect("nobody panicked");
    let path = paths[0].replace("%24", "$").replace("%2F", "/");
    assert!(path.starts_with("/a/test/n/h/$default/checkpoint/0"), "{path}");
}

fn error_group() -> ConsumerGroup {
    ConsumerGroup::new("n", "h", "g")
}

fn checkpoint(etag: Option<ETag>) -> Checkpoint {
    Checkpoint {
        group: error_group(),
        partition: PartitionId(0),
        sequence_number: Some(7),
        offset: Some("7".to_owned()),
        log_id: None,
        etag,
    }
}

fn etag(text: &str) -> ETag {
    ETag(text.to_owned())
}

/// A service that answers each request as a function of its head says: status, further headers, body; never, if with none.
struct Script {
    address: std::net::SocketAddr,
    serving: tokio::task::JoinSet<()>,
}

type Answer = Option<(&'static str, String, String)>;

impl Script {
    async fn start(answer: impl Fn(&str) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let mut serving = tokio::task::JoinSet::new();
        serving.spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            let answer = Arc::new(answer);
            while let Ok((stream, _)) = listener.accept().await {
                let answer = Arc::clone(&answer);
                connections.spawn(async move {
                    let mut stream = BufReader::new(stream);
                    loop {
                        let mut head = String::new();
                        while !head.ends_with("\r\n\r\n") {
                            match stream.read_line(&mut head).await {
                                Ok(read) if read > 0 => {}
                                _ => return,
                            }
                        }
                        let Some((status, headers, body)) = answer(&head) else {
                            return std::future::pending().await;
                        };
                        let reply = format!(
                            "HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n{body}",
                            body.len()
                        );
                        if stream.write_all(reply.as_bytes()).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Self { address, serving }
    }

    fn options(&self) -> BlobStoreOptions {
        let string = format!("AccountName=a;AccountKey=c2VjcmV0;BlobEndpoint=http://{}/a", self.address);
        BlobStoreOptions::new(string.parse().expect("a connection string"), "test")
    }

    /// Ends it, and tells where it was.
    async fn stop(mut self) -> String {
        self.serving.shutdown().await;
        self.address.to_string()
    }
}

const EMPTY_PAGE: &str = "<?xml version=\"1.0\" encoding=\"utf-8\"?><EnumerationResults ServiceEndpoint=\"http://x/\" \
                          ContainerName=\"test\"><Blobs/><NextMarker/></EnumerationResults>";
