//! Names, keys, growth and deletion, in memory and on disk.

use super::hubs::MAXIMUM_TOTAL_PARTITIONS;
use super::*;

fn namespace(config: &NamespaceConfig) -> Result<Namespace, NamespaceError> {
    Namespace::new(config, UnixTime::from_milliseconds(77))
}

#[test]
fn hubs_are_found_whatever_the_case_and_beneath_a_path() {
    let config = NamespaceConfig::with_hubs(vec![HubConfig::new("Orders", 2), HubConfig::new("a/b", 1)]);
    let namespace = namespace(&config).unwrap();
    assert_eq!(namespace.hub("oRDERS").unwrap().name(), "Orders");
    assert!(namespace.hub("order").is_none());
    for (path, name) in [("orders/Partitions/0", "Orders"), ("ORDERS", "Orders"), ("a/b/Partitions/0", "a/b")]
    {
        assert_eq!(namespace.hub_above(path).unwrap().name(), name);
    }
    for path in ["", "/", "a", "a/", "a/c", "orders2/Partitions/0", "é/"] {
        assert!(namespace.hub_above(path).is_none(), "{path}");
    }
    assert_eq!(namespace.hub("orders").unwrap().created_at().milliseconds(), 77);
}

#[test]
fn hubs_of_one_name_and_one_instant_have_ids_of_their_own() {
    let orders = HubConfig::new("orders", 1);
    let namespace = namespace(&NamespaceConfig::with_hubs(vec![orders.clone()])).unwrap();
    let mut ids = HashSet::from([namespace.hub("orders").unwrap().id()]);
    for _ in 0..3 {
        namespace.delete_hub("orders").unwrap();
        let made = namespace.create_hub(&orders, UnixTime::from_milliseconds(77)).unwrap();
        assert!(ids.insert(made.id()), "{ids:?}");
    }
}

#[test]
fn a_configuration_that_makes_no_sense_is_refused_with_the_place_of_the_mistake() {
    let config = NamespaceConfig::with_hubs(vec![HubConfig::new("one", 1)]);
    let refusal = |change: &dyn Fn(&mut NamespaceConfig)| {
        let mut config = config.clone();
        change(&mut config);
        namespace(&config).unwrap_err()
    };
    assert!(namespace(&config).is_ok());
    assert_eq!(refusal(&|c| c.host.clear()), NamespaceError::Host { host: String::new() });
    assert_eq!(refusal(&|c| c.authorization_rules.clear()), NamespaceError::NoRule);
    let empty = |field| NamespaceError::EmptyRule { index: 0, field };
    assert_eq!(refusal(&|c| c.authorization_rules[0].name.clear()), empty("name"));
    assert_eq!(refusal(&|c| c.authorization_rules[0].key = "".into()), empty("key"));
    assert_eq!(refusal(&|c| c.authorization_rules[0].rights.clear()), empty("rights"));
    let repeated = NamespaceError::RepeatedHub { index: 1, name: "ONE".into() };
    assert_eq!(refusal(&|c| c.hubs.push(HubConfig::new("ONE", 1))), repeated);
    let no_partition = NamespaceError::Hub { index: 0, cause: HubError::PartitionCount { count: 0 } };
    assert_eq!(refusal(&|c| c.hubs[0].partitions = 0), no_partition);
}

#[test]
fn the_well_known_key_and_no_verification_both_mean_open_to_anyone() {
    let mut config = NamespaceConfig::with_hubs(vec![]);
    assert!(namespace(&config).unwrap().is_open_to_anyone());
    config.authorization_rules[0].key = "private".into();
    assert!(!namespace(&config).unwrap().is_open_to_anyone());
    config.signatures = SignaturePolicy::AcceptAny;
    assert!(namespace(&config).unwrap().is_open_to_anyone());
}

