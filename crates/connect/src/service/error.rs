//! What goes wrong, and what can be done about it.

use std::io;
use std::time::Duration;

use amqp::connection::ConnectionError;
use amqp::performative::{Error, ErrorCondition, SaslCode};
use amqp_tokio::{ConnectError, DriveError, Spoken};
use rustls::CertificateError;

use crate::sink::{ErrorClass, SendError, SinkError};
use crate::source::SourceError;

/// An error of the service, or of the way to it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{condition}: {description}")]
pub struct ServiceError {
    /// What can be done about it.
    pub class: ErrorClass,
    /// The service's name for what happened, such as `amqp:not-found`; for failures on the way to it a name of ours that
    /// begins with `connection:`.
    pub condition: String,
    /// The service's words for a person.
    pub description: String,
}

impl ServiceError {
    /// An error with a condition of the service's, which decides the class.
    pub(crate) fn of_condition(condition: &ErrorCondition, description: impl Into<String>) -> Self {
        Self { class: class_of(condition), condition: condition.to_string(), description: description.into() }
    }

    /// What a request was refused with. The status counts where the reply names no condition.
    pub(crate) fn of_status(status: i64, condition: Option<String>, description: &str) -> Self {
        let condition = match condition {
            Some(condition) => ErrorCondition::from(amqp::Symbol::from(condition)),
            None => match status {
                400 => ErrorCondition::ARGUMENT_ERROR,
                401 => ErrorCondition::UNAUTHORIZED_ACCESS,
                403 => ErrorCondition::RESOURCE_LIMIT_EXCEEDED,
                404 | 410 => ErrorCondition::NOT_FOUND,
                408 | 504 => ErrorCondition::TIMEOUT,
                429 | 503 => ErrorCondition::SERVER_BUSY,
                402..=499 => ErrorCondition::NOT_ALLOWED,
                _ => ErrorCondition::INTERNAL_ERROR,
            },
        };
        Self::of_condition(&condition, format!("{description} (status {status})"))
    }

    /// Lets who is throttled wait for as long as the service asks to be left alone, within reason.
    pub(crate) fn wait_as_asked(&mut self, asked: Option<Duration>) {
        if let (ErrorClass::Throttled { retry_after }, Some(asked)) = (&mut self.class, asked) {
            *retry_after = asked.min(RETRY_AFTER_MAX);
        }
    }

    /// Something about the connection itself, which a new one may not have.
    pub(crate) fn of_connection(condition: &str, description: impl Into<String>) -> Self {
        Self {
            class: ErrorClass::Retryable,
            condition: condition.to_owned(),
            description: description.into(),
        }
    }

    /// Something that trying again cannot change.
    pub(crate) fn fatal(condition: &str, description: impl Into<String>) -> Self {
        Self { class: ErrorClass::Fatal, condition: condition.to_owned(), description: description.into() }
    }

    /// The same error as a client takes it that had been working: what has disappeared since then may be on its way back,
    /// as it is while somebody deploys it again, so it is waited for.
    pub(crate) fn of_working_client(self) -> Self {
        let may_come_back =
            [ErrorCondition::NOT_FOUND, ErrorCondition::ENTITY_DISABLED, ErrorCondition::ARGUMENT_ERROR];
        // An identity that had a token will have one again.
        let has_no_token = self.condition == NO_TOKEN;
        match has_no_token || may_come_back.iter().any(|condition| self.is(condition)) {
            true => self.retryable(),
            false => self,
        }
    }

    /// The same error of a link that had been attached. A right that is missing all of a sudden can be a token that has
    /// lapsed: a new connection puts a new one, and tells whether the right is really gone.
    pub(crate) fn of_working_link(self) -> Self {
        match self.is_unauthorized() {
            true => self.retryable(),
            false => self.of_working_client(),
        }
    }

    /// Whether the right to do this is missing, or the key is wrong.
    pub(crate) fn is_unauthorized(&self) -> bool {
        self.is(&ErrorCondition::UNAUTHORIZED_ACCESS)
    }

    fn is(&self, condition: &ErrorCondition) -> bool {
        self.condition == condition.as_str()
    }

    fn retryable(self) -> Self {
        Self { class: ErrorClass::Retryable, ..self }
    }

    /// The end of a link: the peer's reason, or that it gave none.
    pub(crate) fn of_detach(error: Option<Error>) -> Self {
        error.map_or_else(
            || {
                Self::of_condition(
                    &ErrorCondition::DETACH_FORCED,
                    "the service detached the link without a reason",
                )
            },
            Self::from,
        )
    }

    /// The end of a connection: the protocol's reason, or that there is none.
    pub(crate) fn of_close(error: Option<ConnectionError>) -> Self {
        error.map_or_else(|| Self::of_connection(LOST, "the service ended the connection"), Self::from)
    }
}

impl From<Error> for ServiceError {
    fn from(error: Error) -> Self {
        Self::of_condition(&error.condition, error.description)
    }
}

