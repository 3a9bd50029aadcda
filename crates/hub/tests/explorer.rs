//! The explorer's API, as a program asks it; what browsers do with it is tested in one (`compat/explorer`).

#![expect(clippy::unwrap_used, reason = "what panics in a test fails it, and says where")]

use std::net::SocketAddr;
use std::time::Duration;

use hub::namespace::{HubConfig, NamespaceConfig, QueueConfig, SubscriptionConfig, TopicConfig};
use hub::service::{Listener, Openness, Protocol, Service, ServiceConfig, StartError};
use queue_store::{QueueOptions, TopicOptions};
use serde_json::{Value as Json, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

fn config() -> ServiceConfig {
    let mut namespace = NamespaceConfig::with_hubs(vec![HubConfig::new("events", 2)]);
    namespace.queues = vec![QueueConfig::new("jobs")];
    let subscription =
        SubscriptionConfig { name: "all".into(), options: QueueOptions::default(), rules: None };
    namespace.topics = vec![TopicConfig {
        name: "news".into(),
        options: TopicOptions::default(),
        subscriptions: vec![subscription],
    }];
    ServiceConfig::loopback(namespace).and(Protocol::Explorer)
}

/// A service, and where its explorer is.
async fn start() -> (Service, SocketAddr) {
    let service = Service::start(config()).await.unwrap();
    let address = service.address(Protocol::Explorer).unwrap();
    (service, address)
}

async fn ask(address: SocketAddr, head: &str, content: &str) -> (u16, String) {
    let mut socket = TcpStream::connect(address).await.unwrap();
    let length = content.len();
    let request = format!("{head}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{content}");
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();
    (answer[9..12].parse().unwrap(), answer)
}

async fn get(address: SocketAddr, path: &str) -> Json {
    let (status, answer) = ask(address, &format!("GET {path} HTTP/1.1\r\nHost: {address}"), "").await;
    assert_eq!(status, 200, "{path}: {answer}");
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

async fn post(address: SocketAddr, path: &str, content: &Json) -> (u16, Json) {
    let head = format!("POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json");
    let (status, answer) = ask(address, &head, &content.to_string()).await;
    (status, serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap())
}

/// A stream of events, from which the data of those of one name is read.
struct Live(BufReader<TcpStream>);

impl Live {
    async fn open(address: SocketAddr, path: &str) -> Self {
        let mut socket = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n");
        socket.write_all(request.as_bytes()).await.unwrap();
        Self(BufReader::new(socket))
    }

    /// The data of the next event; `None` at the end.
    async fn next(&mut self) -> Option<Json> {
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line).await.unwrap_or(0) == 0 {
                return None;
            }
            if let Some(data) = line.strip_prefix("data: ") {
                return Some(serde_json::from_str(data).unwrap());
            }
        }
    }
}

#[tokio::test]
async fn an_explorer_that_others_could_reach_needs_leave() {
    let everywhere = Listener::plain(Protocol::Explorer, "0.0.0.0:0".parse().unwrap());
    let mut config = config();
    // Keys of one's own make no difference: the explorer asks for none.
    config.namespace.authorization_rules[0].key = "private".into();
    config.listeners.push(everywhere);
    let error = Service::start(config.clone()).await.unwrap_err();
    let StartError::OpenToAnyone { openness, protocol, .. } = &error else { panic!("{error}") };
    assert_eq!((openness, *protocol), (&Openness::Explorer, Protocol::Explorer));
    config.open_to_anyone = true;
    Service::start(config).await.unwrap().stop().await;
}

