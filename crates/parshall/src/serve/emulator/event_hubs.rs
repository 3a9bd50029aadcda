//! The `Config.json` of Microsoft's Event Hubs emulator.
//!
//! ```json
//! {"UserConfig": {
//!    "NamespaceConfig": [{"Type": "EventHub", "Name": "emulatorNs1", "Entities": [
//!       {"Name": "eh1", "PartitionCount": "2", "ConsumerGroups": [{"Name": "cg1"}]}]}],
//!    "LoggingConfig": {"Type": "File"}}}
//! ```
//!
//! A number of partitions may be text, and a key that means nothing here is warned of and passed over. The emulator's
//! limits (10 hubs, 32 partitions, 20 consumer groups) are not ours. A file that lacks what matters is refused, with the
//! place.

use hub::namespace::{DEFAULT_CONSUMER_GROUP, HubConfig};
use settings::{Content, Document, Node, SettingsError};

use super::{find, missing, text};

/// Whether the file describes hubs.
pub(super) fn is_there(user: &Node) -> bool {
    find(user, "NamespaceConfig").is_some()
}

/// The hubs that the file describes.
///
/// # Errors
/// What is missing or makes no sense, with its place.
pub(super) fn read(document: &Document) -> Result<Vec<HubConfig>, SettingsError> {
    warn_of_unknown(document.root(), "", &["UserConfig"]);
    if let Some(user) = find(document.root(), "UserConfig") {
        let known = ["NamespaceConfig", "LoggingConfig", "Namespaces", "Logging"];
        warn_of_unknown(user, "UserConfig", &known);
    }
    let namespace = namespace_node(document)?;
    warn_of_unknown(namespace, NAMESPACE, &["Type", "Name", "Entities"]);
    if let Some(kind) = find(namespace, "Type")
        && !kind.written().eq_ignore_ascii_case("EventHub")
    {
        let advice = "the only supported type is `EventHub`";
        return Err(kind.mistake(&format!("{NAMESPACE}.Type"), "is not an Event Hubs namespace", advice));
    }
    hub_nodes(document)
        .ok_or_else(|| missing(namespace, NAMESPACE, "Entities"))?
        .iter()
        .enumerate()
        .map(|(index, node)| hub(node, &format!("{NAMESPACE}.Entities[{index}]")))
        .collect()
}

/// The nodes of the hubs, in the order of the file; `None` where there is no list of them.
fn hub_nodes(document: &Document) -> Option<&[Node]> {
    find(namespace_node(document).ok()?, "Entities")?.elements()
}

fn namespace_node(document: &Document) -> Result<&Node, SettingsError> {
    let path = "UserConfig.NamespaceConfig";
    let user = find(document.root(), "UserConfig").unwrap_or_else(|| document.root());
    let Some(list) = find(user, "NamespaceConfig") else {
        return Err(user.mistake("UserConfig", "has no `NamespaceConfig`", ""));
    };
    match list.elements() {
        Some([namespace]) => Ok(namespace),
        Some([]) => Err(list.mistake(path, "contains no namespace", "")),
        Some([_, second, ..]) => Err(second.mistake(
            path,
            "has more than one namespace",
            "a service has one namespace; start a second service for the other",
        )),
        None => Err(list.mistake(path, "is not a list", "")),
    }
}

fn hub(node: &Node, path: &str) -> Result<HubConfig, SettingsError> {
    warn_of_unknown(node, path, &["Name", "PartitionCount", "ConsumerGroups"]);
    let needed = |key: &str| find(node, key).ok_or_else(|| node.mistake(path, format!("has no `{key}`"), ""));
    let name = text(needed("Name")?, &format!("{path}.Name"))?;
    let count = needed("PartitionCount")?;
    let partitions = count.written().trim().parse().map_err(|_not_a_number| {
        let path = format!("{path}.PartitionCount");
        count.mistake(&path, "is not a number of partitions", "such as 4 or \"4\"")
    })?;
    let groups_path = format!("{path}.ConsumerGroups");
    let groups = match find(node, "ConsumerGroups") {
        None => &[],
        Some(groups) if matches!(groups.content, Content::Null) => &[],
        Some(groups) => groups.elements().ok_or_else(|| groups.mistake(&groups_path, "is not a list", ""))?,
    };
    let mut consumer_groups = Vec::with_capacity(groups.len());
    for (index, group) in groups.iter().enumerate() {
        let path = format!("{groups_path}[{index}]");
        warn_of_unknown(group, &path, &["Name"]);
        let name = find(group, "Name").ok_or_else(|| group.mistake(&path, "has no `Name`", ""))?;
        let name = text(name, &format!("{path}.Name"))?;
        // Some files list it, though it is there anyway.
        if !name.eq_ignore_ascii_case(DEFAULT_CONSUMER_GROUP) {
            consumer_groups.push(name);
        }
    }
    Ok(HubConfig { consumer_groups, ..HubConfig::new(name, partitions) })
}