impl From<ConnectionError> for ServiceError {
    fn from(error: ConnectionError) -> Self {
        match error {
            ConnectionError::ClosedByPeer(error) => error.into(),
            ConnectionError::SaslRefused(code) => {
                let class = match code {
                    SaslCode::Ok | SaslCode::System { temporary: true } => ErrorClass::Retryable,
                    SaslCode::Auth | SaslCode::System { temporary: false } => ErrorClass::Fatal,
                };
                Self {
                    class,
                    condition: ErrorCondition::UNAUTHORIZED_ACCESS.to_string(),
                    description: error.to_string(),
                }
            }
            ConnectionError::NotAmqp(first) => match Spoken::of(&first) {
                Some(Spoken::Tls) => Self::fatal(NEEDS_TLS, "the service answers with TLS, not with AMQP"),
                Some(Spoken::Http) => Self::fatal(IS_HTTP, "the service answers with HTTP, not with AMQP"),
                Some(Spoken::Amqp | Spoken::Kafka) | None => {
                    Self::fatal(ErrorCondition::NOT_IMPLEMENTED.as_str(), error.to_string())
                }
            },
            ConnectionError::ProtocolHeader(_) | ConnectionError::NoSaslMechanism(_) => {
                Self::fatal(ErrorCondition::NOT_IMPLEMENTED.as_str(), error.to_string())
            }
            ConnectionError::Framing(_)
            | ConnectionError::Decode(_)
            | ConnectionError::FrameType(_)
            | ConnectionError::UnexpectedPerformative { .. }
            | ConnectionError::UnknownChannel(_)
            | ConnectionError::InvalidBegin(_)
            | ConnectionError::NumberTooLarge { .. }
            | ConnectionError::TooManyLinks(_)
            | ConnectionError::PartialMessages(_)
            | ConnectionError::LongLinkName { .. } => Self::of_connection(PROTOCOL, error.to_string()),
            ConnectionError::IdleTimeout
            | ConnectionError::OutputTimeout
            | ConnectionError::HandshakeTimeout => Self::of_connection(TIMEOUT, error.to_string()),
        }
    }
}

impl From<DriveError> for ServiceError {
    fn from(error: DriveError) -> Self {
        match error {
            DriveError::Protocol(error) => error.into(),
            DriveError::Io(_) | DriveError::Disconnected | DriveError::Closed => {
                Self::of_connection(LOST, error.to_string())
            }
        }
    }
}

impl From<ConnectError> for ServiceError {
    fn from(error: ConnectError) -> Self {
        let condition = match &error {
            ConnectError::Unreachable { .. } => UNREACHABLE,
            ConnectError::Tls { source, .. } => condition_of_tls(source),
            ConnectError::WebSocket { source, .. } => match source.kind() {
                io::ErrorKind::InvalidData => NOT_WEB_SOCKET,
                _ => "connection:web-socket",
            },
            ConnectError::Timeout { .. } => TIMEOUT,
        };
        Self::of_connection(condition, error.to_string())
    }
}

/// What is wrong with a handshake of TLS, as far as that tells what to do about it.
fn condition_of_tls(error: &io::Error) -> &'static str {
    let reason = error.get_ref().and_then(|reason| reason.downcast_ref::<rustls::Error>());
    match reason {
        Some(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer)) => UNTRUSTED,
        Some(rustls::Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        )) => OTHER_NAME,
        Some(rustls::Error::InvalidMessage(_)) => WITHOUT_TLS,
        _ => "connection:tls",
    }
}

impl From<ServiceError> for SourceError {
    fn from(error: ServiceError) -> Self {
        Self { class: error.class, condition: error.condition, description: error.description }
    }
}

impl From<ServiceError> for SendError {
    fn from(error: ServiceError) -> Self {
        Self { class: error.class, condition: error.condition, description: error.description }
    }
}

impl From<ServiceError> for SinkError {
    fn from(error: ServiceError) -> Self {
        Self { condition: error.condition, description: error.description }
    }
}

/// What can be done about a condition. Conditions are an open set: one that is not known may be transient, and whoever
/// retries does not do so for ever.
fn class_of(condition: &ErrorCondition) -> ErrorClass {
    const FATAL: [ErrorCondition; 11] = [
        ErrorCondition::UNAUTHORIZED_ACCESS,
        ErrorCondition::NOT_FOUND,
        ErrorCondition::ARGUMENT_ERROR,
        ErrorCondition::ARGUMENT_OUT_OF_RANGE,
        ErrorCondition::ENTITY_ALREADY_EXISTS,
        ErrorCondition::ENTITY_DISABLED,
        ErrorCondition::NOT_ALLOWED,
        ErrorCondition::NOT_IMPLEMENTED,
        ErrorCondition::DECODE_ERROR,
        ErrorCondition::INVALID_FIELD,
        ErrorCondition::PRECONDITION_FAILED,
    ];
    if *condition == ErrorCondition::SERVER_BUSY || *condition == ErrorCondition::RESOURCE_LIMIT_EXCEEDED {
        ErrorClass::Throttled { retry_after: SERVER_BUSY_WAIT }
    } else if *condition == ErrorCondition::MESSAGE_SIZE_EXCEEDED {
        ErrorClass::TooLarge
    } else if FATAL.contains(condition) {
        ErrorClass::Fatal
    } else {
        ErrorClass::Retryable
    }
}

