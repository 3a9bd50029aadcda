//! What is measured, as sentences about it call it.

use std::fmt;

use super::{MeasuredSystem, Role};

/// What is measured: our relay, or a system that stands in its place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Subject {
    /// Our relay, whatever the transport.
    #[default]
    Relay,
    /// Another system, by its name in the scenario.
    Other(String),
}

impl Subject {
    /// What a case with this system measures.
    #[must_use]
    pub fn of(system: Option<&MeasuredSystem>) -> Self {
        match system.filter(|system| !system.ours) {
            Some(system) => Self::Other(system.name.clone()),
            None => Self::Relay,
        }
    }

    /// Whether it is our relay.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        *self == Self::Relay
    }

    /// A role, or one member of it: what is measured by its name, every other as `the hub`.
    #[must_use]
    pub fn called(&self, role: Role, member: impl fmt::Display) -> String {
        match (self, role) {
            (Self::Other(name), Role::Relay) => name.clone(),
            _ => format!("the {member}"),
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Relay => formatter.pad("the relay"),
            Self::Other(name) => formatter.pad(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn system(ours: bool) -> MeasuredSystem {
        MeasuredSystem { name: "mine".to_owned(), ours, transport: "tls".to_owned() }
    }

    #[test]
    fn another_system_is_called_by_its_name_and_our_relay_is_the_relay_over_every_transport() {
        let names =
            [None, Some(&system(true)), Some(&system(false))].map(|system| Subject::of(system).to_string());
        assert_eq!(names, ["the relay", "the relay", "mine"]);
    }

    #[test]
    fn only_the_role_of_what_is_measured_goes_by_the_name_of_the_system() {
        let mine = Subject::of(Some(&system(false)));
        let called = |subject: &Subject, role: Role, member| subject.called(role, member);
        assert_eq!(called(&mine, Role::Relay, "relay"), "mine");
        assert_eq!(called(&mine, Role::Hub, "hub"), "the hub");
        assert_eq!(called(&Subject::Relay, Role::Relay, "relay-2"), "the relay-2");
    }
}
