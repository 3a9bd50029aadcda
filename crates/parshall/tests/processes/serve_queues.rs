//! `parshall serve` with queues and topics: what it prints, and what it says of a file that is wrong.

use crate::serving::{Serving, serve};

/// What the Service Bus emulator of Microsoft is started with, comments included.
const EMULATORS_CONFIG: &str = r#"{
  // One namespace, as there.
  "UserConfig": {
    "Namespaces": [
      {
        "Name": "sbemulatorns",
        "Queues": [
          {
            "Name": "queue.1",
            "Properties": {
              "DeadLetteringOnMessageExpiration": false,
              "DefaultMessageTimeToLive": "PT1H",
              "DuplicateDetectionHistoryTimeWindow": "PT20S",
              "ForwardDeadLetteredMessagesTo": "",
              "ForwardTo": "",
              "LockDuration": "PT1M",
              "MaxDeliveryCount": 3,
              "RequiresDuplicateDetection": false,
              "RequiresSession": true
            }
          }
        ],
        "Topics": [
          {
            "Name": "topic.1",
            "Properties": { "DefaultMessageTimeToLive": "PT1H" },
            "Subscriptions": [
              {
                "Name": "subscription.1",
                "Properties": { "LockDuration": "PT1M", "MaxDeliveryCount": 3 },
                "Rules": [
                  {
                    "Name": "app-prop-filter-1",
                    "Properties": {
                      "FilterType": "Correlation",
                      "CorrelationFilter": {
                        "ContentType": "application/text", /* and so on */
                        "Properties": { "prop1": "value1" }
                      }
                    }
                  },
                  {
                    "Name": "user-prop-filter-1",
                    "Properties": {
                      "FilterType": "Sql",
                      "SqlFilter": { "SqlExpression": "sys.MessageId = '123' AND userProp1 = 'value1'" },
                      "Action": { "SqlExpression": "SET sys.To = 'Entity'" }
                    }
                  }
                ]
              },
              { "Name": "subscription.2" }
            ]
          }
        ]
      }
    ],
    "Logging": { "Type": "File" } // "Console", "Console,File"
  }
}
"#;

/// Our own words for a bit of everything.
const OUR_CONFIG: &str = "\
hubs:
  - {name: events, partitions: 2}
queues:
  - {name: jobs, lock_duration: 30 s, forward_dead_lettered_messages_to: graveyard}
  - name: graveyard
topics:
  - name: news
    subscriptions:
      - name: all
      - name: red
        rules:
          - {name: red, filter: {sql: \"color = 'red'\"}, action: REMOVE color}
";

/// What is said of a file named `name` that can't be served.
fn refused(name: &str, content: &str) -> String {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join(name), content).unwrap();
    let output = serve(&["--config", name])
        .env("PARSHALL_LOG", "error")
        .current_dir(directory.path())
        .output()
        .unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(2), &b""[..]));
    String::from_utf8(output.stderr).unwrap()
}

fn serving(name: &str, content: &str) -> Serving {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(name);
    std::fs::write(&path, content).unwrap();
    Serving::start(&["--config", path.to_str().unwrap()])
}

#[test]
fn the_emulators_configuration_is_served_as_it_is() {
    let serving = serving("Config.json", EMULATORS_CONFIG);
    for (label, entity) in [
        ("queue.1 (queue, sessions)", "EntityPath=queue.1;"),
        ("topic.1 (topic: subscription.1, subscription.2)", "EntityPath=topic.1;"),
    ] {
        let string = serving.announced(label);
        assert!(string.contains(entity) && string.ends_with("UseDevelopmentEmulator=true"), "{string}");
    }
    assert!(!serving.announced("namespace").contains("EntityPath"));
}

#[test]
fn one_namespace_has_hubs_queues_and_topics() {
    let serving = serving("mine.yaml", OUR_CONFIG);
    for label in ["events (2 partitions)", "jobs (queue)", "graveyard (queue)", "news (topic: all, red)"] {
        assert!(serving.announced(label).starts_with("Endpoint=sb://"));
    }
}

