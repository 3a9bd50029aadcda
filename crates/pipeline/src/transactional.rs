//! What `settlement: transactional` asks of a pipeline.

use settings::{Document, SettingsError};

use super::file::{Pipeline, Sink, Source};
use super::service_bus::{Send, ServiceBusSink, ServiceBusSource};
use super::vocabulary::Settlement;

/// Checks that messages can be settled so, if it is asked for.
pub(super) fn check(document: &Document, pipeline: &Pipeline) -> Result<(), SettingsError> {
    let mistake = |path: &str, reason: &str, advice: &str| Err(document.mistake(path, reason, advice));
    if pipeline.settlement == Settlement::Separate {
        return Ok(());
    }
    let source = match &pipeline.source {
        Source::ServiceBus(source) => source,
        Source::Kafka(_) => {
            let reason = "records of Kafka are not settled";
            return mistake("settlement", reason, "use `delivery: exactly-once` from topic to topic");
        }
        Source::EventHubs(_) => {
            let reason = "Event Hubs has no transactions, and its events are not settled";
            return mistake("settlement", reason, "leave it out; events arrive at least once");
        }
    };
    let mut sinks = pipeline.sinks();
    let (Some((section, sink)), None) = (sinks.next(), sinks.next()) else {
        let reason = "with transactional settlement there is one sink";
        return mistake("sinks", reason, "name one, or leave out `settlement`");
    };
    let Sink::ServiceBus(sink) = sink else {
        let reason = "a transaction is within one namespace of Service Bus";
        return mistake(&section, reason, "send to `service_bus`, or leave out `settlement`");
    };
    check_ends(document, source, sink, &format!("{section}.service_bus"))
}

/// Both ends are reached over one connection.
fn check_ends(
    document: &Document,
    source: &ServiceBusSource,
    sink: &ServiceBusSink,
    section: &str,
) -> Result<(), SettingsError> {
    let mistake = |key: &str, reason: &str, advice: &str| {
        Err(document.mistake(&format!("{section}.{key}"), reason, advice))
    };
    let (ours, theirs) = (&source.connection_string, &sink.connection_string);
    if ours.endpoint != theirs.endpoint || ours.security != theirs.security {
        let reason = "it is of another namespace than the source's, and a transaction is within one";
        return mistake(
            "connection_string",
            reason,
            "name an entity of the same namespace, or leave out `settlement`",
        );
    }
    if matches!(sink.send, Send::Batch) {
        let reason = "with transactional settlement a transaction has many messages, each sent by itself";
        return mistake("send", reason, "leave it out");
    }
    if sink.transport != source.transport {
        let reason = "with transactional settlement source and sink share a connection";
        return mistake("transport", reason, "say the same of both");
    }
    if sink.certificate_authority.is_some() && sink.certificate_authority != source.certificate_authority {
        let reason = "with transactional settlement source and sink share a connection";
        return mistake("certificate_authority", reason, "put it into `source.service_bus`");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PipelineConfig, SourceConfig};

    const SOURCE: &str = "source: {service_bus: {connection_string: 'Endpoint=sb://one.example;SharedAccessKeyName=a;\
                          SharedAccessKey=b', queue: in}}\n";
    const SINK: &str = "sink: {service_bus: {connection_string: 'Endpoint=sb://one.example;SharedAccessKeyName=c;\
                        SharedAccessKey=d', queue: out}}\n";
    const ASKED: &str = "settlement: transactional\n";

    fn read(text: &str) -> Result<PipelineConfig, SettingsError> {
        PipelineConfig::from_document(&Document::parse("pipeline.yaml", text)?)
    }

    fn settlement(text: &str) -> Settlement {
        match read(text).expect("a whole pipeline").source {
            SourceConfig::ServiceBus(source) => source.settlement,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn messages_are_settled_by_themselves_unless_it_is_said() {
        assert_eq!(settlement(&format!("{SOURCE}{SINK}")), Settlement::Separate);
        assert_eq!(settlement(&format!("{SOURCE}{SINK}settlement: separate\n")), Settlement::Separate);
        // The ends may have different keys.
        assert_eq!(settlement(&format!("{SOURCE}{SINK}{ASKED}")), Settlement::Transactional);
        let to_topic = SINK.replace("queue: out", "topic: out");
        let of_subscription = SOURCE.replace("queue: in", "topic: in, subscription: all");
        let listed = to_topic.replace("sink: ", "sinks: [").replace("}}\n", "}}]\n");
        assert_eq!(settlement(&format!("{of_subscription}{listed}{ASKED}")), Settlement::Transactional);
    }

    #[test]
    fn who_asks_for_exactly_once_between_queues_is_told_how() {
        let refused = read(&format!("{SOURCE}{SINK}delivery: exactly-once\n")).expect_err("it is for topics");
        let advice = refused.mistake().and_then(settings::Mistake::advice);
        assert!(advice.is_some_and(|advice| advice.contains("settlement: transactional")));
    }

    #[test]
    fn what_can_not_be_one_transaction_is_refused_with_its_place() {
        let hub = "{event_hubs: {connection_string: 'Endpoint=sb://one.example;SharedAccessKeyName=a;SharedAccessKey=b', \
                   hub: events}}";
        let topic = "{kafka: {bootstrap: 'localhost:9092', topic: events}}";
        let store = "checkpoint: {store: {files: .}}\n";
        for (text, told) in [
            (format!("source: {hub}\n{SINK}{store}{ASKED}"), "`settlement`: Event Hubs has no transactions"),
            (
                format!("source: {topic}\n{SINK}{store}{ASKED}"),
                "pipeline.yaml:4:13: `settlement`: records of Kafka are not settled",
            ),
            (format!("{SOURCE}sink: {hub}\n{ASKED}"), "`sink`: a transaction is within one namespace"),
            (
                format!("{SOURCE}sinks: [{hub}, {topic}]\n{ASKED}"),
                "`sinks`: with transactional settlement there is one sink",
            ),
            (
                format!("{SOURCE}{}{ASKED}", SINK.replace("one.example", "two.example")),
                "pipeline.yaml:2:41: `sink.service_bus.connection_string`: it is of another namespace",
            ),
            (
                format!("{SOURCE}{}{ASKED}", SINK.replace("out}", "out, send: batch}")),
                "`sink.service_bus.send`: with transactional settlement a transaction has many messages",
            ),
            (
                format!("{SOURCE}{}{ASKED}", SINK.replace("out}", "out, transport: web-socket}")),
                "`sink.service_bus.transport`: with transactional settlement source and sink share",
            ),
            (
                format!("{SOURCE}{}{ASKED}", SINK.replace("out}", "out, certificate_authority: ca.pem}")),
                "`sink.service_bus.certificate_authority`: with transactional settlement source and sink share",
            ),
            (
                format!("{SOURCE}{SINK}delivery: exactly-once\n"),
                "`delivery`: exactly-once delivery is from a topic of Kafka to another",
            ),
            (format!("{SOURCE}{SINK}settlement: exactly-once\n"), "pipeline.yaml:3:13: "),
        ] {
            let message = read(&text).expect_err("there is a mistake").to_string();
            assert!(message.contains(told), "{text}\ngave: {message}");
        }
    }
}