#[tokio::test]
async fn what_is_sent_is_seen_at_a_glance_and_in_full() {
    let (service, address) = start().await;
    let event = json!({
        "entity": "events", "partition": "1", "body": "{\"a\": 1}", "message_id": "m",
        "properties": {"n": 7, "text": "x"},
    });
    assert_eq!(post(address, "/api/send", &event).await, (200, json!({"count": 1})));
    let message =
        json!({"entity": "jobs", "body": "AP8=", "encoding": "base64", "session_id": "s", "count": 3});
    assert_eq!(post(address, "/api/send", &message).await.0, 200);
    let later = json!({"entity": "news", "body": "later", "scheduled_ms": 4_102_444_800_000_i64});
    assert_eq!(post(address, "/api/send", &later).await.0, 200);

    let overview = get(address, "/api/overview").await;
    assert_eq!((&overview["hubs"][0]["events"], &overview["hubs"][0]["events_in"]), (&json!(1), &json!(1)));
    assert_eq!(
        (&overview["queues"][0]["active"], &overview["topics"][0]["scheduled"]),
        (&json!(3), &json!(1))
    );
    assert!(!overview.to_string().contains("SAS_KEY_VALUE"));
    let hub = get(address, "/api/hub?name=events").await;
    assert_eq!((&hub["partitions"][0]["end"], &hub["partitions"][1]["end"]), (&json!(0), &json!(1)));

    let event = get(address, "/api/hub/event?name=EVENTS&partition=1&sequence_number=0").await;
    assert_eq!(event["body"]["text"], json!("{\"a\": 1}"));
    assert_eq!(event["application_properties"], json!([["n", "long", 7], ["text", "string", "x"]]));
    let page = get(address, "/api/queue/messages?entity=jobs&skip=1&top=5").await;
    assert_eq!((&page["total"], page["messages"].as_array().unwrap().len()), (&json!(3), 2));
    assert_eq!(page["messages"][0]["text"], json!("00 ff"));
    let (status, _) = ask(
        address,
        &format!("GET /api/hub/event?name=events&partition=1&sequence_number=1 HTTP/1.1\r\nHost: {address}"),
        "",
    )
    .await;
    assert_eq!(status, 404);
    service.stop().await;
}

#[tokio::test]
async fn messages_that_make_no_sense_are_refused_with_the_reason() {
    let (service, address) = start().await;
    for (content, expected) in [
        (json!({"entity": "nowhere", "body": ""}), 404),
        (json!({"entity": "jobs"}), 400),
        (json!({"entity": "jobs", "body": "", "partition": "0"}), 400),
        (json!({"entity": "events", "body": "", "partition": "0", "partition_key": "k"}), 400),
        (json!({"entity": "events", "body": "", "partition": "2"}), 404),
        (json!({"entity": "events", "body": "", "scheduled_ms": 1}), 400),
        (json!({"entity": "events", "body": "x".repeat(1024 * 1024)}), 413),
        (json!({"entity": "jobs", "body": "%", "encoding": "base64"}), 400),
        (json!({"entity": "jobs", "body": "", "properties": {"a": [1]}}), 400),
        (json!({"entity": "jobs", "body": "", "count": 0}), 400),
        (json!({"entity": "jobs", "body": "", "unknown": 0}), 400),
    ] {
        let (status, answer) = post(address, "/api/send", &content).await;
        assert_eq!(status, expected, "{answer}");
        assert!(answer["error"].is_string());
    }
    assert_eq!(get(address, "/api/queue?entity=jobs").await["queue"]["active"], json!(0));
    service.stop().await;
}

#[tokio::test]
async fn a_tail_shows_what_comes_and_ends_with_the_service() {
    let (service, address) = start().await;
    let send = async |body: &str| {
        assert_eq!(post(address, "/api/send", &json!({"entity": "events", "body": body})).await.0, 200);
    };
    for body in ["one", "two", "three"] {
        send(body).await;
    }
    let mut live = Live::open(address, "/api/hub/tail?name=events&last=10&filter=T").await;
    let mut shown = Vec::new();
    while shown.len() < 2 {
        let found = live.next().await.unwrap();
        shown.extend(found["events"].as_array().unwrap().iter().map(|event| event["text"].clone()));
    }
    shown.sort_by_key(Json::to_string);
    assert_eq!(shown, ["three", "two"]);
    send("late").await;
    let found = loop {
        let found = live.next().await.unwrap();
        if found["shown"] == json!(3) {
            break found;
        }
    };
    assert_eq!((&found["examined"], &found["sampled_out"]), (&json!(4), &json!(0)));
    let mut refused = Live::open(address, "/api/hub/tail?name=events&filter=partition:9").await;
    assert_eq!(refused.next().await.unwrap()["error"], json!("the filter names no partition of this hub"));
    let stopped = tokio::time::timeout(Duration::from_secs(20), async {
        let end = async { while live.next().await.is_some() {} };
        tokio::join!(service.stop(), end)
    });
    stopped.await.expect("a page that is open does not keep the service");
}

