//! An exporter and a collector that answers as it is told.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use super::*;
use crate::protobuf::{Field, Fields};
use crate::tracer::tests::span;

/// A collector: what it gets, and what it answers next; 200 where it was told nothing.
struct FakeCollector {
    requests: mpsc::UnboundedReceiver<(String, Vec<u8>)>,
    answers: Arc<Mutex<VecDeque<&'static str>>>,
    endpoint: String,
}

impl FakeCollector {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let endpoint = format!("http://{}", listener.local_addr().expect("bound"));
        let (got, requests) = mpsc::unbounded_channel();
        let answers = Arc::new(Mutex::new(VecDeque::new()));
        let told = Arc::clone(&answers);
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(serve(socket, got.clone(), Arc::clone(&told)));
            }
        });
        Self { requests, answers, endpoint }
    }

    fn answers(&self, answers: &[&'static str]) {
        self.answers.lock().expect("nobody panicked").extend(answers);
    }

    async fn request(&mut self) -> (String, Vec<u8>) {
        self.requests.recv().await.expect("it listens")
    }

    fn options(&self, variables: &[(&str, &str)]) -> Options {
        let settings =
            crate::options::Settings { endpoint: Some(self.endpoint.clone()), ..Default::default() };
        let usual = [("OTEL_TRACES_SAMPLER", "always_on"), ("OTEL_BSP_SCHEDULE_DELAY", "10")];
        let all = [variables, &usual].concat();
        let (options, mistakes) = Options::new("tested", &settings, |name| {
            all.iter().find(|(other, _)| *other == name).map(|(_, value)| (*value).to_owned())
        });
        assert!(mistakes.is_empty(), "{mistakes:?}");
        options.expect("there is an endpoint")
    }
}

/// Requests of one connection, one after the other.
async fn serve(
    mut socket: TcpStream,
    got: mpsc::UnboundedSender<(String, Vec<u8>)>,
    answers: Arc<Mutex<VecDeque<&'static str>>>,
) -> io::Result<()> {
    let mut buffer = Vec::new();
    loop {
        let head = loop {
            if let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                let rest = buffer.split_off(end + 4);
                break String::from_utf8_lossy(&std::mem::replace(&mut buffer, rest)).to_lowercase();
            }
            if socket.read_buf(&mut buffer).await? == 0 {
                return Ok(());
            }
        };
        let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
        let length: usize = length.and_then(|length| length.parse().ok()).expect("bodies have a length");
        while buffer.len() < length {
            socket.read_buf(&mut buffer).await?;
        }
        let rest = buffer.split_off(length);
        let body = std::mem::replace(&mut buffer, rest);
        let answer = answers.lock().expect("nobody panicked").pop_front().unwrap_or("200 OK\r\n");
        got.send((head, body)).expect("somebody looks");
        socket.write_all(format!("HTTP/1.1 {answer}Content-Length: 0\r\n\r\n").as_bytes()).await?;
    }
}

/// A page that counts how often it was asked for.
struct Page(Arc<AtomicUsize>);

impl MetricsPage for Page {
    async fn page(&self) -> Option<String> {
        let asked = self.0.fetch_add(1, Ordering::Relaxed);
        Some(format!("# TYPE carried counter\ncarried_total {asked}\n# EOF\n"))
    }
}

/// The messages in a field of a message, in order.
fn messages(message: &[u8], number: u64) -> Vec<&[u8]> {
    let fields = Fields::new(message).filter_map(|field| match field {
        (found, Field::Bytes(bytes)) if found == number => Some(bytes),
        _ => None,
    });
    fields.collect()
}

/// Spans or metrics of a request.
fn items(request: &[u8]) -> Vec<&[u8]> {
    let of_resource = messages(request, 1)[0];
    messages(messages(of_resource, 2)[0], 2)
}

#[tokio::test]
async fn spans_are_exported_with_the_resource_and_counted() {
    let mut collector = FakeCollector::start().await;
    let statistics = Arc::new(Statistics::default());
    let options =
        collector.options(&[("OTEL_METRICS_EXPORTER", "none"), ("OTEL_EXPORTER_OTLP_HEADERS", "key=one")]);
    let exporter = Exporter::start_counted(options, (), Arc::clone(&statistics)).expect("a thread");
    let mut tracer = exporter.tracer().expect("there are traces");
    let recorded = span(&mut tracer);
    let trace = recorded.context.trace;
    tracer.record(recorded);
    let (head, body) = collector.request().await;
    assert!(head.starts_with("post /v1/traces http/1.1\r\n"), "{head}");
    assert!(
        head.contains("content-type: application/x-protobuf\r\n") && head.contains("key: one\r\n"),
        "{head}"
    );
    let spans = items(&body);
    assert_eq!(
        (spans.len(), messages(spans[0], 1)[0], messages(spans[0], 5)[0]),
        (1, &trace.0[..], &b"process orders"[..])
    );
    let resource = messages(messages(&body, 1)[0], 1)[0];
    let service =
        messages(resource, 1).into_iter().find(|attribute| messages(attribute, 1)[0] == b"service.name");
    assert_eq!(messages(messages(service.expect("it is named"), 2)[0], 1)[0], b"tested");
    exporter.shut_down(None).await;
    assert_eq!((statistics.exported(), statistics.requests(Signal::Traces, true)), (1, 1));
}

