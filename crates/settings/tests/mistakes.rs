//! Every mistake is told with its place, its key, and what to do.
//!
//! Each test reads a document into [`Settings`] and compares the one-line message and the advice in full, because the
//! wording is what a person has to go by.

#![expect(clippy::unwrap_used, reason = "what panics in a test fails it, and says where")]

use miette::Diagnostic as _;
use serde::Deserialize;
use settings::{Document, MistakeKind, SettingsError};

#[derive(Debug, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
struct Settings {
    name: String,
    relay: Relay,
    servers: Vec<Server>,
    encrypted: bool,
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
struct Relay {
    fan_out: u16,
    ratio: f64,
    route: Route,
    limit: Option<units::ByteSize>,
    #[serde(with = "units::duration")]
    wait: std::time::Duration,
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(rename_all = "kebab-case")]
enum Route {
    Random,
    RoundRobin,
    Fixed(u32),
    Weighted { seed: u64 },
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct Server {
    host: String,
    port: u16,
}

impl Default for Settings {
    fn default() -> Self {
        Self { name: String::new(), relay: Relay::default(), servers: Vec::new(), encrypted: true }
    }
}

impl Default for Relay {
    fn default() -> Self {
        let wait = std::time::Duration::from_millis(10);
        Self { fan_out: 1, ratio: 0.0, route: Route::Random, limit: None, wait }
    }
}

fn read(text: &str, set: &[&str]) -> Result<Settings, SettingsError> {
    let mut document = Document::parse("f.yaml", text)?;
    for argument in set {
        document.set(argument)?;
    }
    document.fill_in(|name| match name {
        "PORT" => Some("5671".to_owned()),
        "PASSWORD" => Some("hunter2".to_owned()),
        "STRUCTURE" => Some("{host: a, port: 1}".to_owned()),
        _ => None,
    })?;
    document.typed()
}

fn told(text: &str, set: &[&str]) -> (String, String) {
    let error = read(text, set).unwrap_err();
    let help = error.help().map_or_else(String::new, |help| help.to_string());
    (error.to_string(), help)
}

#[track_caller]
fn assert_told(text: &str, message: &str, help: &str) {
    assert_eq!(told(text, &[]), (message.to_owned(), help.to_owned()));
}

#[test]
fn a_correct_document_is_typed() {
    let text = "name: x\nrelay: {fan_out: 3, ratio: 1, route: round-robin, limit: 1 KiB, wait: 5 s}\n\
                servers:\n  - {host: \"${PORT}\", port: \"${PORT}\"}\nencrypted: false\n";
    let settings = read(text, &[]).unwrap();
    assert_eq!(settings.relay.fan_out, 3);
    assert_eq!(settings.relay.limit.unwrap().bytes(), 1024);
    assert_eq!((settings.servers[0].host.as_str(), settings.servers[0].port), ("5671", 5671));
    assert!(!settings.encrypted);
}

#[test]
fn choices_may_carry_values() {
    assert_eq!(read("relay: {route: {fixed: 7}}", &[]).unwrap().relay.route, Route::Fixed(7));
    assert_eq!(
        read("relay: {route: {weighted: {seed: 7}}}", &[]).unwrap().relay.route,
        Route::Weighted { seed: 7 }
    );
    assert_told(
        "relay: {route: {fixed: x}}",
        "f.yaml:1:24: `relay.route.fixed` must be a whole number from 0 to 4294967295, not the string `x`",
        "",
    );
}

#[test]
fn an_unknown_key_is_reported_with_the_known_ones() {
    assert_told(
        "relay:\n  fan_out: 2\n  raito: 1\n",
        "f.yaml:3:3: `relay.raito` is not a known key",
        "did you mean `ratio`? allowed here: fan_out, ratio, route, limit, wait",
    );
    assert_told(
        "wheel: 1\n",
        "f.yaml:1:1: `wheel` is not a known key",
        "allowed here: name, relay, servers, encrypted",
    );
}

#[test]
fn a_missing_key_is_reported_where_it_is_missing() {
    let help = "add `port: …`";
    assert_told("servers:\n  - host: a\n", "f.yaml:2:5: `servers[0]` lacks the key `port`", help);
}

#[test]
fn a_wrong_type_is_reported_with_what_was_found() {
    assert_told(
        "relay: 5",
        "f.yaml:1:8: `relay` must be a mapping with keys such as `fan_out`, not the number 5",
        "",
    );
    assert_told(
        "encrypted: yes",
        "f.yaml:1:12: `encrypted` must be `true` or `false`, not the string `yes`",
        "",
    );
    assert_told("servers: {a: 1}", "f.yaml:1:10: `servers` must be a list, not a mapping", "");
    assert_told(
        "relay:\n  fan_out: many",
        "f.yaml:2:12: `relay.fan_out` must be a whole number from 0 to 65535, not the string `many`",
        "",
    );
    assert_told(
        "name: 5",
        "f.yaml:1:7: `name` must be a string (quoted if it looks like another type), not the number 5",
        "",
    );
    assert_told(
        "relay:\n",
        "f.yaml:1:6: `relay` must be a mapping with keys such as `fan_out`, not nothing",
        "",
    );
}

#[test]
fn a_number_out_of_range_is_reported_with_its_range() {
    for number in ["65536", "-1", "99999999999"] {
        let message = format!(
            "f.yaml:1:18: `relay.fan_out` must be a whole number from 0 to 65535, not the number {number}"
        );
        assert_told(&format!("relay: {{fan_out: {number}}}"), &message, "");
    }
}

#[test]
fn an_unknown_choice_is_reported_with_the_known_ones() {
    assert_told(
        "relay: {route: roundrobin}",
        "f.yaml:1:16: `relay.route` can't be `roundrobin`",
        "did you mean `round-robin`? allowed: random, round-robin, fixed, weighted",
    );
}

#[test]
fn a_custom_type_reports_its_own_rules_at_the_value() {
    assert_told(
        "relay:\n  wait: 10\n",
        "f.yaml:2:9: `relay.wait`: `10` lacks its unit; write `10 ms`, `10 s` or the like",
        "",
    );
    assert_told(
        "relay: {limit: 1 elephant}",
        "f.yaml:1:16: `relay.limit`: `1 elephant` is not a size; write a number and a unit, such as `16 B`, `64 KiB` or \
         `1 GB`",
        "",
    );
}

#[test]
fn a_missing_variable_is_reported_with_its_place() {
    assert_told(
        "servers:\n  - host: \"sb://${HOST}/\"\n",
        "f.yaml:2:17: `servers[0].host` needs the environment variable `HOST`, which is not set",
        "set it in the environment (`export HOST=…`), or give a default: `${HOST:-default}`",
    );
    assert_told(
        "name: ${HOST:?the namespace, please}\n",
        "f.yaml:1:7: `name` needs the environment variable `HOST`: the namespace, please",
        "set it in the environment (`export HOST=…`), or give a default: `${HOST:-default}`",
    );
    assert_told(
        "name: ${HOST\n",
        "f.yaml:1:7: `name` contains `${` without a variable",
        "write `${NAME}`, `${NAME:-default}` or `${NAME:?message}`; `$${` is a plain `${`",
    );
}

#[test]
fn the_value_of_a_variable_is_never_shown_and_never_becomes_structure() {
    for text in
        ["relay: {fan_out: \"${PASSWORD}\"}", "encrypted: ${PASSWORD}", "relay: {route: \"${PASSWORD}\"}"]
    {
        let error = read(text, &[]).unwrap_err();
        let shown = format!("{error} {error:?} {:?}", error.help().map(|help| help.to_string()));
        assert!(!shown.contains("hunter2"), "{shown}");
        assert!(shown.contains("the value of a variable"), "{shown}");
    }
    let (message, _) = told("relay:\n  limit: ${PASSWORD}\n", &[]);
    assert!(message.starts_with("f.yaml:2:10: `relay.limit`: `***` is not a size"), "{message}");
    let mut document = Document::parse("f.yaml", "name: ${PASSWORD}").unwrap();
    document.fill_in(|_| Some("hunter2".to_owned())).unwrap();
    assert!(!format!("{document:?}").contains("hunter2"));
    let (message, _) = told("servers:\n  - ${STRUCTURE}\n", &[]);
    assert_eq!(
        message,
        "f.yaml:2:5: `servers[0]` must be a mapping with keys such as `host`, not the value of a variable"
    );
}

#[test]
fn a_set_argument_overrides_and_its_mistakes_point_into_it() {
    assert_eq!(read("relay: {fan_out: 2}", &["relay.fan_out=3"]).unwrap().relay.fan_out, 3);
    assert_eq!(read("", &["relay.wait=1 s", "servers=[{host: a, port: 1}]"]).unwrap().servers.len(), 1);
    let told = |argument| told("relay: {fan_out: 2}", &[argument]);
    let known = "did you mean `fan_out`? allowed here: fan_out, ratio, route, limit, wait";
    assert_eq!(
        told("relay.fanout=3"),
        ("--set:1:7: `relay.fanout` is not a known key".to_owned(), known.to_owned())
    );
    assert_eq!(
        told("relay.fan_out=many").0,
        "--set:1:15: `relay.fan_out` must be a whole number from 0 to 65535, not the string `many`"
    );
    assert_eq!(
        told("relay.fan_out.x=3").0,
        "--set:1:15: `relay.fan_out` must be a whole number from 0 to 65535, not a mapping"
    );
    assert_eq!(told("wheel.size=3").0, "--set:1:1: `wheel` is not a known key");
    for malformed in ["relay.fan_out", "=3", "relay..fan_out=3", ".=1", ""] {
        let error = read("", &[malformed]).unwrap_err();
        assert_eq!(error.mistake().unwrap().kind, MistakeKind::MalformedAssignment, "{malformed:?}");
    }
    assert!(told("relay={fan_out: 3").0.starts_with("--set:1:7: "));
}

#[test]
fn text_that_is_no_yaml_is_reported_with_its_place() {
    for (text, place) in
        [("a: [1, 2\n", "f.yaml:"), ("a: 1\na: 2\n", "f.yaml:2:1: "), ("a: *b\n", "f.yaml:1:4: ")]
    {
        let (message, _) = told(text, &[]);
        assert!(message.starts_with(place), "{message}");
    }
    let error = read("---\na: 1\n---\nb: 1\n", &[]).unwrap_err();
    assert!(matches!(error.mistake().unwrap().kind, MistakeKind::Syntax { .. }));
}

#[test]
fn keys_that_carry_control_characters_do_not_reach_the_terminal() {
    let (message, _) = told("\"\\e[31mred\": 1\n", &[]);
    assert!(!message.contains('\u{1b}'), "{message:?}");
}

#[test]
fn aliases_work_and_are_bounded() {
    let settings = read("servers: [&a {host: x, port: 1}, *a]", &[]).unwrap();
    assert_eq!(settings.servers.len(), 2);

    let mut laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let previous = vec![format!("*a{}", level - 1); 10].join(", ");
        laughs.push_str(&format!("a{level}: &a{level} [{previous}]\n"));
    }
    assert!(matches!(read(&laughs, &[]).unwrap_err().mistake().unwrap().kind, MistakeKind::Syntax { .. }));
}

#[test]
fn depth_and_size_are_bounded() {
    for deep in ["[".repeat(100_000), "a: {".repeat(100_000), "- ".repeat(100_000)] {
        assert!(read(&deep, &[]).is_err());
    }
    let wide = format!("name: {}\n", "x".repeat(2 << 20));
    assert!(matches!(read(&wide, &[]).unwrap_err().mistake().unwrap().kind, MistakeKind::BeyondLimit { .. }));
    let many = "- x\n".repeat(100_000);
    assert!(read(&many, &[]).is_err());
}

#[test]
fn a_file_that_cannot_be_read_is_reported_with_its_path() {
    let error = Document::read(std::path::Path::new("/nonexistent/x.yaml")).unwrap_err();
    assert!(error.to_string().starts_with("`/nonexistent/x.yaml` can't be read: "), "{error}");
    // An endless file ends at the limit.
    assert!(Document::read(std::path::Path::new("/dev/zero")).is_err());
}

#[test]
fn a_rule_over_several_values_points_at_the_nearest_part_that_is_there() {
    let document = Document::parse("f.yaml", "name: a\nrelay:\n  fan_out: 9\n").unwrap();
    let place = |path| document.mistake(path, "no", "").to_string();
    assert_eq!(place("relay.fan_out"), "f.yaml:3:12: `relay.fan_out`: no");
    assert_eq!(place("relay.wait"), "f.yaml:2:1: `relay.wait`: no");
    assert_eq!(place("servers"), "f.yaml:1:1: `servers`: no");
}

#[test]
fn a_key_may_have_dots_of_its_own() {
    let mut document = Document::parse("f.yaml", "ends:\n- client: {linger.ms: 5, acks: all}\n").unwrap();
    let written = |document: &Document, path| document.value(path).map(settings::Node::written);
    assert_eq!(written(&document, "ends[0].client.linger.ms").as_deref(), Some("5"));
    assert_eq!(written(&document, "ends[0].client.linger"), None);
    let mistake = document.mistake("ends[0].client.linger.ms", "no", "").to_string();
    assert_eq!(mistake, "f.yaml:2:23: `ends[0].client.linger.ms`: no");

    document = Document::parse("f.yaml", "client: {linger.ms: 5}\n").unwrap();
    document.set("client.linger.ms=6").unwrap();
    document.set("client.fetch.wait=7").unwrap();
    let client = document.value("client").unwrap();
    assert_eq!(client.value("linger.ms").map(settings::Node::written).as_deref(), Some("6"));
    assert_eq!(client.entries().len(), 2, "the one that was there has a new value");
    assert_eq!(
        written(&document, "client.fetch.wait").as_deref(),
        Some("7"),
        "a new one is parted at its dots"
    );
}

#[test]
fn sections_are_overlaid_key_by_key() {
    let text = "relay: {fan_out: 2, ratio: 0.5}\nquick: {relay: {fan_out: 1}, name: q}\n";
    let mut document = Document::parse("f.yaml", text).unwrap();
    let quick = document.take("quick").unwrap();
    document.overlay(&quick);
    let settings: Settings = document.typed().unwrap();
    assert_eq!((settings.relay.fan_out, settings.relay.ratio, settings.name.as_str()), (1, 0.5, "q"));
}

proptest::proptest! {
    #[test]
    fn no_document_panics(text in "[a-c:{}\\[\\]&*!|>'\"$%@`#,?\\- \\n\\t\\\\]{0,60}", argument in "[a-c.={}$ ]{0,20}") {
        let _ = read(&text, &[]);
        let _ = read("a: 1", &[&argument]);
    }
}