#[tokio::test]
async fn a_tail_that_can_t_show_all_counts_what_it_passes_over() {
    let (service, address) = start().await;
    let mut live = Live::open(address, "/api/hub/tail?name=events").await;
    assert_eq!(live.next().await.unwrap()["examined"], json!(0));
    for _ in 0..2 {
        let many = json!({"entity": "events", "body": "many", "count": 10_000});
        assert_eq!(post(address, "/api/send", &many).await.0, 200);
    }
    loop {
        let found = live.next().await.unwrap();
        let [examined, shown, passed] =
            ["examined", "shown", "sampled_out"].map(|name| found[name].as_u64().unwrap());
        assert!(found["events"].as_array().unwrap().len() <= 200);
        assert_eq!(examined, shown);
        if examined + passed == 20_000 {
            assert!(passed > 0 && shown > 0);
            break;
        }
    }
    service.stop().await;
}

#[tokio::test]
async fn rules_are_tried_as_they_would_run() {
    let (service, address) = start().await;
    let message = json!({"properties": {"priority": 7}, "subject": "s"});
    let trial =
        |filter: &str| json!({"filter": filter, "action": "SET priority = priority + 1", "message": message});
    let tried = post(address, "/api/rules/try", &trial("priority > 5 AND sys.Label = 's'")).await;
    let changed = json!([["sys.Label", "string", "s"], ["priority", "long", 8]]);
    assert_eq!(tried, (200, json!({"matches": true, "changed": changed})));
    assert_eq!(post(address, "/api/rules/try", &trial("priority > 7")).await.1["matches"], json!(false));
    let mistake = &post(address, "/api/rules/try", &trial("priority >")).await.1["mistake"];
    assert_eq!((&mistake["part"], &mistake["position"]), (&json!("filter"), &json!(11)));

    let rule = json!({"entity": "news/Subscriptions/all", "name": "r", "filter": "priority > 5"});
    assert_eq!(post(address, "/api/rules/add", &rule).await.0, 200);
    assert_eq!(post(address, "/api/rules/add", &rule).await.0, 409);
    let rules = get(address, "/api/queue?entity=news/Subscriptions/all").await["rules"].clone();
    assert_eq!(rules[1], json!({"name": "r", "kind": "sql", "filter": "priority > 5", "action": null}));
    service.stop().await;
}

#[tokio::test]
async fn messages_are_removed_and_purged() {
    let (service, address) = start().await;
    let send = json!({"entity": "jobs", "body": "x", "count": 600});
    assert_eq!(post(address, "/api/send", &send).await.0, 200);
    let first =
        get(address, "/api/queue/messages?entity=jobs&top=1").await["messages"][0]["sequence_number"].clone();
    let chosen = json!({"entity": "jobs", "sequence_numbers": [first, 999_999]});
    assert_eq!(post(address, "/api/queue/remove", &chosen).await, (200, json!({"count": 1, "refused": 1})));
    assert_eq!(post(address, "/api/queue/resubmit", &chosen).await.0, 409);
    let purged = post(address, "/api/queue/purge", &json!({"entity": "jobs"})).await;
    assert_eq!(purged, (200, json!({"count": 599, "refused": 0})));
    assert_eq!(get(address, "/api/queue?entity=jobs").await["queue"]["active"], json!(0));
    service.stop().await;
}

#[tokio::test]
async fn a_profile_takes_the_place_of_another_and_a_wrong_one_does_not() {
    let (service, address) = start().await;
    assert_eq!(get(address, "/api/profile").await["is_on"], json!(false));
    let slow = json!({"profile": {"round_trip": "2 ms", "failures": {"send_ratio": 0.5}}});
    let (status, found) = post(address, "/api/profile", &slow).await;
    assert_eq!((status, &found["is_on"]), (200, &json!(true)));
    assert_eq!(found["profile"]["round_trip"], json!("2 ms"));
    assert_eq!(found["counters"][0], json!(["sends throttled", 0]));
    assert_eq!(get(address, "/api/overview").await["shaped"], json!(true));
    for (wrong, said) in [
        (json!({"profile": {"throughput_units": 0}}), "profile.throughput_units: no event would ever pass"),
        (json!({"profile": {"round_trips": "2 ms"}}), "unknown field `round_trips`"),
        (json!({"profile": {"failures": {"send_ratio": 2}}}), "a ratio is a number from 0 to 1"),
    ] {
        let (status, refusal) = post(address, "/api/profile", &wrong).await;
        let error = refusal["error"].as_str().unwrap();
        assert!(status == 400 && error.contains(said), "{wrong}: {error}");
    }
    assert_eq!(get(address, "/api/profile").await["profile"], found["profile"]);
    let off = post(address, "/api/profile", &json!({"profile": {}})).await.1;
    assert_eq!((&off["is_on"], &off["counters"]), (&json!(false), &found["counters"]));
    service.stop().await;
}
