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

/// The keywords of the addresses of entries, in the letter case in which the client writes them in its requests. The service repeats them, and
/// clients look for what they write: some for `Subscriptions`, others for `subscriptions`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Keywords {
    pub(super) subscriptions: String,
    pub(super) rules: String,
}

impl Keywords {
    /// Those of the path of a request; in lower case where it has none.
    pub(super) fn of(path: &str) -> Self {
        let find = |keyword: &str| {
            let mut parts = path.split('/').skip(1);
            parts.find(|part| part.eq_ignore_ascii_case(keyword)).unwrap_or(keyword).to_owned()
        };
        Self { subscriptions: find("subscriptions"), rules: find("rules") }
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

    #[test]
    fn keywords_are_repeated_as_the_client_writes_them() {
        for (path, subscriptions, rules) in [
            ("news/Subscriptions/all/Rules/one", "Subscriptions", "Rules"),
            ("news/subscriptions/all/rules", "subscriptions", "rules"),
            ("SUBSCRIPTIONS/subscriptions/all", "subscriptions", "rules"),
            ("$Resources/topics", "subscriptions", "rules"),
        ] {
            let expected = Keywords { subscriptions: subscriptions.to_owned(), rules: rules.to_owned() };
            assert_eq!(Keywords::of(path), expected, "{path}");
        }
    }
}
