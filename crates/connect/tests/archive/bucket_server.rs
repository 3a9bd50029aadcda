//! As much of S3 and of Google Cloud Storage as an archive uses: writing under a condition, and looking. It fails as a test says. The protocols
//! themselves are held against a server that we did not write, in `compat/python/test_bucket.py`.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use percent_encoding::percent_decode_str;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

pub(crate) const BUCKET: &str = "archive";

/// A server with one bucket. It ends with the runtime.
#[derive(Clone)]
pub(crate) struct BucketServer {
    pub(crate) endpoint: String,
    state: Arc<State>,
}

struct State {
    objects: Mutex<BTreeMap<String, Object>>,
    fault: Mutex<Fault>,
    /// Each writing takes one.
    permits: Semaphore,
}

#[derive(Clone)]
struct Object {
    content: Bytes,
    headers: HeaderMap,
    generation: u64,
}

/// What requests are answered with.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    None,
    /// A refusal of writings: a status, a code, and `Retry-After` in seconds.
    Refusal(u16, &'static str, Option<u64>),
    /// Conditions are ignored, as by servers that don't know them.
    NoConditions,
    /// So is `If-Match` alone.
    NoIfMatch,
    /// Nothing can be looked at.
    NoLook,
}

impl BucketServer {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(State {
            objects: Mutex::default(),
            fault: Mutex::new(Fault::None),
            permits: Semaphore::new(Semaphore::MAX_PERMITS),
        });
        let server = Self { endpoint, state };
        let accepting = server.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let server = accepting.clone();
                let answer = service_fn(move |request| {
                    let server = server.clone();
                    async move { Ok::<_, Infallible>(server.answer(request).await) }
                });
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), answer));
            }
        });
        server
    }

    pub(crate) fn set(&self, fault: Fault) {
        *self.state.fault.lock().unwrap() = fault;
    }

    /// Lets no more writings through than are [released](Self::release).
    pub(crate) fn hold(&self) {
        self.state.permits.forget_permits(Semaphore::MAX_PERMITS);
    }

    pub(crate) fn release(&self, writings: usize) {
        self.state.permits.add_permits(writings);
    }

    /// How many writings may pass before the next one waits.
    pub(crate) fn writings_free(&self) -> usize {
        self.state.permits.available_permits()
    }

    /// The names of all objects of events.
    pub(crate) fn names(&self) -> Vec<String> {
        let objects = self.state.objects.lock().unwrap();
        objects.keys().filter(|name| !name.ends_with(".parshall")).cloned().collect()
    }

    pub(crate) fn content(&self, name: &str) -> Option<Vec<u8>> {
        Some(self.state.objects.lock().unwrap().get(name)?.content.to_vec())
    }

    pub(crate) fn header(&self, name: &str, header: &str) -> Option<String> {
        let objects = self.state.objects.lock().unwrap();
        Some(objects.get(name)?.headers.get(header)?.to_str().unwrap().to_owned())
    }

    pub(crate) fn remove_metadata(&self, name: &str) {
        let mut objects = self.state.objects.lock().unwrap();
        let kept = |header: &HeaderName| !header.as_str().contains("-meta-");
        let headers = &mut objects.get_mut(name).unwrap().headers;
        *headers =
            headers.iter().filter(|(header, _)| kept(header)).map(|(a, b)| (a.clone(), b.clone())).collect();
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        let content = body.collect().await.unwrap().to_bytes();
        let path = percent_decode_str(head.uri.path()).decode_utf8().unwrap().into_owned();
        let Some(name) = path.strip_prefix(&format!("/{BUCKET}/")).map(str::to_owned) else {
            return refusal(404, "NoSuchBucket", None);
        };
        let fault = *self.state.fault.lock().unwrap();
        match head.method {
            Method::PUT => {
                self.state.permits.acquire().await.unwrap().forget();
                match fault {
                    Fault::Refusal(status, code, retry_after) => refusal(status, code, retry_after),
                    fault => self.put(&name, &head.headers, content, fault),
                }
            }
            Method::HEAD if matches!(fault, Fault::NoLook) => status(403),
            Method::HEAD => match self.state.objects.lock().unwrap().get(&name) {
                Some(object) => object.shown(),
                None => status(404),
            },
            _ => refusal(405, "MethodNotAllowed", None),
        }
    }

    fn put(&self, name: &str, headers: &HeaderMap, content: Bytes, fault: Fault) -> Response<Full<Bytes>> {
        let mut objects = self.state.objects.lock().unwrap();
        let there = objects.get(name);
        let condition = |header: &str| Some(headers.get(header)?.to_str().unwrap().to_owned());
        let asked = matches!(fault, Fault::NoConditions | Fault::NoIfMatch);
        let must_be = condition("if-match").filter(|_| !asked);
        let must_not_be = condition("if-none-match").filter(|_| !matches!(fault, Fault::NoConditions));
        let generation = condition("x-goog-if-generation-match");
        if let Some(tag) = must_be {
            match there {
                None => return refusal(404, "NoSuchKey", None),
                Some(object) if object.headers["etag"].to_str().unwrap() != tag => {
                    return refusal(412, "PreconditionFailed", None);
                }
                Some(_) => {}
            }
        }
        let is_there = there.is_some();
        let old = there.map_or(0, |object| object.generation);
        if must_not_be.is_some() && is_there
            || generation.is_some_and(|generation| generation.parse::<u64>().unwrap() != old)
        {
            return refusal(412, "PreconditionFailed", None);
        }
        let is_kept = |name: &HeaderName| name.as_str().contains("-meta-") || name == "content-type";
        let mut kept: HeaderMap =
            headers.iter().filter(|(name, _)| is_kept(name)).map(|(a, b)| (a.clone(), b.clone())).collect();
        let md5: String = units::md5::md5(&content).iter().map(|byte| format!("{byte:02x}")).collect();
        kept.insert("etag", HeaderValue::from_str(&format!("\"{md5}\"")).unwrap());
        let object = Object { content, headers: kept, generation: old + 1_000 };
        let mut response = object.shown();
        *response.body_mut() = Full::default();
        response.headers_mut().remove("content-length");
        objects.insert(name.to_owned(), object);
        response
    }
}

impl Object {
    fn shown(&self) -> Response<Full<Bytes>> {
        let mut response = status(200);
        *response.headers_mut() = self.headers.clone();
        let mut add = |name: &'static str, value: String| {
            response.headers_mut().insert(name, HeaderValue::from_str(&value).unwrap());
        };
        add("content-length", self.content.len().to_string());
        add("last-modified", "Wed, 25 Nov 2026 22:00:00 GMT".to_owned());
        add("x-goog-generation", self.generation.to_string());
        response
    }
}

fn status(status: u16) -> Response<Full<Bytes>> {
    Response::builder().status(status).body(Full::default()).unwrap()
}

fn refusal(status: u16, code: &str, retry_after: Option<u64>) -> Response<Full<Bytes>> {
    let body = format!(
        "<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>As the test says.</Message></Error>"
    );
    let mut response = Response::builder().status(status);
    if let Some(seconds) = retry_after {
        response = response.header("Retry-After", seconds);
    }
    response.body(Full::from(body)).unwrap()
}