#[test]
fn a_short_configuration_gets_the_defaults_and_an_unknown_key_is_an_error() {
    let config: NamespaceConfig =
        serde_json::from_str(r#"{"hubs": [{"name": "one", "partitions": 2}]}"#).unwrap();
    assert_eq!(config, NamespaceConfig::with_hubs(vec![HubConfig::new("one", 2)]));
    let text = serde_json::to_string(&config).unwrap();
    assert_eq!(serde_json::from_str::<NamespaceConfig>(&text).unwrap(), config);
    let unknown = r#"{"hubs": [{"name": "one", "partitions": 2, "partitons": 3}]}"#;
    let error = serde_json::from_str::<NamespaceConfig>(unknown).unwrap_err();
    assert!(error.to_string().contains("partitons"), "{error}");
    assert!(!format!("{config:?}").contains(DEVELOPMENT_KEY_VALUE));
}

#[test]
fn many_partitions_are_declared_without_a_block_of_memory() {
    let hubs = (0..10).map(|number| HubConfig::new(format!("hub{number}"), 1000)).collect();
    let namespace = namespace(&NamespaceConfig::with_hubs(hubs)).unwrap();
    assert_eq!(namespace.hubs().iter().map(|hub| hub.partitions().len()).sum::<usize>(), 10_000);
    assert_eq!(namespace.counters(), CounterValues::default());
}

#[test]
fn connections_of_a_thread_are_served_while_a_change_of_it_waits_for_the_disk() {
    let directory = tempfile::tempdir().unwrap();
    let mut config = NamespaceConfig::with_hubs(vec![HubConfig::new("orders", 1)]);
    let options = partition_log::disk::StorageOptions::default();
    config.storage = Some(StorageConfig { directory: directory.path().to_owned(), options });
    let namespace = Arc::new(namespace(&config).unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let ((begins, begun), (serves, served)) = (std::sync::mpsc::channel(), std::sync::mpsc::channel());
    let patience = Duration::from_secs(60);
    let changing = namespace.entities.change(|_until_the_disk_is_done| {
        let namespace = Arc::clone(&namespace);
        let changing = runtime.spawn(async move {
            begins.send(()).unwrap();
            namespace.delete_hub("orders")
        });
        begun.recv_timeout(patience).unwrap();
        runtime.spawn(async move { serves.send(()) });
        served.recv_timeout(patience).expect("it is served before the change is done");
        changing
    });
    runtime.block_on(changing).unwrap().unwrap();
    namespace.close().unwrap();
}

#[test]
fn clients_can_not_create_partitions_without_end() {
    let declared: Vec<HubConfig> =
        (1..=4).map(|number| HubConfig::new(format!("hub{number}"), MAXIMUM_PARTITIONS)).collect();
    let namespace = namespace(&NamespaceConfig::with_hubs(declared[..3].to_vec())).unwrap();
    let now = UnixTime::from_milliseconds(1);
    let refused = |result: Result<(), EntityError>| match result {
        Err(EntityError::TotalPartitions { existing, added }) => (existing, added),
        other => panic!("{other:?}"),
    };
    assert_eq!(MAXIMUM_TOTAL_PARTITIONS, 4 * usize::from(MAXIMUM_PARTITIONS));
    namespace.create_hub(&HubConfig::new("small", 1), now).unwrap();
    let excess = (3 * usize::from(MAXIMUM_PARTITIONS) + 1, usize::from(MAXIMUM_PARTITIONS));
    assert_eq!(refused(namespace.check_hub(&declared[3])), excess);
    assert_eq!(refused(namespace.create_hub(&declared[3], now).map(drop)), excess);
    namespace.grow_hub("small", MAXIMUM_PARTITIONS - 1).unwrap();
    namespace.create_hub(&HubConfig::new("last", 1), now).unwrap();
    let excess = (MAXIMUM_TOTAL_PARTITIONS, 1);
    assert_eq!(refused(namespace.check_growth("last", 2)), excess);
    assert_eq!(refused(namespace.grow_hub("last", 2).map(drop)), excess);
    namespace.delete_hub("hub1").unwrap();
    namespace.create_hub(&declared[3], now).unwrap();
}

#[test]
fn clients_can_not_create_entities_and_subscriptions_without_end() {
    let namespace = namespace(&NamespaceConfig::with_hubs(vec![])).unwrap();
    let now = UnixTime::from_milliseconds(1);
    let facts = || EntityFacts::of(now);
    let maximum = |result: Result<(), AdministrationError>| match result {
        Err(AdministrationError::TooMany { maximum, .. }) => maximum,
        other => panic!("{other:?}"),
    };
    namespace.create_topic(&TopicConfig::new("news", []), facts()).unwrap();
    let subscribe = |number: usize| {
        let config = SubscriptionConfig::new(format!("subscription{number}"));
        namespace.create_subscription("news", &config, facts(), now).map(drop)
    };
    (0..2_000).for_each(|number| subscribe(number).unwrap());
    assert_eq!(maximum(subscribe(2_000)), 2_000);
    namespace.delete_subscription("news", "subscription7", now).unwrap();
    subscribe(2_000).unwrap();
    let create = |number: usize| namespace.create_queue(&QueueConfig::new(format!("queue{number}")), facts());
    (1..10_000).for_each(|number| drop(create(number).unwrap()));
    assert_eq!(maximum(create(10_000).map(drop)), 10_000);
    assert_eq!(maximum(namespace.create_topic(&TopicConfig::new("more", []), facts()).map(drop)), 10_000);
    namespace.delete_queue_or_topic("queue7").unwrap();
    create(10_000).unwrap();
}
