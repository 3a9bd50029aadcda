//! The addresses of queues, topics and what belongs to them.
//!
//! ```text
//! NAME                                      a queue or a topic
//! TOPIC/Subscriptions/SUBSCRIPTION          a subscription
//! …/$DeadLetterQueue                        the dead letters of a queue or a subscription
//! …/$Transfer/$DeadLetterQueue              those that could not be forwarded
//! …/$management                             requests about any of these
//! ```
//!
//! Clients write them relative or as whole URLs, with keywords in any letter case; names may have slashes. So suffixes
//! are taken off from the right, and what is left over is the name.

/// What an address names, as text; whether it exists is another question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EntityAddress<'a> {
    /// The queue or the topic.
    pub(crate) name: &'a str,
    /// The subscription of the topic.
    pub(crate) subscription: Option<&'a str>,
    pub(crate) part: Part,
    /// Whether it is the node that answers requests about it.
    pub(crate) is_management: bool,
}

/// What of a queue or a subscription an address names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Part {
    /// Its messages.
    Main,
    /// Those that it gave up on.
    DeadLetters,
    /// Those that it could not forward.
    TransferDeadLetters,
}

impl<'a> EntityAddress<'a> {
    /// Reads an address. `None` where it has no name in it, or is a node of the namespace itself such as `$cbs`.
    pub(crate) fn parse(address: &'a str) -> Option<Self> {
        let path = access::Resource::path_of(address).trim_matches('/');
        let (path, is_management) = match without_segment(path, "$management") {
            Some(path) => (path, true),
            None => (path, false),
        };
        let (path, part) = match without_segment(path, "$deadletterqueue") {
            Some(path) => match without_segment(path, "$transfer") {
                Some(path) => (path, Part::TransferDeadLetters),
                None => (path, Part::DeadLetters),
            },
            None => (path, Part::Main),
        };
        let (name, subscription) = match split_at_subscription(path) {
            Some((name, subscription)) => (name, Some(subscription)),
            None => (path, None),
        };
        let is_name = !name.is_empty() && !name.starts_with('$');
        is_name.then_some(Self { name, subscription, part, is_management })
    }

    /// The address as the service writes it, without a host and without that of the node for requests.
    pub(crate) fn path(&self) -> String {
        let mut path = self.name.to_owned();
        if let Some(subscription) = self.subscription {
            path = format!("{path}/Subscriptions/{subscription}");
        }
        match self.part {
            Part::Main => path,
            Part::DeadLetters => path + "/$DeadLetterQueue",
            Part::TransferDeadLetters => path + "/$Transfer/$DeadLetterQueue",
        }
    }

    /// Whether no hub can be meant: only queues and subscriptions have such a suffix.
    pub(crate) const fn has_suffix(&self) -> bool {
        self.subscription.is_some() || !matches!(self.part, Part::Main)
    }
}

/// Splits `topic/Subscriptions/name`, where neither is empty. The name of a subscription has no slashes.
fn split_at_subscription(path: &str) -> Option<(&str, &str)> {
    let (rest, name) = path.rsplit_once('/')?;
    let topic = without_segment(rest, "subscriptions")?;
    (!name.is_empty()).then_some((topic, name))
}

/// What stands before the last segment, if that is `segment` in any letter case and something stands before it.
fn without_segment<'a>(path: &'a str, segment: &str) -> Option<&'a str> {
    let (before, last) = path.rsplit_once('/')?;
    (last.eq_ignore_ascii_case(segment) && !before.is_empty()).then_some(before)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(
        name: &'static str,
        subscription: Option<&'static str>,
        part: Part,
        is_management: bool,
    ) -> Option<EntityAddress<'static>> {
        Some(EntityAddress { name, subscription, part, is_management })
    }

    #[test]
    fn every_client_form_of_an_address_is_read() {
        for (text, expected) in [
            ("orders", address("orders", None, Part::Main, false)),
            ("/orders/", address("orders", None, Part::Main, false)),
            ("team/orders", address("team/orders", None, Part::Main, false)),
            ("amqps://localhost:5672/orders", address("orders", None, Part::Main, false)),
            ("orders/$management", address("orders", None, Part::Main, true)),
            ("amqps://host/orders/$deadletterqueue", address("orders", None, Part::DeadLetters, false)),
            ("orders/$DeadLetterQueue/$management", address("orders", None, Part::DeadLetters, true)),
            ("orders/$Transfer/$deadletterqueue", address("orders", None, Part::TransferDeadLetters, false)),
            ("team/news/subscriptions/all", address("team/news", Some("all"), Part::Main, false)),
            (
                "sb://host/news/Subscriptions/all/$DeadLetterQueue/$management",
                address("news", Some("all"), Part::DeadLetters, true),
            ),
            // A name that looks like a keyword without what belongs to it is a name.
            ("news/Subscriptions", address("news/Subscriptions", None, Part::Main, false)),
            ("Subscriptions/all", address("Subscriptions/all", None, Part::Main, false)),
            ("$cbs", None),
            ("$management", None),
            ("", None),
            ("amqp://host/", None),
            ("/$deadletterqueue", None),
        ] {
            assert_eq!(EntityAddress::parse(text), expected, "{text:?}");
        }
    }
}
