//! What is measured, as sentences about it call it.

use std::fmt;

use super::{MeasuredSystem, Role};

/// What is measured: our relay, a system that stands in its place, or another role of the lab.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum MeasuredComponent {
    /// Our relay, whatever the transport.
    #[default]
    Relay,
    /// Another system, by its name in the scenario.
    Other(String),
    /// A part of the lab itself: load, sink or embedded service.
    Part(Role),
}

impl MeasuredComponent {
    /// What a case with this system and this measured role measures.
    #[must_use]
    pub fn of(system: Option<&MeasuredSystem>, measured_role: Role) -> Self {
        match (system.filter(|system| !system.ours), measured_role) {
            (Some(system), Role::Relay) => Self::Other(system.name.clone()),
            (_, Role::Relay) => Self::Relay,
            (_, role) => Self::Part(role),
        }
    }

    /// Whether it is our own, and not another system.
    #[must_use]
    pub const fn is_ours(&self) -> bool {
        !matches!(self, Self::Other(_))
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

impl fmt::Display for MeasuredComponent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Relay => formatter.pad("the relay"),
            Self::Part(Role::Service) => formatter.pad("the service"),
            Self::Part(role) => formatter.pad(&format!("the {role}")),
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
        let names = [None, Some(&system(true)), Some(&system(false))]
            .map(|system| MeasuredComponent::of(system, Role::Relay).to_string());
        assert_eq!(names, ["the relay", "the relay", "mine"]);
    }

    #[test]
    fn only_the_role_of_what_is_measured_goes_by_the_name_of_the_system() {
        let mine = MeasuredComponent::of(Some(&system(false)), Role::Relay);
        let called = |measured: &MeasuredComponent, role: Role, member| measured.called(role, member);
        assert_eq!(called(&mine, Role::Relay, "relay"), "mine");
        assert_eq!(called(&mine, Role::Service, "hub"), "the hub");
        assert_eq!(called(&MeasuredComponent::Relay, Role::Relay, "relay-2"), "the relay-2");
    }
}
