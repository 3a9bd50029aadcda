//! Which right each link and request over AMQP needs, and each request over HTTP: the tables of `docs/rights.md`, which these are, walked
//! with a key for each right.

use std::time::{Duration, SystemTime};

use access::{Right, SharedAccessKey};
use amqp::Value;
use test_peer::queue_client::{QueueClient, map, message};

use crate::identity::request::ask;
use crate::rest::client::Client as RestClient;
use crate::service_bus::rights::{guarded, with_key};

/// What is needed: one of these rights.
type Needs = &'static [Right];

const SEND: Needs = &[Right::Send];
const LISTEN: Needs = &[Right::Listen];
const MANAGE: Needs = &[Right::Manage];
const ANY: Needs = &[Right::Listen, Right::Send, Right::Manage];

/// Which way a link goes, seen from its client.
#[derive(Clone, Copy, Debug)]
enum Way {
    To,
    From,
}

const LINKS: &[(Way, &str, Needs)] = &[
    (Way::To, "events", SEND),
    (Way::To, "events/Partitions/0", SEND),
    (Way::To, "events/Publishers/me", SEND),
    (Way::From, "events/ConsumerGroups/$Default/Partitions/0", LISTEN),
    (Way::To, "orders", SEND),
    (Way::From, "orders", LISTEN),
    (Way::From, "orders/$DeadLetterQueue", LISTEN),
    (Way::From, "orders/$Transfer/$DeadLetterQueue", LISTEN),
    (Way::To, "news", SEND),
    (Way::From, "news/Subscriptions/all", LISTEN),
    (Way::From, "news/Subscriptions/all/$DeadLetterQueue", LISTEN),
];

/// Requests to `ENTITY/$management`.
const REQUESTS: &[(&str, &str, Needs)] = &[
    ("orders", "peek-message", LISTEN),
    ("orders/$DeadLetterQueue", "peek-message", LISTEN),
    ("news/Subscriptions/all", "peek-message", LISTEN),
    ("news", "peek-message", LISTEN),
    ("orders", "batch-delete-messages", LISTEN),
    ("orders", "renew-lock", LISTEN),
    ("orders", "update-disposition", LISTEN),
    ("orders", "receive-by-sequence-number", LISTEN),
    ("talks", "renew-session-lock", LISTEN),
    ("talks", "get-session-state", LISTEN),
    ("talks", "set-session-state", LISTEN),
    ("talks", "get-message-sessions", LISTEN),
    ("orders", "schedule-message", SEND),
    ("news", "schedule-message", SEND),
    ("orders", "cancel-scheduled-message", SEND),
    ("news/Subscriptions/all", "add-rule", &[Right::Listen, Right::Manage]),
    ("news/Subscriptions/all", "remove-rule", &[Right::Listen, Right::Manage]),
    ("news/Subscriptions/all", "enumerate-rules", &[Right::Listen, Right::Manage]),
];

/// Requests to `$management`, with the type of what they are about.
const HUB_REQUESTS: &[(&str, &str, Needs)] = &[
    ("READ", "com.microsoft:eventhub", ANY),
    ("READ", "com.microsoft:partition", ANY),
    ("READ", "com.microsoft:consumergroup", ANY),
    ("QUERY", "com.microsoft:consumergroup", ANY),
    ("CREATE", "com.microsoft:consumergroup", MANAGE),
    ("DELETE", "com.microsoft:consumergroup", MANAGE),
    ("CREATE", "com.microsoft:eventhub", MANAGE),
    ("DELETE", "com.microsoft:eventhub", MANAGE),
];

const LOCATION: &str = "/orders/messages/1/01234567-89ab-cdef-0123-456789abcdef";

const HTTP: &[(&str, &str, Needs)] = &[
    ("POST", "/events/messages", SEND),
    ("POST", "/events/partitions/0/messages", SEND),
    ("POST", "/events/publishers/me/messages", SEND),
    ("POST", "/orders/messages", SEND),
    ("POST", "/news/messages", SEND),
    ("POST", "/orders/messages/head?timeout=0", LISTEN),
    ("DELETE", "/orders/messages/head?timeout=0", LISTEN),
    ("DELETE", LOCATION, LISTEN),
    ("PUT", LOCATION, LISTEN),
    ("POST", LOCATION, LISTEN),
    ("GET", "/$Resources/EventHubs", ANY),
    ("GET", "/events", ANY),
    ("GET", "/events/consumergroups", ANY),
    ("GET", "/events/consumergroups/$Default/partitions/0", ANY),
    ("GET", "/$namespaceinfo", ANY),
    ("GET", "/$Resources/Queues", MANAGE),
    ("GET", "/$Resources/Topics", MANAGE),
    ("GET", "/orders", MANAGE),
    ("GET", "/news/subscriptions", MANAGE),
    ("GET", "/news/subscriptions/all", MANAGE),
    ("GET", "/news/subscriptions/all/rules", MANAGE),
    ("PUT", "/orders", MANAGE),
    ("PUT", "/news/subscriptions/all", MANAGE),
    ("PUT", "/news/subscriptions/all/rules/rule", MANAGE),
    ("DELETE", "/news/subscriptions/all/rules/rule", MANAGE),
    ("DELETE", "/news/subscriptions/all", MANAGE),
    ("DELETE", "/news", MANAGE),
    ("DELETE", "/orders", MANAGE),
];

