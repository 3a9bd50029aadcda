//! Why a client may not receive from a partition, or not any longer, in the conditions and texts that clients know.

use amqp::performative::{Error, ErrorCondition};

use crate::namespace::{Displacement, MAXIMUM_RECEIVERS, ReceiverRefused};

/// Why a receiver is not let in.
#[cold]
pub(crate) fn refused(refused: &ReceiverRefused) -> Error {
    match refused {
        ReceiverRefused::HigherEpoch { current, current_epoch, name, epoch } => {
            let (current, name) = (shown(current), shown(name));
            Error::new(
                ErrorCondition::STOLEN,
                format!(
                    "Receiver '{current}' with a higher epoch '{current_epoch}' already exists. Receiver '{name}' with \
                     epoch {epoch} cannot be created. Make sure you are creating receiver with increasing epoch value to \
                     ensure connectivity, or ensure all old epoch receivers are closed or disconnected."
                ),
            )
        }
        ReceiverRefused::WithoutEpoch { epoch } => Error::new(
            ErrorCondition::STOLEN,
            format!(
                "At least one receiver for the endpoint is created with epoch of '{epoch}', and so non-epoch receiver is \
                 not allowed. Either reconnect with a higher epoch, or make sure all epoch receivers are closed or \
                 disconnected."
            ),
        ),
        ReceiverRefused::TooMany { names } => {
            let names: Vec<&str> = names.iter().map(shown).collect();
            Error::new(
                ErrorCondition::RESOURCE_LIMIT_EXCEEDED,
                format!(
                    "Exceeded the maximum number of allowed receivers per partition in a consumer group which is \
                     {MAXIMUM_RECEIVERS}. List of connected receivers - {}.",
                    names.join(", ")
                ),
            )
        }
    }
}

/// Why a receiver has to go.
#[cold]
pub(crate) fn displaced(displacement: &Displacement) -> Error {
    let Displacement { new_name, new_epoch, name, epoch } = displacement;
    let (new_name, name) = (shown(new_name), shown(name));
    let epoch = epoch.map_or_else(String::new, |epoch| epoch.to_string());
    Error::new(
        ErrorCondition::STOLEN,
        format!(
            "New receiver '{new_name}' with higher epoch of '{new_epoch}' is created hence current receiver '{name}' with \
             epoch '{epoch}' is getting disconnected. If you are recreating the receiver, make sure a higher epoch is \
             used."
        ),
    )
}

/// A receiver's name as the service shows it.
fn shown(name: &Option<String>) -> &str {
    name.as_deref().unwrap_or("nil")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_those_that_clients_look_for() {
        let name = |name: &str| Some(name.to_owned());
        let higher =
            ReceiverRefused::HigherEpoch { current: None, current_epoch: 2, name: name("late"), epoch: 1 };
        let error = refused(&higher);
        assert_eq!(error.condition, ErrorCondition::STOLEN);
        let expected = "Receiver 'nil' with a higher epoch '2' already exists. Receiver 'late' with epoch 1 cannot be created. ";
        assert!(error.description.starts_with(expected), "{error}");
        let names = ["a", "b", "c", "d", "e"].map(name).into();
        assert_eq!(
            refused(&ReceiverRefused::TooMany { names }).description,
            "Exceeded the maximum number of allowed receivers per partition in a consumer group which is 5. List of \
             connected receivers - a, b, c, d, e."
        );
        let displacement = Displacement { new_name: None, new_epoch: 3, name: name("first"), epoch: Some(3) };
        assert_eq!(
            displaced(&displacement).description,
            "New receiver 'nil' with higher epoch of '3' is created hence current receiver 'first' with epoch '3' is \
             getting disconnected. If you are recreating the receiver, make sure a higher epoch is used."
        );
        let without = Displacement { epoch: None, ..displacement };
        assert!(displaced(&without).description.contains("current receiver 'first' with epoch ''"));
    }
}