#[tokio::test]
async fn what_fails_for_a_while_is_tried_again_and_what_is_refused_is_not() {
    let mut collector = FakeCollector::start().await;
    collector.answers(&["503 Service Unavailable\r\n", "200 OK\r\n", "400 Bad Request\r\n"]);
    let statistics = Arc::new(Statistics::default());
    let options = collector.options(&[("OTEL_METRICS_EXPORTER", "none")]);
    let exporter = Exporter::start_counted(options, (), Arc::clone(&statistics)).expect("a thread");
    let mut tracer = exporter.tracer().expect("there are traces");
    let one = span(&mut tracer);
    tracer.record(one);
    let (first, second) = (collector.request().await, collector.request().await);
    assert_eq!(first.1, second.1, "the same again");
    let other = span(&mut tracer);
    tracer.record(other);
    collector.request().await;
    exporter.shut_down(None).await;
    assert_eq!((statistics.exported(), statistics.dropped(Dropped::Refused)), (1, 1));
    assert_eq!(statistics.requests(Signal::Traces, false), 2);
}

#[tokio::test]
async fn the_last_spans_and_metrics_are_exported_at_the_end() {
    let mut collector = FakeCollector::start().await;
    let statistics = Arc::new(Statistics::default());
    // Longer than this test.
    let options = collector.options(&[("OTEL_METRIC_EXPORT_INTERVAL", "3600000")]);
    let Options { traces: Some(traces), metrics, resource } = options else { panic!("there are traces") };
    let traces = Some(TraceOptions { delay: Duration::from_secs(3_600), ..traces });
    let options = Options { traces, metrics, resource };
    let exporter = Exporter::start_counted(options, (), Arc::clone(&statistics)).expect("a thread");
    let mut tracer = exporter.tracer().expect("there are traces");
    let last = span(&mut tracer);
    tracer.record(last);
    exporter.shut_down(Some("# TYPE carried counter\ncarried_total 7\n# EOF\n".to_owned())).await;
    let mut paths = [collector.request().await, collector.request().await].map(|(head, body)| {
        let path = head.split(' ').nth(1).map(str::to_owned).expect("it has a path");
        (path, items(&body).len())
    });
    paths.sort();
    assert_eq!(paths, [("/v1/metrics".to_owned(), 1), ("/v1/traces".to_owned(), 1)]);
}

#[tokio::test]
async fn metrics_are_asked_for_at_their_interval() {
    let mut collector = FakeCollector::start().await;
    let asked = Arc::new(AtomicUsize::new(0));
    let options =
        collector.options(&[("OTEL_TRACES_EXPORTER", "none"), ("OTEL_METRIC_EXPORT_INTERVAL", "100")]);
    let exporter =
        Exporter::start_counted(options, Page(Arc::clone(&asked)), Arc::default()).expect("a thread");
    assert!(exporter.tracer().is_none());
    for number in 0..2_u32 {
        let (head, body) = collector.request().await;
        assert!(head.starts_with("post /v1/metrics "), "{head}");
        let metric = items(&body)[0];
        assert_eq!(messages(metric, 1)[0], b"carried_total");
        let point = messages(messages(metric, 7)[0], 1)[0];
        let value = f64::from(number).to_le_bytes();
        assert!(point.windows(8).any(|window| window == value), "{point:?}");
    }
    exporter.shut_down(None).await;
    assert!(asked.load(Ordering::Relaxed) >= 2);
}

#[tokio::test]
async fn a_collector_that_is_away_costs_the_spans_that_do_not_fit_and_nothing_else() {
    let unused = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = unused.local_addr().expect("bound");
    drop(unused);
    let collector = FakeCollector::start().await;
    let statistics = Arc::new(Statistics::default());
    let options = collector.options(&[("OTEL_BSP_MAX_QUEUE_SIZE", "10"), ("OTEL_METRICS_EXPORTER", "none")]);
    let Options { traces: Some(mut traces), metrics, resource } = options else { panic!("there are traces") };
    traces.collector.url = format!("http://{address}/v1/traces").parse().expect("a URL");
    let options = Options { traces: Some(traces), metrics, resource };
    let exporter = Exporter::start_counted(options, (), Arc::clone(&statistics)).expect("a thread");
    let mut tracer = exporter.tracer().expect("there are traces");
    for _ in 0..1_000 {
        let span = span(&mut tracer);
        tracer.record(span);
    }
    exporter.shut_down(None).await;
    let dropped = (statistics.dropped(Dropped::QueueFull), statistics.dropped(Dropped::Undelivered));
    assert_eq!(dropped.0 + dropped.1, 1_000, "{dropped:?}");
    assert!(dropped.1 >= 10, "{dropped:?}");
    assert_eq!(statistics.exported(), 0);
}
