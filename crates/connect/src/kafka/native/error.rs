//! What brokers answer, as errors of a service.

use kafka::{ErrorCode, Malformed};

use crate::service::ServiceError;
use crate::service::error::PROTOCOL;
use crate::sink::ErrorClass;

/// What a broker has refused. `what` says what was asked of it.
pub(crate) fn refused(code: ErrorCode, what: impl Into<String>) -> ServiceError {
    let what = what.into();
    let class = match code {
        ErrorCode::MessageTooLarge | ErrorCode::RecordListTooLarge => ErrorClass::TooLarge,
        ErrorCode::ThrottlingQuotaExceeded => ErrorClass::Throttled { retry_after: QUOTA_WAIT },
        code if code.is_retriable() => ErrorClass::Retryable,
        _ => ErrorClass::Fatal,
    };
    ServiceError { class, condition: code.name(), description: what }
}

/// The same, of something that is not worth another try at the moment, whatever Kafka's clients would do.
pub(super) fn refused_for_good(code: ErrorCode, what: impl Into<String>) -> ServiceError {
    ServiceError { class: ErrorClass::Fatal, ..refused(code, what) }
}

/// Whether somebody else leads the partition, or will do so.
pub(super) const fn is_about_leaders(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::NotLeaderOrFollower
            | ErrorCode::LeaderNotAvailable
            | ErrorCode::ReplicaNotAvailable
            | ErrorCode::FencedLeaderEpoch
            | ErrorCode::UnknownLeaderEpoch
            | ErrorCode::UnknownTopicOrPartition
            | ErrorCode::UnknownTopicId
            | ErrorCode::InconsistentTopicId
            | ErrorCode::KafkaStorageError
            | ErrorCode::OffsetNotAvailable
    )
}

/// An answer that is none.
pub(super) fn malformed(Malformed(what): Malformed) -> ServiceError {
    ServiceError::of_connection(PROTOCOL, format!("the broker's answer can't be read: malformed {what}"))
}

/// What a broker's quota asks for where it does not say.
const QUOTA_WAIT: std::time::Duration = std::time::Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_the_names_and_classes_that_kafkas_clients_give_them() {
        let class = |code| refused(code, "why").class;
        assert_eq!(class(ErrorCode::NotLeaderOrFollower), ErrorClass::Retryable);
        assert_eq!(class(ErrorCode::TopicAuthorizationFailed), ErrorClass::Fatal);
        assert_eq!(class(ErrorCode::MessageTooLarge), ErrorClass::TooLarge);
        assert!(matches!(class(ErrorCode::ThrottlingQuotaExceeded), ErrorClass::Throttled { .. }));
        let unknown = refused_for_good(ErrorCode::UnknownTopicOrPartition, "there is no topic");
        assert_eq!(unknown.to_string(), "UNKNOWN_TOPIC_OR_PARTITION: there is no topic");
        assert_eq!(unknown.class, ErrorClass::Fatal);
        assert_eq!(refused(ErrorCode::Other(99), "").condition, "error 99");
    }
}
