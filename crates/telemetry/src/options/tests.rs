//! What variables and files say, right and wrong.

use super::*;

fn read(settings: &Settings, variables: &[(&str, &str)]) -> (Option<Options>, Vec<String>) {
    Options::new("parshall-relay", settings, |name| {
        variables.iter().find(|(other, _)| *other == name).map(|(_, value)| (*value).to_owned())
    })
}

fn options(variables: &[(&str, &str)]) -> Options {
    let (options, mistakes) = read(&Settings::default(), variables);
    assert!(mistakes.is_empty(), "{mistakes:?}");
    options.expect("something is exported")
}

const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318");

#[test]
fn nothing_is_exported_unless_an_endpoint_is_given() {
    assert_eq!(read(&Settings::default(), &[]), (None, Vec::new()));
    assert_eq!(read(&Settings::default(), &[("OTEL_TRACES_SAMPLER", "always_on")]).0, None);
    assert_eq!(read(&Settings::default(), &[ENDPOINT, ("OTEL_SDK_DISABLED", "true")]).0, None);
    let none = [ENDPOINT, ("OTEL_TRACES_EXPORTER", "none"), ("OTEL_METRICS_EXPORTER", "none")];
    assert_eq!(read(&Settings::default(), &none).0, None);
}

#[test]
fn one_percent_is_traced_unless_something_else_is_asked_for() {
    let sampler = |variables: &[(&str, &str)]| {
        let all = [&[ENDPOINT], variables].concat();
        let sampler = options(&all).traces.expect("there are traces").sampler;
        (sampler.respects_parent, sampler.ratio)
    };
    const SAMPLER: &str = "OTEL_TRACES_SAMPLER";
    const ARG: &str = "OTEL_TRACES_SAMPLER_ARG";
    assert_eq!(sampler(&[]), (true, 0.01));
    assert_eq!(sampler(&[(ARG, "0.5")]), (true, 0.5));
    assert_eq!(sampler(&[(SAMPLER, "traceidratio")]), (false, 1.0));
    assert_eq!(sampler(&[(SAMPLER, "parentbased_traceidratio"), (ARG, "0.25")]), (true, 0.25));
    assert_eq!(sampler(&[(SAMPLER, "always_on"), (ARG, "0.25")]), (false, 1.0));
    assert_eq!(sampler(&[(SAMPLER, "parentbased_always_off")]), (true, 0.0));
}

#[test]
fn signals_go_below_the_endpoint_or_to_one_of_their_own() {
    let urls = |variables: &[(&str, &str)]| {
        let Options { traces, metrics, .. } = options(variables);
        let url = |collector: Collector| collector.url.to_string();
        (traces.map(|traces| url(traces.collector)), metrics.map(|metrics| url(metrics.collector)))
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(
        urls(&[ENDPOINT]),
        (some("http://collector:4318/v1/traces"), some("http://collector:4318/v1/metrics"))
    );
    let below = [("OTEL_EXPORTER_OTLP_ENDPOINT", "https://collector/otlp/")];
    assert_eq!(urls(&below).0, some("https://collector/otlp/v1/traces"));
    let own = [("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://traces:9/in")];
    assert_eq!(urls(&own), (some("http://traces:9/in"), None));
}

#[test]
fn the_file_comes_before_the_environment() {
    let settings = Settings {
        endpoint: Some("http://here:1".to_owned()),
        traces: Some(0.5),
        metrics: Some(Duration::from_secs(5)),
    };
    let (options, _) = read(&settings, &[ENDPOINT, ("OTEL_METRIC_EXPORT_INTERVAL", "1000")]);
    let Options { traces: Some(traces), metrics: Some(metrics), .. } = options.expect("both") else {
        panic!("both are exported");
    };
    assert_eq!(traces.collector.url, "http://here:1/v1/traces");
    assert_eq!((traces.sampler.ratio, metrics.every), (0.5, Duration::from_secs(5)));
    let off = Settings { traces: Some(0.0), metrics: Some(Duration::ZERO), ..settings.clone() };
    assert_eq!(read(&off, &[]).0, None);
    assert_eq!(read(&settings, &[("OTEL_SDK_DISABLED", "true")]).0, None);
}

#[test]
fn headers_times_and_compression_are_read() {
    let collector = |variables: &[(&str, &str)]| {
        let all = [&[ENDPOINT], variables].concat();
        options(&all).metrics.expect("there are metrics").collector
    };
    let read = collector(&[
        ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20b, x-tenant=7"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "2500"),
        ("OTEL_EXPORTER_OTLP_METRICS_COMPRESSION", "gzip"),
        ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/etc/ca.pem"),
    ]);
    assert_eq!(read.headers["api-key"], "a b");
    assert_eq!(read.headers["x-tenant"], "7");
    assert!(!format!("{:?}", read.headers).contains("a b"), "credentials are not shown");
    assert_eq!((read.timeout, read.gzip), (Duration::from_millis(2_500), true));
    assert_eq!(read.certificate_authority, Some("/etc/ca.pem".into()));
}

#[test]
fn the_process_is_named_by_the_variables() {
    let named = |variables: &[(&str, &str)]| {
        let all = [&[ENDPOINT], variables].concat();
        options(&all).resource
    };
    let has = |resource: &[(String, String)], name: &str, value: &str| {
        resource.iter().filter(|(other, _)| other == name).map(|(_, value)| value).eq([value])
    };
    assert!(has(&named(&[]), "service.name", "parshall-relay"));
    const ATTRIBUTES: &str = "OTEL_RESOURCE_ATTRIBUTES";
    let resource = named(&[(ATTRIBUTES, "service.name=one,deployment.environment.name=t%C3%A9st")]);
    assert!(has(&resource, "service.name", "one"));
    assert!(has(&resource, "deployment.environment.name", "tést"));
    let resource = named(&[(ATTRIBUTES, "service.name=one"), ("OTEL_SERVICE_NAME", "other")]);
    assert!(has(&resource, "service.name", "other"));
}

#[test]
fn instances_are_random_uuids() {
    let (one, other) = (instance(), instance());
    assert_ne!(one, other);
    assert_eq!((one.len(), one.matches('-').count()), (36, 4), "{one}");
    assert_eq!(&one[14..15], "4", "{one}");
    assert!(["8", "9", "a", "b"].contains(&&one[19..20]), "{one}");
}

#[test]
fn mistakes_are_told_without_values_and_do_not_matter_otherwise() {
    let (options, mistakes) = read(
        &Settings::default(),
        &[
            ENDPOINT,
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "secret"),
            ("OTEL_TRACES_SAMPLER", "xray"),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "many"),
            ("OTEL_RESOURCE_ATTRIBUTES", "team"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "zstd"),
        ],
    );
    let options = options.expect("it is exported all the same");
    assert_eq!(options.traces.expect("with the usual options").queue_maximum, 2_048);
    for name in ["PROTOCOL", "HEADERS", "SAMPLER", "QUEUE_SIZE", "RESOURCE_ATTRIBUTES", "COMPRESSION"] {
        assert!(mistakes.iter().any(|mistake| mistake.contains(name)), "{name}: {mistakes:?}");
    }
    assert!(mistakes.iter().all(|mistake| !mistake.contains("secret")), "{mistakes:?}");
    for endpoint in ["collector:4318", "ftp://collector", "http://me:secret@collector", "http://"] {
        let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)];
        let (options, mistakes) = read(&Settings::default(), &variables);
        assert_eq!(options, None, "{endpoint}");
        assert!(!mistakes.is_empty() && mistakes.iter().all(|it| !it.contains("secret")), "{mistakes:?}");
    }
}