#[test]
fn the_metrics_cover_each_queue_and_subscription() {
    let serving = serving("mine.yaml", OUR_CONFIG);
    let metrics = serving.answer("Metrics");
    for entity in ["jobs", "graveyard", "news/Subscriptions/red"] {
        let line = format!("\nparshall_hub_queue_messages{{entity=\"{entity}\",state=\"available\"}} 0\n");
        assert!(metrics.contains(&line), "{metrics}");
    }
}

#[test]
fn queues_and_topics_of_the_command_line_take_the_place_of_the_default_hub() {
    let serving = Serving::start(&["--queue", "jobs", "--topic", "news:all,audit"]);
    serving.announced("jobs (queue)");
    serving.announced("news (topic: all, audit)");
    assert!(!serving.announcement.contains("partition"));
}

#[test]
fn a_mistake_of_the_command_line_is_reported_with_the_argument() {
    for (arguments, expected) in [
        (&["--queue", "jobs", "--queue", "JOBS"][..], "--queue: there is a queue with the name \"JOBS\""),
        (&["--queue", "jobs", "--topic", "jobs:all"], "--topic: there is a queue with the name \"jobs\""),
        (&["--topic", "news:all,,audit"], "--topic: \"\" is not a valid name for a subscription"),
    ] {
        let output = serve(arguments).env("PARSHALL_LOG", "error").output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(told.contains(expected), "{told}");
    }
}

#[test]
fn a_mistake_in_the_emulators_configuration_is_reported_with_its_place() {
    let refused = |from: &str, to: &str| {
        let content = EMULATORS_CONFIG.replacen(from, to, 1);
        assert_ne!(content, EMULATORS_CONFIG);
        refused("Config.json", &content)
    };
    insta::assert_snapshot!("emulator_key", refused("LockDuration", "LockDurations"));
    insta::assert_snapshot!("emulator_duration", refused("PT1M", "1 min"));
    insta::assert_snapshot!("emulator_sql", refused("123' AND", "123' &&"));
    insta::assert_snapshot!("emulator_name", refused("subscription.2", "Subscription.1"));
    insta::assert_snapshot!("emulator_forward", refused("\"ForwardTo\": \"\"", "\"ForwardTo\": \"x\""));
    let through_the_topic = EMULATORS_CONFIG
        .replace("\"ForwardTo\": \"\"", "\"ForwardTo\": \"topic.1\"")
        .replace(
            "\"subscription.2\" }",
            "\"subscription.2\", \"Properties\": { \"ForwardTo\": \"queue.1\" } }",
        )
        .replace("\"RequiresSession\": true", "\"RequiresSession\": false");
    insta::assert_snapshot!("emulator_circle", self::refused("Config.json", &through_the_topic));
}

#[test]
fn a_mistake_in_our_configuration_is_reported_with_its_place() {
    let refused_whole = |content: &str| refused("mine.yaml", content);
    let refused = |from: &str, to: &str| {
        let content = OUR_CONFIG.replacen(from, to, 1);
        assert_ne!(content, OUR_CONFIG);
        refused("mine.yaml", &content)
    };
    insta::assert_snapshot!("ours_entities", refused_whole("queue:\n  - name: jobs\n"));
    insta::assert_snapshot!("ours_size", refused("30 s", "30 s, size_limit: 0 B"));
    insta::assert_snapshot!("ours_key", refused("lock_duration", "lock_time"));
    insta::assert_snapshot!("ours_name", refused("graveyard\n", "Jobs\n"));
    insta::assert_snapshot!("ours_forward", refused("to: graveyard", "to: events"));
    insta::assert_snapshot!("ours_sql", refused("color = 'red'\"", "color = red AND\""));
    insta::assert_snapshot!(
        "ours_circle",
        refused(
            "  - name: graveyard\n",
            "  - {name: graveyard, forward_to: archive}\n  - {name: archive, forward_to: graveyard}\n"
        )
    );
    insta::assert_snapshot!("ours_filter", refused("{sql: \"color = 'red'\"}", "red"));
}
