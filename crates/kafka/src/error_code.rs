//! What a broker answers when it can't do as asked.

use std::fmt;

/// Defines the enum with its numbers in both directions.
macro_rules! error_codes {
    ($($name:ident = $code:literal,)*) => {
        /// An error, as a number of the protocol (`org.apache.kafka.common.protocol.Errors`).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[expect(missing_docs, reason = "the names are those of the protocol")]
        pub enum ErrorCode {
            $($name,)*
            /// One that is not known here, by its number.
            Other(i16),
        }

        impl ErrorCode {
            /// All that are known here.
            #[cfg(test)]
            const KNOWN: &[Self] = &[$(Self::$name),*];

            /// The number of the protocol.
            #[must_use]
            pub const fn code(self) -> i16 {
                match self {
                    $(Self::$name => $code,)*
                    Self::Other(code) => code,
                }
            }

            /// The error with this number.
            #[must_use]
            pub const fn of(code: i16) -> Self {
                match code {
                    $($code => Self::$name,)*
                    code => Self::Other(code),
                }
            }

            /// The name of the variant.
            const fn variant(self) -> Option<&'static str> {
                match self {
                    $(Self::$name => Some(stringify!($name)),)*
                    Self::Other(_) => None,
                }
            }
        }
    };
}

error_codes! {
    UnknownServerError = -1,
    None = 0,
    OffsetOutOfRange = 1,
    CorruptMessage = 2,
    UnknownTopicOrPartition = 3,
    InvalidFetchSize = 4,
    LeaderNotAvailable = 5,
    NotLeaderOrFollower = 6,
    RequestTimedOut = 7,
    ReplicaNotAvailable = 9,
    MessageTooLarge = 10,
    OffsetMetadataTooLarge = 12,
    NetworkException = 13,
    CoordinatorLoadInProgress = 14,
    CoordinatorNotAvailable = 15,
    NotCoordinator = 16,
    InvalidTopicException = 17,
    RecordListTooLarge = 18,
    NotEnoughReplicas = 19,
    NotEnoughReplicasAfterAppend = 20,
    InvalidRequiredAcks = 21,
    IllegalGeneration = 22,
    InconsistentGroupProtocol = 23,
    InvalidGroupId = 24,
    UnknownMemberId = 25,
    InvalidSessionTimeout = 26,
    RebalanceInProgress = 27,
    InvalidCommitOffsetSize = 28,
    TopicAuthorizationFailed = 29,
    GroupAuthorizationFailed = 30,
    ClusterAuthorizationFailed = 31,
    InvalidTimestamp = 32,
    UnsupportedSaslMechanism = 33,
    IllegalSaslState = 34,
    UnsupportedVersion = 35,
    TopicAlreadyExists = 36,
    InvalidPartitions = 37,
    InvalidReplicationFactor = 38,
    InvalidReplicaAssignment = 39,
    InvalidConfig = 40,
    NotController = 41,
    InvalidRequest = 42,
    UnsupportedForMessageFormat = 43,
    PolicyViolation = 44,
    OutOfOrderSequenceNumber = 45,
    DuplicateSequenceNumber = 46,
    InvalidProducerEpoch = 47,
    InvalidTxnState = 48,
    InvalidProducerIdMapping = 49,
    InvalidTransactionTimeout = 50,
    ConcurrentTransactions = 51,
    TransactionCoordinatorFenced = 52,
    TransactionalIdAuthorizationFailed = 53,
    SecurityDisabled = 54,
    OperationNotAttempted = 55,
    KafkaStorageError = 56,
    SaslAuthenticationFailed = 58,
    UnknownProducerId = 59,
    NonEmptyGroup = 68,
    GroupIdNotFound = 69,
    FetchSessionIdNotFound = 70,
    InvalidFetchSessionEpoch = 71,
    ListenerNotFound = 72,
    FencedLeaderEpoch = 74,
    UnknownLeaderEpoch = 75,
    UnsupportedCompressionType = 76,
    OffsetNotAvailable = 78,
    MemberIdRequired = 79,
    GroupMaxSizeReached = 81,
    FencedInstanceId = 82,
    GroupSubscribedToTopic = 86,
    InvalidRecord = 87,
    UnstableOffsetCommit = 88,
    ThrottlingQuotaExceeded = 89,
    ProducerFenced = 90,
    ResourceNotFound = 91,
    UnknownTopicId = 100,
    InconsistentTopicId = 103,
    TransactionalIdNotFound = 105,
    FetchSessionTopicIdError = 106,
    FencedMemberEpoch = 110,
    UnreleasedInstanceId = 111,
    UnsupportedAssignor = 112,
    StaleMemberEpoch = 113,
    TransactionAbortable = 120,
    InvalidRegularExpression = 128,
    RebootstrapRequired = 129,
}