fn warn_of_unknown(node: &Node, path: &str, known: &[&str]) {
    for entry in node.entries() {
        // Editors put the address of a schema in.
        let is_known =
            entry.key.starts_with('$') || known.iter().any(|known| entry.key.eq_ignore_ascii_case(known));
        if !is_known {
            let place = &entry.key_place;
            let separator = if path.is_empty() { "" } else { "." };
            tracing::warn!(
                "{}:{}:{}: `{path}{separator}{}` is not supported and is ignored",
                place.name(),
                place.line(),
                place.column(),
                entry.key
            );
        }
    }
}

const NAMESPACE: &str = "UserConfig.NamespaceConfig[0]";

#[cfg(test)]
mod tests {
    use super::*;

    fn hubs(text: &str) -> Result<Vec<HubConfig>, SettingsError> {
        let document = Document::parse("Config.json", text).unwrap();
        assert!(super::super::is_emulators(&document));
        read(&document)
    }

    fn file(entities: &str) -> String {
        format!(
            "{{\"UserConfig\": {{\"NamespaceConfig\": [{{\"Type\": \"EventHub\", \"Name\": \"emulatorNs1\",\n\
             \"Entities\": {entities}}}],\n\"LoggingConfig\": {{\"Type\": \"Console,File\"}}}}}}"
        )
    }

    #[test]
    fn partition_counts_may_be_numbers_or_texts_and_groups_may_be_left_out() {
        let text = file(
            r#"[{"Name": "telemetry", "PartitionCount": "2", "ConsumerGroups": [{"Name": "dashboard"}, {"Name": "alerts"}]},
                {"Name": "commands", "PartitionCount": 40},
                {"Name": "audit", "PartitionCount": 1, "ConsumerGroups": [{"Name": "$default"}]},
                {"Name": "7", "PartitionCount": "1", "ConsumerGroups": null}]"#,
        );
        let expected = [
            HubConfig {
                consumer_groups: vec!["dashboard".into(), "alerts".into()],
                ..HubConfig::new("telemetry", 2)
            },
            HubConfig::new("commands", 40),
            HubConfig::new("audit", 1),
            HubConfig::new("7", 1),
        ];
        assert_eq!(hubs(&text).unwrap(), expected);
    }

    #[test]
    fn files_of_other_writers_are_read_too() {
        // With a byte order mark, tabs, keys in camel case, a schema, and what only other emulators know.
        let text = "\u{feff}{\r\n\t\"$schema\": \"https://example.com/schema.json\",\r\n\t\"userConfig\": {\r\n\
                    \t\t\"namespaceConfig\": [{\r\n\t\t\t\"entities\": [\r\n\
                    \t\t\t\t{\"name\": \"one\", \"partitionCount\": 3, \"retentionHours\": 1}\r\n\t\t\t]\r\n\t\t}]\r\n\t}\r\n}";
        assert_eq!(hubs(text).unwrap(), [HubConfig::new("one", 3)]);
    }

    #[test]
    fn what_matters_must_be_there_and_make_sense() {
        let message = |text: &str| hubs(text).unwrap_err().to_string();
        for (entities, expected) in [
            (
                r#"[{"PartitionCount": 1}]"#,
                "Config.json:2:14: `UserConfig.NamespaceConfig[0].Entities[0]`: has no `Name`",
            ),
            (
                r#"[{"Name": "a", "PartitionCount": "many"}]"#,
                "Config.json:2:46: `UserConfig.NamespaceConfig[0].Entities[0].PartitionCount`: is not a number of partitions",
            ),
            (
                r#"[{"Name": "a", "PartitionCount": 1, "ConsumerGroups": [{}]}]"#,
                "Config.json:2:68: `UserConfig.NamespaceConfig[0].Entities[0].ConsumerGroups[0]`: has no `Name`",
            ),
        ] {
            assert_eq!(message(&file(entities)), expected);
        }
        let of =
            |namespaces: &str| message(&format!("{{\"UserConfig\": {{\"NamespaceConfig\": {namespaces}}}}}"));
        assert!(of("[]").ends_with("contains no namespace"));
        assert!(of("[{\"Entities\": []}, {\"Entities\": []}]").ends_with("has more than one namespace"));
        assert!(of("[{\"Type\": \"ServiceBus\"}]").ends_with("is not an Event Hubs namespace"));
        assert!(of("[{}]").ends_with("has no `Entities`"));
    }
}
