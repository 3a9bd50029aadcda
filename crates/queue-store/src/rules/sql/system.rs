//! The properties behind `sys.`: those of the message itself, as opposed to those that the application made up.

use amqp::codec::{Symbol, Value};

use super::super::correlation::text_of_id;
use super::super::message::MessageProperties;
use super::operand::Operand;

/// A system property.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SystemProperty {
    MessageId,
    CorrelationId,
    Label,
    To,
    ReplyTo,
    SessionId,
    ReplyToSessionId,
    ContentType,
    PartitionKey,
    SequenceNumber,
    EnqueuedTimeUtc,
    ScheduledEnqueueTimeUtc,
    TimeToLive,
}

impl SystemProperty {
    /// The property of this name, whatever the letter case. `Subject` is what newer clients call the label.
    pub(super) fn find(name: &str) -> Option<Self> {
        if name.eq_ignore_ascii_case("Subject") {
            return Some(Self::Label);
        }
        Self::ALL.into_iter().find(|property| property.name().eq_ignore_ascii_case(name))
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::MessageId => "MessageId",
            Self::CorrelationId => "CorrelationId",
            Self::Label => "Label",
            Self::To => "To",
            Self::ReplyTo => "ReplyTo",
            Self::SessionId => "SessionId",
            Self::ReplyToSessionId => "ReplyToSessionId",
            Self::ContentType => "ContentType",
            Self::PartitionKey => "PartitionKey",
            Self::SequenceNumber => "SequenceNumber",
            Self::EnqueuedTimeUtc => "EnqueuedTimeUtc",
            Self::ScheduledEnqueueTimeUtc => "ScheduledEnqueueTimeUtc",
            Self::TimeToLive => "TimeToLive",
        }
    }

    /// Whether an action may change it: whether it is a text that travels with the message.
    pub(super) const fn is_changeable(self) -> bool {
        matches!(
            self,
            Self::MessageId
                | Self::CorrelationId
                | Self::Label
                | Self::To
                | Self::ReplyTo
                | Self::SessionId
                | Self::ReplyToSessionId
                | Self::ContentType
        )
    }

    /// The names, for a message to whoever got one wrong.
    pub(super) fn names(changeable: bool) -> String {
        let names: Vec<&str> = Self::ALL
            .into_iter()
            .filter(|property| !changeable || property.is_changeable())
            .map(Self::name)
            .collect();
        names.join(", ")
    }

    /// The value that `message` has.
    pub(super) fn value(self, message: &MessageProperties) -> Operand<'_> {
        let (standard, broker) = (&message.standard, &message.broker);
        match self {
            Self::MessageId => id(standard.message_id.as_ref()),
            Self::CorrelationId => id(standard.correlation_id.as_ref()),
            Self::Label => option(standard.subject.as_deref()),
            Self::To => option(standard.to.as_deref()),
            Self::ReplyTo => option(standard.reply_to.as_deref()),
            Self::SessionId => option(standard.group_id.as_deref()),
            Self::ReplyToSessionId => option(standard.reply_to_group_id.as_deref()),
            Self::ContentType => option(standard.content_type.as_ref().map(Symbol::as_str)),
            Self::PartitionKey => option(broker.partition_key.as_deref()),
            Self::SequenceNumber => {
                broker.sequence_number.map_or(Operand::Unknown, |number| Operand::Integer(number.into()))
            }
            Self::EnqueuedTimeUtc => {
                broker.enqueued_time.map_or(Operand::Unknown, |time| Operand::Timestamp(time.milliseconds()))
            }
            Self::ScheduledEnqueueTimeUtc => broker
                .scheduled_enqueue_time
                .map_or(Operand::Unknown, |time| Operand::Timestamp(time.milliseconds())),
            Self::TimeToLive => broker.time_to_live.map_or(Operand::Unknown, |time| {
                Operand::TimeSpan(
                    i64::try_from(time.as_millis()).unwrap_or(i64::MAX).saturating_mul(TICKS_PER_MILLISECOND),
                )
            }),
        }
    }

    /// Gives `message` this value, or none. A content type that is not ASCII could not be sent: it stays as it was.
    pub(super) fn set(self, message: &mut MessageProperties, text: Option<String>) {
        let standard = &mut message.standard;
        match self {
            Self::MessageId => standard.message_id = text.map(Value::String),
            Self::CorrelationId => standard.correlation_id = text.map(Value::String),
            Self::Label => standard.subject = text,
            Self::To => standard.to = text,
            Self::ReplyTo => standard.reply_to = text,
            Self::SessionId => standard.group_id = text,
            Self::ReplyToSessionId => standard.reply_to_group_id = text,
            Self::ContentType => {
                if text.as_ref().is_none_or(|text| text.is_ascii()) {
                    standard.content_type = text.map(Symbol::from);
                }
            }
            Self::PartitionKey
            | Self::SequenceNumber
            | Self::EnqueuedTimeUtc
            | Self::ScheduledEnqueueTimeUtc
            | Self::TimeToLive => {}
        }
    }

    const ALL: [Self; 13] = [
        Self::MessageId,
        Self::CorrelationId,
        Self::Label,
        Self::To,
        Self::ReplyTo,
        Self::SessionId,
        Self::ReplyToSessionId,
        Self::ContentType,
        Self::PartitionKey,
        Self::SequenceNumber,
        Self::EnqueuedTimeUtc,
        Self::ScheduledEnqueueTimeUtc,
        Self::TimeToLive,
    ];
}

fn option(text: Option<&str>) -> Operand<'_> {
    text.map_or(Operand::Unknown, |text| Operand::Text(text.into()))
}

fn id(id: Option<&Value>) -> Operand<'_> {
    id.map_or(Operand::Unknown, |id| Operand::Text(text_of_id(id)))
}

/// A tick is 100 nanoseconds.
pub(super) const TICKS_PER_MILLISECOND: i64 = 10_000;