impl ErrorCode {
    /// The error with this number; `Ok` for 0.
    ///
    /// # Errors
    /// For every number but 0.
    pub const fn check(code: i16) -> Result<(), Self> {
        match Self::of(code) {
            Self::None => Ok(()),
            error => Err(error),
        }
    }

    /// Whether the same request can succeed later, or at another broker, as Kafka's own clients take it.
    #[must_use]
    pub const fn is_retriable(self) -> bool {
        matches!(
            self,
            Self::CorruptMessage
                | Self::UnknownTopicOrPartition
                | Self::LeaderNotAvailable
                | Self::NotLeaderOrFollower
                | Self::RequestTimedOut
                | Self::ReplicaNotAvailable
                | Self::NetworkException
                | Self::CoordinatorLoadInProgress
                | Self::CoordinatorNotAvailable
                | Self::NotCoordinator
                | Self::NotEnoughReplicas
                | Self::NotEnoughReplicasAfterAppend
                | Self::NotController
                | Self::ConcurrentTransactions
                | Self::KafkaStorageError
                | Self::FetchSessionIdNotFound
                | Self::InvalidFetchSessionEpoch
                | Self::ListenerNotFound
                | Self::FencedLeaderEpoch
                | Self::UnknownLeaderEpoch
                | Self::OffsetNotAvailable
                | Self::UnstableOffsetCommit
                | Self::ThrottlingQuotaExceeded
                | Self::UnknownTopicId
                | Self::InconsistentTopicId
                | Self::FetchSessionTopicIdError
        )
    }
}

/// The name as Kafka's users know it, with the number: `NOT_LEADER_OR_FOLLOWER (6)`.
impl ErrorCode {
    /// The name that Kafka's users know it by, such as `UNKNOWN_TOPIC_OR_PARTITION`; `error 99` where only its number is known.
    #[must_use]
    pub fn name(self) -> String {
        let Some(variant) = self.variant() else {
            return format!("error {}", self.code());
        };
        let mut name = String::with_capacity(2 * variant.len());
        for (index, letter) in variant.char_indices() {
            if index > 0 && letter.is_ascii_uppercase() {
                name.push('_');
            }
            name.push(letter.to_ascii_uppercase());
        }
        name
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())?;
        match self {
            Self::Other(_) => Ok(()),
            known => write!(f, " ({})", known.code()),
        }
    }
}

#[cfg(test)]
mod tests {
    use kafka_protocol::ResponseError;

    use super::*;

    #[test]
    fn every_number_is_an_error_that_has_it() {
        for code in i16::MIN..=i16::MAX {
            assert_eq!(ErrorCode::of(code).code(), code);
        }
        assert_eq!(ErrorCode::of(1_000), ErrorCode::Other(1_000));
        assert_eq!((ErrorCode::check(0), ErrorCode::check(6)), (Ok(()), Err(ErrorCode::NotLeaderOrFollower)));
    }

    #[test]
    fn names_and_what_is_worth_another_try_are_those_of_another_implementation() {
        for error in ErrorCode::KNOWN.iter().filter(|error| **error != ErrorCode::None) {
            let reference = ResponseError::try_from_code(error.code()).unwrap();
            assert!(!matches!(reference, ResponseError::Unknown(_)), "{error}");
            assert_eq!(format!("{error:?}"), format!("{reference:?}"));
            // Kafka's own client takes this one for retriable, too.
            let is_retriable = reference.is_retriable() || *error == ErrorCode::ConcurrentTransactions;
            assert_eq!(error.is_retriable(), is_retriable, "{error}");
        }
        assert_eq!(ErrorCode::NotLeaderOrFollower.to_string(), "NOT_LEADER_OR_FOLLOWER (6)");
        assert_eq!(ErrorCode::Other(99).to_string(), "error 99");
    }
}