/// The connection was lost, or ended without a reason.
pub const LOST: &str = "connection:lost";
/// There is no way to the service.
pub const UNREACHABLE: &str = "connection:unreachable";
/// The service did not answer in time.
pub const TIMEOUT: &str = "connection:timeout";
/// The service is connected and sends nothing, not even what it owes.
pub const SILENT: &str = "connection:silent";
/// The service does not do what the protocol demands.
pub const PROTOCOL: &str = "connection:protocol";

// Conditions of ours that say what a user has to change.

/// The service closed the connection without an answer.
pub const NO_ANSWER: &str = "connection:no-answer";
/// The service uses TLS, the client does not.
pub const NEEDS_TLS: &str = "connection:needs-tls";
/// The client uses TLS, the service does not.
pub const WITHOUT_TLS: &str = "connection:without-tls";
/// The client speaks AMQP, the service HTTP, with which a WebSocket begins.
pub const IS_HTTP: &str = "connection:is-http";
/// The client asks for a WebSocket, the service answers in another protocol.
pub const NOT_WEB_SOCKET: &str = "connection:not-web-socket";
/// The authority of the service's certificate is not trusted.
pub const UNTRUSTED: &str = "connection:untrusted-certificate";
/// The service's certificate is for another name.
pub const OTHER_NAME: &str = "connection:certificate-name";
/// The identity of the process has no token.
pub const NO_TOKEN: &str = "connection:identity";

/// No service is left alone for longer, whatever it says.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);

/// What the service's documentation asks of clients that it throttles.
const SERVER_BUSY_WAIT: Duration = Duration::from_secs(4);

#[cfg(test)]
mod tests {
    use super::*;

    fn class(condition: &'static str) -> ErrorClass {
        class_of(&ErrorCondition::from(amqp::Symbol::from_static(condition)))
    }

    #[test]
    fn conditions_say_what_can_be_done() {
        for transient in [
            "com.microsoft:timeout",
            "com.microsoft:operation-cancelled",
            "amqp:internal-error",
            "amqp:link:detach-forced",
            "amqp:connection:forced",
            "amqp:link:transfer-limit-exceeded",
            "amqp:link:stolen",
            "com.example:never-heard-of",
        ] {
            assert_eq!(class(transient), ErrorClass::Retryable, "{transient}");
        }
        for lasting in [
            "amqp:unauthorized-access",
            "amqp:not-found",
            "com.microsoft:argument-error",
            "com.microsoft:argument-out-of-range",
            "com.microsoft:entity-already-exists",
            "com.microsoft:entity-disabled",
            "amqp:not-allowed",
        ] {
            assert_eq!(class(lasting), ErrorClass::Fatal, "{lasting}");
        }
        assert_eq!(class("amqp:link:message-size-exceeded"), ErrorClass::TooLarge);
        let busy = ErrorClass::Throttled { retry_after: Duration::from_secs(4) };
        for throttled in ["com.microsoft:server-busy", "amqp:resource-limit-exceeded"] {
            assert_eq!(class(throttled), busy, "{throttled}");
        }
    }

    #[test]
    fn what_disappears_while_a_client_works_is_waited_for_and_a_right_is_asked_for_again_once() {
        let of = |condition: &'static str| {
            ServiceError::of_condition(&ErrorCondition::from(amqp::Symbol::from_static(condition)), "why")
        };
        for passing in ["amqp:not-found", "com.microsoft:entity-disabled", "com.microsoft:argument-error"] {
            assert_eq!(of(passing).class, ErrorClass::Fatal, "{passing}");
            let working = of(passing).of_working_client();
            assert_eq!(working.class, ErrorClass::Retryable, "{passing}");
        }
        let unauthorized = of("amqp:unauthorized-access");
        let of_client = unauthorized.clone().of_working_client();
        assert_eq!(of_client.class, ErrorClass::Fatal);
        assert_eq!(unauthorized.of_working_link().class, ErrorClass::Retryable);
        let partition = of("com.microsoft:argument-out-of-range").of_working_link();
        assert_eq!(partition.class, ErrorClass::Fatal);
    }

    #[test]
    fn a_status_stands_for_a_condition_unless_the_reply_has_one() {
        let of = |status| ServiceError::of_status(status, None, "why").class;
        assert_eq!(of(401), ErrorClass::Fatal);
        assert_eq!(of(404), ErrorClass::Fatal);
        assert_eq!(of(418), ErrorClass::Fatal);
        assert_eq!(of(500), ErrorClass::Retryable);
        assert!(matches!(of(503), ErrorClass::Throttled { .. }));
        let named = ServiceError::of_status(500, Some("amqp:not-found".into()), "gone");
        assert_eq!(
            (named.class, named.to_string().as_str()),
            (ErrorClass::Fatal, "amqp:not-found: gone (status 500)")
        );
    }
}
