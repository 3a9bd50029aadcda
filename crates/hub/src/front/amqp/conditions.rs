//! What goes wrong on any connection, in the conditions and texts that clients know.

use amqp::performative::{DeliveryState, Error, ErrorCondition};

use crate::front::pending::OUTCOME_UNKNOWN;

/// The outcome of what is not stored.
#[cold]
pub(crate) fn rejected(condition: ErrorCondition, description: impl Into<String>) -> DeliveryState {
    DeliveryState::Rejected(Some(Error::new(condition, description)))
}

/// A refusal that the official clients answer by trying again a while later.
#[cold]
pub(crate) fn server_busy(reason: &str) -> DeliveryState {
    rejected(
        ErrorCondition::SERVER_BUSY,
        format!("{reason} Please wait 4 seconds and try again. Error code : 50002."),
    )
}

/// The outcome of what may or may not be stored. Clients try again as after a timeout, and know that it may be a second time.
#[cold]
pub(crate) fn unknown_outcome() -> DeliveryState {
    rejected(ErrorCondition::TIMEOUT, OUTCOME_UNKNOWN)
}

/// The outcome of a send for which the throughput units of the namespace `host` do not suffice. Clients look for the
/// condition, people for the code.
#[cold]
pub(crate) fn throttled(host: &str) -> DeliveryState {
    rejected(
        ErrorCondition::SERVER_BUSY,
        format!(
            "The request was terminated because the namespace {host} is being throttled. Error code : 50002. \
             Please wait 4 seconds and try again."
        ),
    )
}

/// The outcome of a send that a service profile lets fail.
#[cold]
pub(crate) fn failed_on_purpose() -> DeliveryState {
    let text = "The service was unable to process the request; please retry the operation.";
    DeliveryState::Rejected(Some(injected(ErrorCondition::INTERNAL_ERROR, text)))
}

/// The outcome of a send that is stored, but whose acknowledgement a service profile loses.
#[cold]
pub(crate) fn timed_out_on_purpose() -> DeliveryState {
    let text = "The operation did not complete within the allotted time.";
    DeliveryState::Rejected(Some(injected(ErrorCondition::TIMEOUT, text)))
}

/// Why a service profile detaches a link.
#[cold]
pub(crate) fn detached_on_purpose() -> Error {
    injected(ErrorCondition::DETACH_FORCED, "The link is detached by the service.")
}

/// An injected failure says so in its text, lest someone look for its cause.
#[cold]
fn injected(condition: ErrorCondition, text: &str) -> Error {
    Error::new(condition, format!("{text} (Injected by the service profile.)"))
}
