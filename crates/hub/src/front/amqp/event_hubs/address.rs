//! The addresses of links.
//!
//! ```text
//! $cbs                                      authorisation
//! $management, HUB/$management              properties
//! HUB                                       send: the service picks the partition
//! HUB/Partitions/N                          send: to that partition
//! HUB/Publishers/NAME                       send: to the partition of that publisher
//! HUB/ConsumerGroups/GROUP/Partitions/N     receive
//! ```
//!
//! Clients write them relative or as whole URLs, with keywords in any letter case. A hub's name may itself contain
//! slashes, so the keywords are looked for from the end.

/// What an address names, as text; whether it exists is another question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Address<'a> {
    /// Authorisation requests.
    Cbs,
    /// Requests for properties.
    Management,
    /// A hub as a whole.
    Hub(&'a str),
    /// A publisher of a hub.
    Publisher { hub: &'a str, publisher: &'a str },
    /// One partition of a hub.
    Partition { hub: &'a str, partition: &'a str },
    /// One partition, as a consumer group reads it.
    Consumer { hub: &'a str, group: &'a str, partition: &'a str },
}

impl<'a> Address<'a> {
    /// Reads an address. `None` where it has the form of none.
    pub(crate) fn parse(address: &'a str) -> Option<Self> {
        let path = access::Resource::path_of(address).trim_matches('/');
        if path.eq_ignore_ascii_case("$cbs") {
            return Some(Self::Cbs);
        }
        if path.eq_ignore_ascii_case("$management") || ends_with_segment(path, "$management") {
            return Some(Self::Management);
        }
        if let Some((hub, publisher)) = split_at_keyword(path, "Publishers") {
            return Some(Self::Publisher { hub, publisher });
        }
        let Some((before, partition)) = split_at_keyword(path, "Partitions") else {
            let is_hub = !path.is_empty() && split_at_keyword(path, "ConsumerGroups").is_none();
            return is_hub.then_some(Self::Hub(path));
        };
        match split_at_keyword(before, "ConsumerGroups") {
            Some((hub, group)) => Some(Self::Consumer { hub, group, partition }),
            None => Some(Self::Partition { hub: before, partition }),
        }
    }
}

/// Splits `before/KEYWORD/after` where `after` is one segment and neither is empty.
fn split_at_keyword<'a>(path: &'a str, keyword: &str) -> Option<(&'a str, &'a str)> {
    let (rest, after) = path.rsplit_once('/')?;
    let (before, found) = rest.rsplit_once('/')?;
    (found.eq_ignore_ascii_case(keyword) && !before.is_empty() && !after.is_empty())
        .then_some((before, after))
}

fn ends_with_segment(path: &str, segment: &str) -> bool {
    path.rsplit_once('/').is_some_and(|(_, last)| last.eq_ignore_ascii_case(segment))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_client_form_of_an_address_is_read() {
        let consumer = Some(Address::Consumer { hub: "hub", group: "$Default", partition: "3" });
        for (address, expected) in [
            ("$cbs", Some(Address::Cbs)),
            ("$management", Some(Address::Management)),
            ("hub/$management", Some(Address::Management)),
            ("hub", Some(Address::Hub("hub"))),
            ("amqps://localhost:5672/hub", Some(Address::Hub("hub"))),
            ("team/hub", Some(Address::Hub("team/hub"))),
            ("hub/Partitions/3", Some(Address::Partition { hub: "hub", partition: "3" })),
            ("/hub/partitions/3/", Some(Address::Partition { hub: "hub", partition: "3" })),
            ("hub/ConsumerGroups/$Default/Partitions/3", consumer),
            ("amqps://ns.example/hub/consumergroups/$Default/PARTITIONS/3", consumer),
            ("team/hub/Partitions/3", Some(Address::Partition { hub: "team/hub", partition: "3" })),
            (
                "sb://localhost/team/hub/publishers/device-7",
                Some(Address::Publisher { hub: "team/hub", publisher: "device-7" }),
            ),
            ("hub/Publishers", Some(Address::Hub("hub/Publishers"))),
            ("", None),
            ("amqp://host/", None),
            ("hub/ConsumerGroups/cg", None),
        ] {
            assert_eq!(Address::parse(address), expected, "{address:?}");
        }
    }
}
