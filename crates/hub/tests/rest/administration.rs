//! Queues, topics, subscriptions and rules, created, changed and deleted.

use std::time::{Duration, SystemTime};

use hub::namespace::{NamespaceConfig, RightConfig, RuleConfig};
use hub::service::{Protocol, Service, ServiceConfig};
use partition_log::UnixTime;
use queue_store::Entity;

use crate::rest::client::{Client, namespace, service};

const CHANGE: &str = "If-Match: *\r\n";

fn entry(kind: &str, content: &str) -> Vec<u8> {
    format!(
        r#"<?xml version="1.0" encoding="utf-8"?><entry xmlns="http://www.w3.org/2005/Atom"><content type="application/xml"><{kind} xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect" xmlns:i="http://www.w3.org/2001/XMLSchema-instance">{content}</{kind}></content></entry>"#
    )
    .into()
}

fn queue(content: &str) -> Vec<u8> {
    entry("QueueDescription", content)
}

/// A namespace whose key `reader` may listen.
fn with_reader() -> NamespaceConfig {
    let mut namespace = namespace();
    namespace.authorization_rules.push(RuleConfig {
        name: "reader".into(),
        key: "reader-key".into(),
        rights: vec![RightConfig::Listen],
    });
    namespace
}

#[tokio::test]
async fn entities_are_created_changed_told_and_deleted() {
    let service = service().await;
    let mut client = Client::connect(service.amqp_address()).await;
    let steps = [
        ("PUT", "/Team%2FNew?api-version=2021-05", "", queue("<MaxDeliveryCount>3</MaxDeliveryCount>"), 201),
        ("PUT", "/team/new", "", queue(""), 409),
        ("PUT", "/team/new", "", entry("TopicDescription", ""), 409),
        ("PUT", "/events", "", queue(""), 409),
        ("PUT", "/team/new/", CHANGE, queue("<LockDuration>PT5S</LockDuration>"), 200),
        ("PUT", "/team/other", CHANGE, queue(""), 404),
        ("PUT", "/papers", "", entry("TopicDescription", ""), 201),
        ("PUT", "/papers/Subscriptions/all", "", entry("SubscriptionDescription", ""), 201),
        ("PUT", "/papers/Subscriptions/all", "", entry("SubscriptionDescription", ""), 409),
        ("PUT", "/nothing/Subscriptions/all", "", entry("SubscriptionDescription", ""), 404),
        (
            "PUT",
            "/papers/Subscriptions/all/Rules/red",
            "",
            entry(
                "RuleDescription",
                r#"<Filter i:type="SqlFilter"><SqlExpression>a = 1</SqlExpression></Filter>"#,
            ),
            201,
        ),
        ("PUT", "/papers/Subscriptions/all/Rules/blue", CHANGE, entry("RuleDescription", ""), 404),
        ("GET", "/papers/subscriptions/ALL/rules/RED", "", vec![], 200),
        ("DELETE", "/papers/Subscriptions/all/Rules/red", "", vec![], 200),
        ("DELETE", "/papers/Subscriptions/all/Rules/red", "", vec![], 404),
        ("GET", "/papers/Subscriptions/all/Rules", "", vec![], 200),
        ("GET", "/$namespaceinfo", "", vec![], 200),
        ("DELETE", "/papers", "", vec![], 200),
        ("GET", "/papers/Subscriptions/all", "", vec![], 404),
    ];
    for (method, target, fields, body, status) in steps {
        let reply = client.ask(method, target, fields, &body).await;
        assert_eq!(reply.status, status, "{method} {target}: {}", reply.text());
        if status >= 400 {
            assert!(
                reply.text().starts_with(&format!("<Error><Code>{status}</Code><Detail>")),
                "{}",
                reply.text()
            );
        }
    }
    let told = client.ask("GET", "/TEAM/new", "", b"").await;
    for expected in [
        "<title type=\"text\">Team/New</title>",
        "<MaxDeliveryCount>3<",
        "<LockDuration>PT5S<",
        "<Status>Active<",
    ] {
        assert!(told.text().contains(expected), "{expected}: {}", told.text());
    }
    let Some(Entity::Queue(queue)) = service.namespace().queue_or_topic("team/new") else {
        panic!("no queue")
    };
    assert_eq!(queue.options().lock_duration, Duration::from_secs(5));
    assert_eq!(client.ask("DELETE", "/team/new", "", b"").await.status, 200);
    assert!(queue.is_deleted());
    service.stop().await;
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_and_named() {
    let service = service().await;
    let mut client = Client::connect(service.amqp_address()).await;
    let deep = "<a>".repeat(100) + &"</a>".repeat(100);
    let many = "<a/>".repeat(17_000);
    for (target, body, expected) in [
        ("/new", b"".to_vec(), "can't be read"),
        ("/new", b"\xff".to_vec(), "not UTF-8"),
        ("/new", b"<entry/>".to_vec(), "no Atom entry"),
        ("/new", queue(&deep), "nested deeper"),
        ("/new", entry("RelayDescription", ""), "RelayDescription"),
        ("/new", queue("<LockDuration>PT1H</LockDuration>"), "LockDuration"),
        ("/new", queue("<LockDuration>soon</LockDuration>"), "LockDuration"),
        ("/new", queue("<ForwardTo>nowhere</ForwardTo>"), "nowhere"),
        ("/new", queue("<MaxDeliveryCount>2147483648</MaxDeliveryCount>"), "MaxDeliveryCount"),
        (
            "/new",
            queue("<RequiresSession>true</RequiresSession><ForwardTo>orders</ForwardTo>"),
            "RequiresSession",
        ),
        ("/a%20b", queue(""), "is not a valid name for a queue"),
        ("/a%40b", queue(""), "is not a valid name for a queue"),
        ("/a//b", queue(""), "is not a valid name for a queue"),
        (
            "/news/subscriptions/a:b",
            entry("SubscriptionDescription", ""),
            "is not a valid name for a subscription",
        ),
        (
            "/news/subscriptions/all/rules/bad",
            entry(
                "RuleDescription",
                r#"<Filter i:type="SqlFilter"><SqlExpression>a =</SqlExpression></Filter>"#,
            ),
            "character 4",
        ),
        (
            "/news/subscriptions/all/rules/bad",
            entry(
                "RuleDescription",
                r#"<Action i:type="SqlRuleActions"><SqlExpression>SET a = 1</SqlExpression></Action>"#,
            ),
            "SqlRuleActions",
        ),
    ] {
        let reply = client.ask("PUT", target, "", &body).await;
        assert_eq!(reply.status, 400, "{target} {}", reply.text());
        assert!(reply.text().contains(expected), "{expected}: {}", reply.text());
        assert!(reply.text().contains("SubCode=40000"), "{}", reply.text());
    }
    assert_eq!(client.ask("GET", "/$Resources/queues?$top=many", "", b"").await.status, 400);
    assert_eq!(client.ask("PUT", "/$Resources/queues", "", &queue("")).await.status, 405);
    // What is longer than any description is not even read.
    let refused = Client::connect(service.amqp_address()).await.ask("PUT", "/new", "", &queue(&many)).await;
    assert_eq!(refused.status, 413);
    assert!(service.namespace().queue_or_topic("new").is_none());
    service.stop().await;
}

#[tokio::test]
async fn names_and_counts_that_frameworks_choose_are_taken() {
    let service = service().await;
    let mut client = Client::connect(service.amqp_address()).await;
    let never = "<MaxDeliveryCount>2147483647</MaxDeliveryCount>";
    for (name, kind) in [
        ("Contracts/Fault--Shop.Orders/OrderPlaced--", "TopicDescription"),
        ("Shop.Orders/Ping__", "TopicDescription"),
        ("_leading", "QueueDescription"),
        ("-a~b.", "QueueDescription"),
        ("subscriptions", "QueueDescription"),
    ] {
        let content = if kind == "QueueDescription" { never } else { "" };
        let made = client.ask("PUT", &format!("/{name}"), "", &entry(kind, content)).await;
        assert_eq!(made.status, 201, "{name}: {}", made.text());
        let told = client.ask("GET", &format!("/{}", name.to_uppercase()), "", b"").await;
        assert!(told.text().contains(&format!("<title type=\"text\">{name}</title>")), "{}", told.text());
        assert_eq!(told.text().contains(never), kind == "QueueDescription", "{}", told.text());
        assert_eq!(client.ask("POST", &format!("/{name}/messages"), "", b"message").await.status, 201);
    }
    let subscription = "/Shop.Orders/Ping__/subscriptions/_own--";
    assert_eq!(
        client.ask("PUT", subscription, "", &entry("SubscriptionDescription", never)).await.status,
        201
    );
    service.stop().await;
}

#[tokio::test]
async fn texts_are_kept_with_their_blanks() {
    let service = service().await;
    let mut client = Client::connect(service.amqp_address()).await;
    let note = "<UserMetadata> a note\n</UserMetadata>";
    let made = client.ask("PUT", "/noted", "", &queue(note)).await;
    assert!(made.status == 201 && made.text().contains(note), "{}", made.text());
    let path = "/news/subscriptions/all/rules/blanks";
    for content in [
        r#"<Filter i:type="CorrelationFilter"><Label> red </Label><Properties></Properties></Filter><Action i:type="EmptyRuleAction"/>"#,
        r#"<Filter i:type="SqlFilter"><SqlExpression> a = 1 </SqlExpression><CompatibilityLevel>20</CompatibilityLevel></Filter>"#,
    ] {
        let made = client.ask("PUT", path, "", &entry("RuleDescription", content)).await;
        assert!(made.status == 201 && made.text().contains(content), "{}", made.text());
        assert_eq!(client.ask("DELETE", path, "", b"").await.status, 200);
    }
    service.stop().await;
}

#[tokio::test]
async fn entries_repeat_the_clients_keywords_and_feeds_its_address() {
    let service = service().await;
    let mut client = Client::connect(service.amqp_address()).await;
    for rule in ["zebra", "Ant", "bee"] {
        let path = format!("/news/subscriptions/all/rules/{rule}");
        assert_eq!(client.ask("PUT", &path, "", &entry("RuleDescription", "")).await.status, 201);
    }
    for (target, id) in [
        ("/news/Subscriptions", "news/Subscriptions/all"),
        ("/news/subscriptions/ALL", "news/subscriptions/all"),
        ("/news/subscriptions/all/rules/ant", "news/subscriptions/all/rules/Ant"),
        ("/news/Subscriptions/all/Rules", "news/Subscriptions/all/Rules/bee"),
    ] {
        let told = client.ask("GET", target, "", b"").await;
        assert!(told.text().contains(&format!("<id>http://localhost/{id}</id>")), "{}", told.text());
    }
    let told = client.ask("GET", "/news/subscriptions/all/rules?$skip=0&$top=9", "", b"").await;
    let head = "<title type=\"text\">Rules</title>\
                <id>http://localhost/news/subscriptions/all/rules?$skip=0&amp;$top=9</id><updated>";
    assert!(told.text().contains(head), "{}", told.text());
    let places =
        ["$Default", "Ant", "bee", "zebra"].map(|rule| told.text().find(&format!("<Name>{rule}<")).unwrap());
    assert!(places.is_sorted(), "{}", told.text());
    service.stop().await;
}

#[tokio::test]
async fn refusals_name_the_host_that_the_client_uses() {
    let config = with_reader();
    let service = Service::start(ServiceConfig::loopback(config)).await.unwrap();
    let key = access::SharedAccessKey::new("reader", "reader-key");
    let token = key.sign("http://localhost/", SystemTime::now() + Duration::from_secs(60));
    let mut client = Client::connect_with(service.amqp_address(), &token).await;
    for (target, expected) in [
        ("/nothing", "SystemTracker:parshall.test:nothing,"),
        ("/news/subscriptions/all", "endpoint 'sb://parshall.test/news/subscriptions/all'"),
    ] {
        let head =
            format!("GET {target} HTTP/1.1\r\nHost: parshall.test:5300\r\nAuthorization: {token}\r\n\r\n");
        client.write(head.as_bytes()).await;
        let reply = client.reply().await;
        assert!(reply.text().contains(expected), "{}", reply.text());
    }
    service.stop().await;
}

#[tokio::test]
async fn administration_is_served_beside_health_to_clients_with_a_token() {
    let service = service().await;
    let address = service.address(Protocol::Operations).unwrap();
    let at_once = async |method: &str, target: &str, token: Option<&str>, body: &[u8]| {
        let authorization = token.map_or_else(String::new, |token| format!("Authorization: {token}\r\n"));
        let head = format!(
            "{method} {target} HTTP/1.1\r\nHost: localhost:5300\r\n{authorization}Content-Length: {}\r\n\r\n",
            body.len()
        );
        let mut client = Client::connect(address).await;
        client.write(&[head.as_bytes(), body].concat()).await;
        client.reply().await
    };
    let token = crate::rest::client::token("");
    let token = Some(token.as_str());
    let made = at_once("PUT", "/made?api-version=2024-05", token, &queue("")).await;
    assert_eq!(made.status, 201, "{}", made.text());
    assert!(made.text().contains("<id>http://localhost:5300/made</id>"), "{}", made.text());
    assert!(service.namespace().queue_or_topic("made").is_some());
    for (method, target, token, status) in [
        ("GET", "/made?api-version=2024-05", token, 200),
        ("GET", "/$Resources/queues?api-version=2024-05", token, 200),
        ("GET", "/none?api-version=2024-05", token, 404),
        ("GET", "/made?api-version=2024-05", None, 401),
        ("PUT", "/other", None, 401),
        ("PUT", "/other", Some("SharedAccessSignature sr=x&sig=x&se=9999999999&skn=x"), 401),
        ("POST", "/made/messages", token, 404),
        ("GET", "/health", None, 200),
        ("GET", "/health", token, 200),
        ("GET", "/metrics", None, 200),
        ("GET", "/elsewhere", None, 404),
        ("POST", "/health", None, 405),
        ("DELETE", "/made", token, 200),
    ] {
        let reply = at_once(method, target, token, b"").await;
        assert_eq!(reply.status, status, "{method} {target}: {}", reply.text());
    }
    assert!(service.namespace().queue_or_topic("made").is_none());
    service.stop().await;
}

#[tokio::test]
async fn lists_are_told_page_by_page() {
    let service = service().await;
    let mut client = Client::connect(service.amqp_address()).await;
    for number in 0..25 {
        assert_eq!(client.ask("PUT", &format!("/made-{number:02}"), "", &queue("")).await.status, 201);
    }
    let (mut target, mut pages, mut entries) = ("/$Resources/queues?%24skip=0&%24top=10".to_owned(), 0, 0);
    loop {
        let reply = client.ask("GET", &target, "", b"").await;
        pages += 1;
        entries += reply.text().matches("<entry>").count();
        let Some((_, next)) = reply.text().split_once(r#"<link rel="next" href="http://localhost"#) else {
            break;
        };
        target = next.split_once('"').unwrap().0.replace("&amp;", "&");
    }
    // The one of the configuration is among them.
    assert_eq!((pages, entries), (3, 26));
    let beyond = client.ask("GET", "/$Resources/queues?$skip=100", "", b"").await;
    assert!(!beyond.text().contains("<entry>") && beyond.status == 200);
    service.stop().await;
}

#[tokio::test]
async fn a_key_that_may_listen_sees_and_changes_nothing() {
    let service = Service::start(ServiceConfig::loopback(with_reader())).await.unwrap();
    let key = access::SharedAccessKey::new("reader", "reader-key");
    let token = key.sign("http://localhost/", SystemTime::now() + Duration::from_secs(60));
    let mut client = Client::connect_with(service.amqp_address(), &token).await;
    let reads = "Manage,EntityRead claims required for this operation.";
    let denied = |action: &str| format!("Authorization failed for specified action: Manage,{action}.");
    let beneath = |operation: &str| {
        format!(
            "SubCode=40100: Unauthorized : Unauthorized access for '{operation}' operation on endpoint 'sb://localhost/"
        )
    };
    for (method, target, text) in [
        ("GET", "/orders", reads.to_owned()),
        ("GET", "/$Resources/queues", reads.to_owned()),
        ("PUT", "/new", denied("EntityWrite")),
        ("DELETE", "/orders", denied("EntityDelete")),
        ("GET", "/news/subscriptions", beneath("EnumerateSubscriptions")),
        ("GET", "/news/subscriptions/all", beneath("GetSubscription")),
        ("DELETE", "/news/subscriptions/all", beneath("DeleteSubscription")),
        ("PUT", "/news/subscriptions/all/rules/new", beneath("CreateOrUpdateRule")),
    ] {
        let refused = client.ask(method, target, "", &queue("")).await;
        assert_eq!(refused.status, 401, "{method} {target}");
        assert!(refused.text().contains(&text), "{}", refused.text());
        // The service's own clients show the line of the status.
        assert_eq!(refused.head.starts_with("HTTP/1.1 401 SubCode=40100: "), text.starts_with("SubCode"));
    }
    // Nothing of what is not there is told by that.
    assert_eq!(client.ask("GET", "/nothing", "", b"").await.status, 404);
    assert_eq!(client.ask("GET", "/$namespaceinfo", "", b"").await.status, 200);
    assert!(service.namespace().queue_or_topic("orders").is_some());
    service.stop().await;
}

#[tokio::test]
async fn what_nobody_uses_for_as_long_as_its_owner_says_is_deleted() {
    let service = service().await;
    let mut client = Client::connect(service.amqp_address()).await;
    let idle = "<AutoDeleteOnIdle>PT5M</AutoDeleteOnIdle>";
    for (target, body) in [
        ("/used", queue(idle)),
        ("/unused", queue(idle)),
        ("/kept", queue("")),
        ("/news/subscriptions/unused", entry("SubscriptionDescription", idle)),
    ] {
        assert_eq!(client.ask("PUT", target, "", &body).await.status, 201);
    }
    let namespace = service.namespace();
    let after = |seconds| UnixTime::from(SystemTime::now() + Duration::from_secs(seconds));
    assert!(namespace.delete_idle(after(290)).is_some());
    let Some(Entity::Queue(used)) = namespace.queue_or_topic("used") else { panic!("no queue") };
    let request = queue_store::ReceiveRequest {
        mode: queue_store::ReceiveMode::PeekLock,
        session: None,
        messages: 1,
        bytes: 1,
    };
    used.receive(after(200), &request, &mut queue_store::Deliveries::new()).unwrap();
    let next = namespace.delete_idle(after(310)).unwrap();
    assert!(next > after(490) && next < after(510));
    assert!(namespace.queue_or_topic("unused").is_none() && !used.is_deleted());
    assert!(namespace.subscription("news", "unused").is_err());
    assert_eq!(namespace.delete_idle(after(600)), None);
    assert!(used.is_deleted() && namespace.queue_or_topic("kept").is_some());
    service.stop().await;
}
