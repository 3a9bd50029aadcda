//! Topics: copies for each subscription, by its rules.

use amqp::Value;
use amqp::message::{FORMAT_AMQP, encode};
use amqp::performative::DeliveryState;
use hub::namespace::TopicConfig;

use crate::service_bus::client::{Client, map, service};

fn coloured(color: &str, payload: &[u8]) -> Vec<u8> {
    let mut message = Vec::new();
    encode::application_properties(&mut message, &[("color", color.into())]);
    encode::data(&mut message, payload);
    message
}

#[tokio::test]
async fn each_subscription_gets_what_its_rules_let_through_as_a_copy_of_its_own() {
    let service = service(vec![], vec![TopicConfig::new("news", ["all", "red"])]).await;
    let mut client = Client::connect(service.amqp_address()).await;
    let red = "news/Subscriptions/red";
    let answer = client.request(red, "remove-rule", &[("rule-name", "$Default".into())]).await;
    assert_eq!(answer.status, 200);
    let filter = map(&[("sql-filter", map(&[("expression", "color = 'red'".into())]))]);
    let rule = [("rule-name", Value::from("reds")), ("rule-description", filter)];
    assert_eq!(client.request(red, "add-rule", &rule).await.status, 200);
    let answer = client.request(red, "add-rule", &rule).await;
    assert_eq!(answer.status, 409);
    let condition = answer.condition.unwrap();
    assert_eq!(condition, "com.microsoft:entity-already-exists");

    let (sender, _) = client.sender("news").await.unwrap();
    for (color, payload) in [("red", b"1"), ("blue", b"2"), ("red", b"3")] {
        let message = coloured(color, payload);
        let outcome = client.send_message(sender, FORMAT_AMQP, &message).await;
        assert_eq!(outcome, DeliveryState::Accepted);
    }
    let all = client.receiver("news/subscriptions/all", 10).await;
    let received = client.receive(all, 3).await;
    let answer = client.settle(&received[0], DeliveryState::Accepted).await;
    assert_eq!(answer, DeliveryState::Accepted);
    let reds = client.receiver(red, 10).await;
    let received = client.receive(reds, 2).await;
    let payloads: Vec<_> = received.iter().map(|message| message.payload()).collect();
    assert_eq!(payloads, [b"1", b"3"]);
}

#[tokio::test]
async fn rules_are_sent_as_clients_read_them() {
    let service = service(vec![], vec![TopicConfig::new("news", ["all"])]).await;
    let mut client = Client::connect(service.amqp_address()).await;
    let subscription = "news/Subscriptions/all";
    let page = [("top", Value::Int(i32::MAX)), ("skip", Value::Int(0))];
    let answer = client.request(subscription, "enumerate-rules", &page).await;
    let Some(Value::List(rules)) = answer.body.get("rules") else { panic!("{answer:?}") };
    let Some(Value::Described(rule)) = rules[0].get("rule-description") else { panic!("{rules:?}") };
    assert_eq!(rule.0, Value::Ulong(0x0137_0000_0004));
    let Value::List(fields) = &rule.1 else { panic!("{rule:?}") };
    assert_eq!(fields[2], "$Default".into());
    let next = [("top", Value::Int(10)), ("skip", Value::Int(1))];
    let answer = client.request(subscription, "enumerate-rules", &next).await;
    assert_eq!(answer.status, 204);
    for name in ["zebra", "Ant", "bee"] {
        let rule = map(&[("true-filter", map(&[]))]);
        let rule = [("rule-name", Value::from(name)), ("rule-description", rule)];
        assert_eq!(client.request(subscription, "add-rule", &rule).await.status, 200);
    }
    let answer = client.request(subscription, "enumerate-rules", &page).await;
    let Some(Value::List(rules)) = answer.body.get("rules") else { panic!("{answer:?}") };
    let name = |rule: &Value| match rule.get("rule-description") {
        Some(Value::Described(rule)) => match &rule.1 {
            Value::List(fields) => fields[2].clone(),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    };
    let names: Vec<Value> = rules.iter().map(name).collect();
    assert_eq!(names, ["$Default", "Ant", "bee", "zebra"].map(Value::from));
    let answer = client.request(subscription, "remove-rule", &[("rule-name", "none".into())]).await;
    assert_eq!(answer.status, 404);
}
