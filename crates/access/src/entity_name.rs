//! Names of entities: one rule for hubs, queues, topics, subscriptions and consumer groups, whichever way they come to be.
//!
//! Letters, digits and `.`, `-`, `_`, `~` stand in any place: frameworks name topics after types, whose generic ones end in `--` and
//! whose arrays end in `__`. Hubs, queues and topics may have slashes between their parts. What the clients of the service refuse by
//! themselves (`@`, `?`, `#`, `*`, `\`, a slash at either end) is refused here, too. So are parts that no address can name: empty ones,
//! which [`Resource`](crate::Resource) passes over, `.` and `..`, which clients resolve before they send a URL, and the keywords of
//! addresses behind another part.

use std::fmt;

/// What a name belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamedEntity {
    /// An event hub, which is a topic of Kafka.
    Hub,
    /// A queue.
    Queue,
    /// A topic of Service Bus.
    Topic,
    /// A subscription of a topic.
    Subscription,
    /// A consumer group of a hub.
    ConsumerGroup,
}

/// A name that no entity of this kind can have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{name:?} is not a valid name for a {kind}; allowed are 1 to {} letters, digits and any of {}",
    kind.longest_name(), kind.allowed()
)]
pub struct EntityNameError {
    /// What was given.
    pub name: String,
    /// What it was to name.
    pub kind: NamedEntity,
}

impl NamedEntity {
    /// Checks that an entity of this kind can have this name.
    ///
    /// # Errors
    /// It can't.
    pub fn check_name(self, name: &str) -> Result<(), EntityNameError> {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-_~/".contains(&byte);
        let is_part =
            |part: &str| !matches!(part, "" | "." | "..") && (self.has_parts() || part.len() == name.len());
        let is_keyword = |part: &str| self.keywords().iter().any(|word| part.eq_ignore_ascii_case(word));
        let is_valid = name.len() <= self.longest_name()
            && name.bytes().all(is_allowed)
            && name.split('/').all(is_part)
            && !name.split('/').skip(1).any(is_keyword);
        match is_valid {
            true => Ok(()),
            false => Err(EntityNameError { name: name.to_owned(), kind: self }),
        }
    }

    /// Returns the maximum length of a name, in characters: the service's own limits; for consumer groups that of its Kafka side, the
    /// wider of two.
    #[must_use]
    pub const fn longest_name(self) -> usize {
        match self {
            Self::Queue | Self::Topic => 260,
            Self::Hub | Self::ConsumerGroup => 256,
            Self::Subscription => 50,
        }
    }

    const fn has_parts(self) -> bool {
        matches!(self, Self::Hub | Self::Queue | Self::Topic)
    }

    /// What follows the name of an entity of this kind in addresses.
    const fn keywords(self) -> &'static [&'static str] {
        match self {
            Self::Hub => &["Partitions", "ConsumerGroups", "Publishers"],
            Self::Queue | Self::Topic => &["Subscriptions"],
            Self::Subscription | Self::ConsumerGroup => &[],
        }
    }

    const fn allowed(self) -> &'static str {
        match self {
            Self::Hub => {
                ". - _ ~ /, with a slash only between parts, no part . or .., and no part after the first that addresses use \
                 themselves (such as Partitions)"
            }
            Self::Queue | Self::Topic => {
                ". - _ ~ /, with a slash only between parts, no part . or .., and no part after the first that addresses use \
                 themselves (such as Subscriptions)"
            }
            Self::Subscription | Self::ConsumerGroup => ". - _ ~, but not . or .. alone",
        }
    }
}

impl fmt::Display for NamedEntity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hub => "hub",
            Self::Queue => "queue",
            Self::Topic => "topic",
            Self::Subscription => "subscription",
            Self::ConsumerGroup => "consumer group",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [NamedEntity; 5] = [
        NamedEntity::Hub,
        NamedEntity::Queue,
        NamedEntity::Topic,
        NamedEntity::Subscription,
        NamedEntity::ConsumerGroup,
    ];

    #[test]
    fn letters_digits_and_four_marks_stand_in_any_place_of_any_name() {
        for kind in KINDS {
            for name in
                ["a", "9", "_leading", "Ping__", "Order--", "-", "_", "~", "a~b", ".a.", "...", "a..b"]
            {
                assert_eq!(kind.check_name(name), Ok(()), "{kind} {name}");
            }
            for name in ["", ".", "..", "a b", "é", "a@b", "a?b", "a#b", "a*b", "a\\b", "a$", "a%2Fb", "a+b"]
            {
                assert!(kind.check_name(name).is_err(), "{kind} {name}");
            }
            let longest = kind.longest_name();
            assert!(kind.check_name(&"x".repeat(longest)).is_ok(), "{kind}");
            assert!(kind.check_name(&"x".repeat(longest + 1)).is_err(), "{kind}");
        }
    }

    #[test]
    fn slashes_stand_between_parts_of_hubs_queues_and_topics() {
        for kind in KINDS {
            for name in ["Contracts/Fault--Shop.Orders/OrderPlaced--", "a/b/c", "a/.b", "Subscriptions/a"] {
                assert_eq!(kind.check_name(name).is_ok(), kind.has_parts(), "{kind} {name}");
            }
            for name in ["/a", "a/", "/", "a//b", "a/./b", "../a", "a/.."] {
                assert!(kind.check_name(name).is_err(), "{kind} {name}");
            }
        }
    }

    #[test]
    fn keywords_of_addresses_are_names_only_as_the_first_part() {
        for (kind, name, is_name) in [
            (NamedEntity::Queue, "subscriptions", true),
            (NamedEntity::Queue, "a/subscriptions/b", false),
            (NamedEntity::Topic, "a/SUBSCRIPTIONS", false),
            (NamedEntity::Topic, "a/partitions/0", true),
            (NamedEntity::Hub, "consumergroups", true),
            (NamedEntity::Hub, "a/Partitions/0", false),
            (NamedEntity::Hub, "a/publishers", false),
        ] {
            assert_eq!(kind.check_name(name).is_ok(), is_name, "{kind} {name}");
        }
    }
}
