//! What `delivery: exactly-once` asks of a pipeline, and what follows from it.

use settings::{Document, SettingsError};

use super::TransactionsConfig;
use super::file::{Pipeline, Sink, Source, Store};
use super::kafka::KafkaClient;
use super::kafka_ends::KafkaSource;
use super::poison::PoisonEvents;
use super::topics::TOPIC;
use super::vocabulary::{Delivery, Route};

/// Checks that events can be delivered so, if it is asked for.
pub(super) fn check(document: &Document, pipeline: &Pipeline) -> Result<(), SettingsError> {
    let mistake = |path: &str, reason: &str, advice: &str| Err(document.mistake(path, reason, advice));
    if pipeline.delivery == Delivery::AtLeastOnce {
        return Ok(());
    }
    let Source::Kafka(source) = &pipeline.source else {
        let reason = "exactly-once delivery is from a topic of Kafka to another";
        let advice = match &pipeline.source {
            Source::ServiceBus(_) => {
                "between entities of one namespace of Service Bus use `settlement: transactional`"
            }
            _ => "leave it out, or read from `source: {kafka: ...}`",
        };
        return mistake("delivery", reason, advice);
    };
    let mut sinks = pipeline.sinks();
    let (Some((section, sink)), None) = (sinks.next(), sinks.next()) else {
        let reason = "with exactly-once delivery there is one sink";
        return mistake("sinks", reason, "name one, or leave out `delivery`");
    };
    let Sink::Kafka(sink) = sink else {
        let reason = "exactly-once delivery is from a topic of Kafka to another";
        return mistake(&section, reason, "send to `kafka`, or leave out `delivery`");
    };
    if source.topics.is_some() && sink.transactional_id().is_some_and(|id| !id.contains(TOPIC)) {
        let path = format!("{section}.kafka.properties.transactional.id");
        let reason = "each topic needs transactions of its own";
        return mistake(&path, reason, "put `{topic}` into it, or leave it out");
    }
    for (section, client) in [("source", source.client), (section.as_str(), sink.client)] {
        if client != KafkaClient::Native {
            let path = format!("{section}.kafka.client");
            return mistake(&path, "only the native client delivers exactly once", "leave it out");
        }
    }
    if !matches!(pipeline.route, Route::SamePartition) {
        let reason = "with exactly-once delivery events stay in their partition";
        return mistake("route", reason, "add `route: same-partition`, or leave out `delivery`");
    }
    if let Some(checkpoint) = &pipeline.checkpoint {
        if !matches!(checkpoint.store, Store::Group) {
            let reason = "with exactly-once delivery progress is committed with the events";
            return mistake("checkpoint.store", reason, "set it to `group`, or leave out `checkpoint`");
        }
        if checkpoint.wait {
            let reason = "with exactly-once delivery events and progress are one transaction";
            return mistake("checkpoint.wait", reason, "leave it out");
        }
        if document.value("checkpoint.write").is_some() {
            let reason = "it has no effect: each transaction writes the progress";
            return mistake("checkpoint.write", reason, "leave it out");
        }
    }
    if pipeline.ownership.is_shared() {
        let reason = "with exactly-once delivery partitions can't be shared by claims";
        let advice = "leave it out; relays may divide them by `source.kafka.partitions`";
        return mistake("ownership", reason, advice);
    }
    if matches!(pipeline.poison_events, PoisonEvents::DeadLetter(_)) {
        let reason = "a dead-letter file or sink is no part of a transaction";
        return mistake("poison_events", reason, "use `hold` or `stop`, or leave out `delivery`");
    }
    if pipeline.in_flight != 1 {
        let reason = "with exactly-once delivery a partition has one send at a time";
        return mistake("in_flight", reason, "leave it out: a transaction has those of all partitions");
    }
    if pipeline.dispatch.strategy.is_some() {
        let reason = "with exactly-once delivery a transaction has the events of all partitions";
        return mistake("dispatch", reason, "leave the strategy out");
    }
    if pipeline.failure_ratio > 0.0 {
        let reason = "with exactly-once delivery no failures are injected";
        return mistake("failure_ratio", reason, "leave it out");
    }
    Ok(())
}

/// The transactions of a pipeline that was checked, if it has any.
pub(super) fn transactions(pipeline: &Pipeline) -> Option<TransactionsConfig> {
    let (Delivery::ExactlyOnce, Source::Kafka(source)) = (pipeline.delivery, &pipeline.source) else {
        return None;
    };
    let Some((_, Sink::Kafka(sink))) = pipeline.sinks().next() else {
        return None;
    };
    let id = sink.transactional_id().map_or_else(|| made_up_id(source), str::to_owned);
    Some(TransactionsConfig { id, sink: sink.options() })
}

