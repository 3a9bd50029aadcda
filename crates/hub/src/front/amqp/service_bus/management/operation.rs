//! The operations of the node, and the rights that each needs.
//!
//! Requests are looked up here before anything else is done, so there is no operation without rights.

use access::Right;

macro_rules! operations {
    ($($(#[doc = $doc:literal])+ $operation:ident = $name:literal, $rights:expr;)+) => {
        /// An operation of the node.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum Operation {
            $($(#[doc = $doc])+ $operation,)+
        }

        impl Operation {
            #[cfg(test)]
            const ALL: &[Self] = &[$(Self::$operation,)+];

            /// Returns the operation of this name; `None` if the node has none.
            pub(super) fn named(name: &str) -> Option<Self> {
                match name.strip_prefix("com.microsoft:").unwrap_or(name) {
                    $($name => Some(Self::$operation),)+
                    _ => None,
                }
            }

            /// Returns the rights of which a client needs one.
            pub(super) const fn rights(self) -> &'static [Right] {
                match self {
                    $(Self::$operation => $rights,)+
                }
            }

            #[cfg(test)]
            const fn name(self) -> &'static str {
                match self {
                    $(Self::$operation => $name,)+
                }
            }
        }
    };
}

operations! {
    /// Locks messages for longer.
    RenewLock = "renew-lock", LISTEN;
    /// Settles messages that did not come over the link that is asked about.
    UpdateDisposition = "update-disposition", LISTEN;
    /// Shows messages without locking them.
    PeekMessage = "peek-message", LISTEN;
    /// Gives out deferred messages.
    ReceiveBySequenceNumber = "receive-by-sequence-number", LISTEN;
    /// Deletes messages without giving them out.
    BatchDeleteMessages = "batch-delete-messages", LISTEN;
    /// Stores messages that become visible later.
    ScheduleMessage = "schedule-message", SEND;
    /// Takes scheduled messages back.
    CancelScheduledMessage = "cancel-scheduled-message", SEND;
    /// Locks a session for longer.
    RenewSessionLock = "renew-session-lock", LISTEN;
    /// Tells the state of a session.
    GetSessionState = "get-session-state", LISTEN;
    /// Sets the state of a session.
    SetSessionState = "set-session-state", LISTEN;
    /// Lists sessions.
    GetMessageSessions = "get-message-sessions", LISTEN;
    /// Adds a rule to a subscription.
    AddRule = "add-rule", RULES;
    /// Removes a rule of a subscription.
    RemoveRule = "remove-rule", RULES;
    /// Lists the rules of a subscription.
    EnumerateRules = "enumerate-rules", RULES;
}

const SEND: &[Right] = &[Right::Send];
const LISTEN: &[Right] = &[Right::Listen];

/// Receivers of a subscription may choose its messages.
const RULES: &[Right] = &[Right::Listen, Right::Manage];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_has_the_rights_of_each_operation() {
        let document = include_str!("../../../../../../../docs/rights.md");
        for operation in Operation::ALL {
            let name = operation.name();
            assert_eq!(Operation::named(&format!("com.microsoft:{name}")), Some(*operation));
            let rights: Vec<_> = operation.rights().iter().map(|right| format!("{right:?}")).collect();
            let (begin, end) = (format!("| `{name}` | "), format!(" | {} |", rights.join(" or ")));
            let rows: Vec<_> = document.lines().filter(|line| line.starts_with(&begin)).collect();
            assert!(!rows.is_empty(), "docs/rights.md should have a row for {name}");
            assert!(rows.iter().all(|row| row.ends_with(&end)), "{rows:?} should end with '{end}'");
        }
    }
}
