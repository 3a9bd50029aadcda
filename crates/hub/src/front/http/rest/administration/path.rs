//! What of the entities a path names. Keywords have any letter case; names of queues and topics may have slashes, so a path is read
//! from its end.

use ::rest::target::split_at_keyword;

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Path<'a> {
    /// All queues.
    Queues,
    /// All topics.
    Topics,
    /// The namespace.
    NamespaceInfo,
    /// A queue or a topic.
    Entity(&'a str),
    /// The subscriptions of a topic.
    Subscriptions(&'a str),
    /// A subscription of a topic.
    Subscription(&'a str, &'a str),
    /// The rules of a subscription of a topic.
    Rules(&'a str, &'a str),
    /// A rule of a subscription of a topic.
    Rule(&'a str, &'a str, &'a str),
}

impl<'a> Path<'a> {
    pub(super) fn of(path: &'a str) -> Self {
        let is = |keyword: &str| path.eq_ignore_ascii_case(keyword);
        if is("$Resources/queues") {
            return Self::Queues;
        }
        if is("$Resources/topics") {
            return Self::Topics;
        }
        if is("$namespaceinfo") {
            return Self::NamespaceInfo;
        }
        if let Some((topic, name)) = split_at_keyword(path, "subscriptions") {
            return Self::Subscription(topic, name);
        }
        if let Some((before, rule)) = split_at_keyword(path, "rules")
            && let Some((topic, subscription)) = split_at_keyword(before, "subscriptions")
        {
            return Self::Rule(topic, subscription, rule);
        }
        match path.rsplit_once('/') {
            Some((topic, last)) if last.eq_ignore_ascii_case("subscriptions") => Self::Subscriptions(topic),
            Some((before, last)) if last.eq_ignore_ascii_case("rules") => {
                match split_at_keyword(before, "subscriptions") {
                    Some((topic, subscription)) => Self::Rules(topic, subscription),
                    None => Self::Entity(path),
                }
            }
            _ => Self::Entity(path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read_from_their_end_whatever_the_letter_case() {
        for (path, expected) in [
            ("$resources/QUEUES", Path::Queues),
            ("$Resources/topics", Path::Topics),
            ("$namespaceInfo", Path::NamespaceInfo),
            ("team/orders", Path::Entity("team/orders")),
            ("team/news/Subscriptions", Path::Subscriptions("team/news")),
            ("team/news/subscriptions/all", Path::Subscription("team/news", "all")),
            ("news/Subscriptions/all/RULES", Path::Rules("news", "all")),
            ("news/Subscriptions/all/rules/$Default", Path::Rule("news", "all", "$Default")),
            ("team/rules", Path::Entity("team/rules")),
            ("a/rules/b", Path::Entity("a/rules/b")),
        ] {
            assert_eq!(Path::of(path), expected, "{path}");
        }
    }
}