/// The same for relays that read the same as the same group, and no other: of two such, the younger one alone may go on.
fn made_up_id(source: &KafkaSource) -> String {
    let mut id = format!("{}/{}", source.group, source.topic().unwrap_or_default());
    if let Some(partitions) = &source.partitions {
        let mut sorted = partitions.clone();
        sorted.sort_unstable();
        let follows = |one: &u32, other: &u32| one.checked_add(1) == Some(*other);
        let ranges = sorted.chunk_by(follows).map(|range| match range {
            [first, .., last] => format!("{first}-{last}"),
            [only] => only.to_string(),
            [] => String::new(),
        });
        id.push('/');
        id.push_str(&ranges.collect::<Vec<_>>().join(","));
    }
    id
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CheckpointStoreConfig, PipelineConfig};

    const HERE: &str = "bootstrap: 'localhost:9092'";
    const LEAST: &str = "delivery: exactly-once\nroute: same-partition\n";

    /// A pipeline between topics, with these keys of either end, and `more`.
    fn read(source: &str, sink: &str, more: &str) -> Result<PipelineConfig, SettingsError> {
        read_text(&format!(
            "source:\n  kafka: {{topic: orders, {source}}}\nsink:\n  kafka: {{topic: copies, {sink}}}\n{more}"
        ))
    }

    fn read_text(text: &str) -> Result<PipelineConfig, SettingsError> {
        PipelineConfig::from_document(&Document::parse("pipeline.yaml", text)?)
    }

    fn id(source: &str, sink: &str) -> String {
        let config = read(source, sink, LEAST).expect("a whole pipeline");
        let transactions = config.transactions().expect("it has transactions");
        assert_eq!(transactions.sink.topic, "copies");
        transactions.id.clone()
    }

    #[test]
    fn the_transactional_id_says_what_is_read_unless_it_is_given() {
        assert_eq!(id(HERE, HERE), "parshall/orders");
        let group = format!("{HERE}, group: mover");
        assert_eq!(id(&group, HERE), "mover/orders");
        assert_eq!(id(&format!("{group}, partitions: [7, 0, 2, 1, 9]"), HERE), "mover/orders/0-2,7,9");
        let given = format!("{HERE}, properties: {{transactional.id: mine, transaction.timeout.ms: 90000}}");
        assert_eq!(id(&group, &given), "mine");
    }

    #[test]
    fn progress_is_kept_by_the_transactions_whether_or_not_it_is_said_to_be_the_groups() {
        for checkpoint in ["", "checkpoint: {store: group}\n"] {
            let config = read(HERE, HERE, &format!("{LEAST}{checkpoint}")).expect("a whole pipeline");
            let store = &config.source.reading().expect("a log").checkpoint_store;
            assert!(matches!(store, CheckpointStoreConfig::Transactions(_)), "{store:?}");
            assert!(config.keeps_partitions());
        }
        let usual = read(HERE, HERE, "delivery: at-least-once\ncheckpoint: {store: group}\n");
        assert_eq!(usual.expect("a whole pipeline").transactions(), None);
    }

    #[test]
    fn what_does_not_go_with_it_is_refused_with_its_place() {
        for (more, told) in [
            (
                "delivery: exactly-once\n",
                "`route`: with exactly-once delivery events stay in their partition",
            ),
            ("delivery: at-most-once\n", "pipeline.yaml:5:11: "),
            (
                &format!("{LEAST}checkpoint: {{store: {{files: .}}}}\n"),
                "pipeline.yaml:7:14: `checkpoint.store`: with exactly-once delivery progress is committed",
            ),
            (
                &format!("{LEAST}checkpoint: {{store: group, write: {{every: 1 s}}}}\n"),
                "pipeline.yaml:7:28: `checkpoint.write`: it has no effect",
            ),
            (&format!("{LEAST}ownership: greedy\n"), "`ownership`: with exactly-once delivery"),
            (
                &format!("{LEAST}poison_events: {{dead_letter: letters}}\n"),
                "pipeline.yaml:7:1: `poison_events`: a dead-letter file or sink is no part",
            ),
            (&format!("{LEAST}in_flight: 4\n"), "pipeline.yaml:7:12: `in_flight`: "),
            (&format!("{LEAST}failure_ratio: 0.5\n"), "pipeline.yaml:7:16: `failure_ratio`: "),
            ("route: same-partition\n", "`checkpoint`: there is no store for checkpoints"),
        ] {
            let message = read(HERE, HERE, more).expect_err("there is a mistake").to_string();
            assert!(message.contains(told), "{more} gave: {message}");
        }
    }

    #[test]
    fn what_the_ends_have_to_be_is_said() {
        for (source, sink, told) in [
            (HERE, "bootstrap: 'localhost:9092', client: librdkafka", "`sink.kafka.client`: only the native"),
            (
                "bootstrap: 'localhost:9092', client: librdkafka",
                HERE,
                "`source.kafka.client`: only the native",
            ),
            (
                HERE,
                "bootstrap: 'localhost:9092', properties: {acks: 1}",
                "`sink.kafka.properties.acks`: property acks: does not go with exactly-once delivery",
            ),
            (
                HERE,
                "bootstrap: 'localhost:9092', properties: {transactional.id: ''}",
                "property transactional.id: is empty",
            ),
        ] {
            let message = read(source, sink, LEAST).expect_err("there is a mistake").to_string();
            assert!(message.contains(told), "{source} | {sink} gave: {message}");
        }
        let given = format!("{HERE}, properties: {{transactional.id: mine}}");
        let alone =
            read(HERE, &given, "checkpoint: {store: group}\n").expect_err("no transactions").to_string();
        assert!(alone.contains("transactions are for exactly-once delivery"), "{alone}");
        let topic = |name: &str| format!("kafka: {{{HERE}, topic: {name}}}");
        let hub = "event_hubs: {connection_string: 'Endpoint=sb://h/;SharedAccessKeyName=n;SharedAccessKey=a2V5', \
                   hub: orders}";
        for (ends, told) in [
            (
                format!("source:\n  {hub}\nsink:\n  {}\n", topic("a")),
                "`delivery`: exactly-once delivery is from a topic",
            ),
            (
                format!("source:\n  {}\nsink:\n  {hub}\n", topic("a")),
                "`sink`: exactly-once delivery is from a topic",
            ),
            (
                format!("source:\n  {}\nsinks:\n- {}\n- {}\n", topic("a"), topic("b"), topic("c")),
                "`sinks`: with exactly-once delivery there is one sink",
            ),
        ] {
            let message = read_text(&format!("{ends}{LEAST}")).expect_err("there is a mistake").to_string();
            assert!(message.contains(told), "{ends} gave: {message}");
        }
    }
}