/// A key for each right. That to manage has the others as well, as in the service.
const KEYS: [(&str, Needs); 3] = [("sender", SEND), ("listener", LISTEN), ("manager", ANY)];

fn is_enough(holds: Needs, needs: Needs) -> bool {
    needs.iter().any(|right| holds.contains(right))
}

#[tokio::test]
async fn links_are_for_the_keys_of_the_table() {
    let service = guarded().await;
    let mut clients = Vec::new();
    for (name, holds) in KEYS {
        clients.push((with_key(&service, name).await, holds));
    }
    clients.push((QueueClient::connect(service.amqp_address()).await, &[]));
    for (way, address, needs) in LINKS {
        for (client, holds) in &mut clients {
            let attached = match way {
                Way::To => client.sender(address).await.map(drop),
                Way::From => client.ask_to_receive(address, |_| {}).await.map(drop),
            };
            let refusal = attached.err().map(|error| error.condition.as_str().to_owned());
            let expected = (!is_enough(holds, needs)).then(|| "amqp:unauthorized-access".to_owned());
            assert_eq!(refusal, expected, "{way:?} {address} with {holds:?}");
        }
    }
    service.stop().await;
}

#[tokio::test]
async fn requests_to_a_node_are_for_the_keys_of_the_table_whatever_else_is_wrong_with_them() {
    let service = guarded().await;
    let rule = map(&[("true-filter", map(&[]))]);
    let messages = map(&[("message", Value::Binary(message(b"later")))]);
    let body = [
        ("rule-name", Value::from("r")),
        ("rule-description", rule),
        ("messages", Value::List(vec![messages])),
    ];
    for (entity, operation, needs) in REQUESTS {
        for (name, holds) in KEYS {
            let mut client = with_key(&service, name).await;
            let answer = client.request(entity, operation, &body).await;
            assert_eq!(answer.status != 401, is_enough(holds, needs), "{name}: {operation} of {entity}");
        }
        let mut nobody = QueueClient::connect(service.amqp_address()).await;
        let answer = nobody.request(entity, operation, &body).await;
        assert_eq!(answer.condition.as_deref(), Some("amqp:unauthorized-access"), "{operation}");
    }
    service.stop().await;
}

#[tokio::test]
async fn requests_about_hubs_are_for_the_keys_of_the_table() {
    let service = guarded().await;
    for (operation, kind, needs) in HUB_REQUESTS {
        for (name, holds) in KEYS.into_iter().chain([("nobody", &[][..])]) {
            let mut client = match name {
                "nobody" => QueueClient::connect(service.amqp_address()).await,
                _ => with_key(&service, name).await,
            };
            let fields = [
                ("operation", Value::from(*operation)),
                ("type", Value::from(*kind)),
                ("entityType", Value::from(*kind)),
                ("name", Value::from("events")),
                ("partition", Value::from("0")),
                ("consumer_group", Value::from("$Default")),
            ];
            let reply = client.exchange("$management", &fields, &Value::Null).await;
            let (status, text) = test_peer::status_and_description(&reply);
            assert_eq!(status != 401, is_enough(holds, needs), "{name}: {operation} {kind}: {status} {text}");
        }
    }
    service.stop().await;
}

#[tokio::test]
async fn requests_over_http_are_for_the_keys_of_the_table() {
    for (method, target, needs) in HTTP {
        let service = guarded().await;
        for (name, holds) in KEYS {
            let until = SystemTime::now() + Duration::from_secs(600);
            let token = SharedAccessKey::new(name, format!("{name} value")).sign("http://localhost/", until);
            let mut client = RestClient::connect_with(service.amqp_address(), &token).await;
            let reply = client.ask(method, target, "", b"").await;
            let is_refused = matches!(reply.status, 401 | 403);
            assert_eq!(!is_refused, is_enough(holds, needs), "{name}: {method} {target}: {}", reply.head);
        }
        let reply = ask(service.amqp_address(), method, target, &[], "").await;
        assert_eq!(reply.status, 401, "{method} {target} without a token");
        service.stop().await;
    }
}

fn one_of(needs: Needs) -> String {
    match needs.len() {
        3 => "any".to_owned(),
        _ => needs.iter().map(|right| format!("{right:?}")).collect::<Vec<_>>().join(" or "),
    }
}

#[test]
fn the_tables_of_the_documents_are_these() {
    let document = include_str!("../../../docs/rights.md");
    let mut links = String::from("| link | needs |\n|---|---|\n");
    for (way, address, needs) in LINKS {
        let way = match way {
            Way::To => "to",
            Way::From => "from",
        };
        links.push_str(&format!("| {way} `{address}` | {} |\n", one_of(needs)));
    }
    let mut requests = String::from("| request | to | needs |\n|---|---|---|\n");
    for (entity, operation, needs) in REQUESTS {
        requests.push_str(&format!("| `{operation}` | `{entity}/$management` | {} |\n", one_of(needs)));
    }
    for (operation, kind, needs) in HUB_REQUESTS {
        requests.push_str(&format!("| `{operation}` `{kind}` | `$management` | {} |\n", one_of(needs)));
    }
    let mut http = String::from("| request | needs |\n|---|---|\n");
    for (method, target, needs) in HTTP {
        http.push_str(&format!("| `{method} {target}` | {} |\n", one_of(needs)));
    }
    for table in [links, requests, http] {
        assert!(document.contains(&table), "docs/rights.md should have this table:\n{table}");
    }
}
