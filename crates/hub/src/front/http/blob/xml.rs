//! The few documents of the protocol: listings out, block lists in and out.

use std::borrow::Cow;
use std::time::SystemTime;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use quick_xml::escape::{escape, resolve_predefined_entity};
use quick_xml::events::{BytesDecl, BytesEnd, BytesStart, BytesText, Event};
use quick_xml::{Reader, Writer};
use units::date::http_date;

use blob_store::{
    AccessTier, Blob, BlobKind, BlockChoice, BlockLists, BlockSource, Container, FoundBlob, Lease,
    LeaseState, ListRequest, Listed, ListedBlock, Listing, Metrics, PublicAccess, ServiceProperties,
    StoredPolicy, Tags, TierSetting, state_of,
};

/// What a list of containers was asked for with.
#[derive(Clone, Copy, Debug)]
pub(super) struct ContainerPage<'a> {
    pub(super) prefix: &'a str,
    pub(super) marker: &'a str,
    pub(super) maximum: usize,
    pub(super) next: &'a str,
    pub(super) with_metadata: bool,
    /// Which leases are judged by.
    pub(super) now: SystemTime,
}

/// What goes into a listing of blobs besides the blobs.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlobPage<'a> {
    pub(super) endpoint: &'a str,
    pub(super) container: &'a str,
    pub(super) marker: &'a str,
    pub(super) next: &'a str,
    pub(super) with_metadata: bool,
    pub(super) with_copies: bool,
    pub(super) with_tags: bool,
    /// Which leases are judged by.
    pub(super) now: SystemTime,
}

/// The blobs of a container.
pub(super) fn blobs(page: &BlobPage<'_>, request: &ListRequest<'_>, listing: &Listing) -> String {
    let attributes = [("ServiceEndpoint", page.endpoint), ("ContainerName", page.container)];
    Document::text("EnumerationResults", &attributes, |document| {
        document.element("Prefix", request.prefix);
        document.element("Marker", page.marker);
        document.element("MaxResults", &request.maximum.to_string());
        if let Some(delimiter) = request.delimiter {
            document.element("Delimiter", delimiter);
        }
        document.parent("Blobs", |document| {
            for entry in &listing.entries {
                match entry {
                    Listed::Prefix(prefix) => {
                        document.parent("BlobPrefix", |document| document.element("Name", prefix));
                    }
                    Listed::Blob { name, blob } => listed_blob(document, name, blob, page),
                    Listed::Uncommitted { name, since } => listed_uncommitted(document, name, *since),
                }
            }
        });
        document.element("NextMarker", page.next);
    })
}

/// The blobs of a container that has none.
pub(super) fn no_blobs(endpoint: &str, container: &str, prefix: &str, maximum: usize) -> String {
    let request = ListRequest {
        prefix,
        delimiter: None,
        from: None,
        before: None,
        with_snapshots: false,
        with_uncommitted: false,
        maximum,
        maximum_bytes: u64::MAX,
    };
    let page = BlobPage {
        endpoint,
        container,
        marker: "",
        next: "",
        with_metadata: false,
        with_copies: false,
        with_tags: false,
        now: SystemTime::UNIX_EPOCH,
    };
    blobs(&page, &request, &Listing::default())
}

fn listed_blob(document: &mut Document, name: &str, blob: &Blob, page: &BlobPage<'_>) {
    let (version, headers) = (blob.version(), &blob.description().headers);
    document.parent("Blob", |document| {
        document.element("Name", name);
        if let Some(time) = blob.snapshot() {
            document.element("Snapshot", &time.to_string());
        }
        document.parent("Properties", |document| {
            document.element("Creation-Time", &http_date(blob.created_at()));
            document.element("Last-Modified", &http_date(version.modified_at));
            document.element("Etag", &version.etag.to_string());
            document.element("Content-Length", &blob.length().to_string());
            let content_type = headers.content_type.as_deref();
            document.element("Content-Type", content_type.unwrap_or(DEFAULT_TYPE));
            for (name, value) in [
                ("Content-Encoding", &headers.content_encoding),
                ("Content-Language", &headers.content_language),
                ("Content-Disposition", &headers.content_disposition),
                ("Cache-Control", &headers.cache_control),
                ("Content-MD5", &headers.content_md5),
            ] {
                document.element(name, value.as_deref().unwrap_or_default());
            }
            document.element("BlobType", kind_name(blob.kind()));
            if blob.kind() == BlobKind::Block {
                tier(document, blob.description().tier);
            }
            lease(document, blob.lease(), page.now);
            if page.with_copies
                && let Some(copy) = &blob.description().copy
            {
                document.element("CopyId", &copy.id);
                document.element("CopySource", &copy.source);
                document.element("CopyStatus", COPIED);
                document.element("CopyProgress", &format!("{0}/{0}", copy.length));
                document.element("CopyCompletionTime", &http_date(copy.completed_at()));
            }
            document.element("ServerEncrypted", "true");
            let tags = blob.description().tags.len();
            if tags > 0 {
                document.element("TagCount", &tags.to_string());
            }
        });
        if page.with_metadata {
            metadata(document, &blob.description().metadata);
        }
        if page.with_tags && !blob.description().tags.is_empty() {
            tags(document, &blob.description().tags);
        }
    });
}

/// A blob of which there are uncommitted blocks alone.
fn listed_uncommitted(document: &mut Document, name: &str, since: SystemTime) {
    document.parent("Blob", |document| {
        document.element("Name", name);
        document.parent("Properties", |document| {
            document.element("Creation-Time", &http_date(since));
            document.element("Last-Modified", &http_date(since));
            document.element("Content-Length", "0");
            document.element("Content-Type", DEFAULT_TYPE);
            document.element("BlobType", kind_name(BlobKind::Block));
        });
    });
}

fn tags(document: &mut Document, tags: &[(String, String)]) {
    document.parent("Tags", |document| set_of_tags(document, tags));
}

fn set_of_tags(document: &mut Document, tags: &[(String, String)]) {
    document.parent("TagSet", |document| {
        for (key, value) in tags {
            document.parent("Tag", |document| {
                document.element("Key", key);
                document.element("Value", value);
            });
        }
    });
}

/// The tags of a blob.
pub(super) fn tag_set(tags: &[(String, String)]) -> String {
    Document::text("Tags", &[], |document| set_of_tags(document, tags))
}

/// Reads the tags in a document like that; `None` if it is another.
pub(super) fn read_tag_set(document: &[u8]) -> Option<Tags> {
    let mut tags: Tags = Vec::new();
    let mut key: Option<String> = None;
    for (path, text) in texts(document, "Tags")? {
        match (path.as_str(), key.take()) {
            ("TagSet", None) => {}
            ("TagSet/Tag/Key", None) => key = Some(text),
            ("TagSet/Tag/Value", Some(key)) => tags.push((key, text)),
            _ => return None,
        }
    }
    key.is_none().then_some(tags)
}

/// Blobs that were found by their tags.
pub(super) fn found_blobs(endpoint: &str, wanted: &str, found: &[FoundBlob], next: &str) -> String {
    Document::text("EnumerationResults", &[("ServiceEndpoint", endpoint)], |document| {
        document.element("Where", wanted);
        document.parent("Blobs", |document| {
            for blob in found {
                document.parent("Blob", |document| {
                    document.element("Name", &blob.name);
                    document.element("ContainerName", &blob.container);
                    tags(document, &blob.tags);
                });
            }
        });
        document.element("NextMarker", next);
    })
}

/// The access policies of a container.
pub(super) fn policies(policies: &[StoredPolicy]) -> String {
    Document::text(POLICIES, &[], |document| {
        for policy in policies {
            document.parent("SignedIdentifier", |document| {
                document.element("Id", &policy.id);
                document.parent("AccessPolicy", |document| {
                    for (name, value) in [
                        ("Start", &policy.start),
                        ("Expiry", &policy.expiry),
                        ("Permission", &policy.permission),
                    ] {
                        if let Some(value) = value {
                            document.element(name, value);
                        }
                    }
                });
            });
        }
    })
}

/// Reads access policies; `None` if the document is another, or has more policies than a container can have.
pub(super) fn read_policies(document: &[u8]) -> Option<Vec<StoredPolicy>> {
    let mut policies: Vec<StoredPolicy> = Vec::new();
    for (path, text) in texts(document, POLICIES)? {
        let text = text.trim();
        if path == "SignedIdentifier/Id" {
            let is_id = (1..=POLICY_ID_MAX).contains(&text.chars().count());
            if !is_id || policies.len() == POLICIES_MAX || policies.iter().any(|policy| policy.id == text) {
                return None;
            }
            policies.push(StoredPolicy { id: text.to_owned(), start: None, expiry: None, permission: None });
            continue;
        }
        let policy = policies.last_mut()?;
        let value = Some(text.to_owned()).filter(|text| !text.is_empty());
        match path.as_str() {
            "SignedIdentifier/AccessPolicy/Start" => policy.start = value,
            "SignedIdentifier/AccessPolicy/Expiry" => policy.expiry = value,
            "SignedIdentifier/AccessPolicy/Permission" => policy.permission = value,
            "SignedIdentifier/AccessPolicy" => {}
            _ => return None,
        }
    }
    Some(policies)
}

/// The name of access for anyone on the wire.
pub(super) const fn access_name(access: PublicAccess) -> &'static str {
    match access {
        PublicAccess::Blob => "blob",
        PublicAccess::Container => "container",
    }
}

fn tier(document: &mut Document, chosen: Option<TierSetting>) {
    document.element("AccessTier", chosen.map_or(AccessTier::Hot, |setting| setting.tier).name());
    match chosen {
        None => document.element("AccessTierInferred", "true"),
        Some(setting) => {
            document.element("AccessTierChangeTime", &http_date(setting.changed_at()));
        }
    }
}

/// The containers of the account.
pub(super) fn containers(
    endpoint: &str,
    page: &ContainerPage<'_>,
    containers: &[std::sync::Arc<Container>],
) -> String {
    Document::text("EnumerationResults", &[("ServiceEndpoint", endpoint)], |document| {
        document.element("Prefix", page.prefix);
        document.element("Marker", page.marker);
        document.element("MaxResults", &page.maximum.to_string());
        document.parent("Containers", |document| {
            for container in containers {
                listed_container(document, container, page);
            }
        });
        document.element("NextMarker", page.next);
    })
}

fn listed_container(document: &mut Document, container: &Container, page: &ContainerPage<'_>) {
    let properties = container.properties();
    let version = properties.version();
    document.parent("Container", |document| {
        document.element("Name", container.name());
        document.parent("Properties", |document| {
            document.element("Last-Modified", &http_date(version.modified_at));
            document.element("Etag", &version.etag.to_string());
            lease(document, properties.lease(), page.now);
            if let Some(public) = properties.access().public {
                document.element("PublicAccess", access_name(public));
            }
        });
        if page.with_metadata {
            metadata(document, properties.metadata());
        }
    });
}

fn metadata(document: &mut Document, metadata: &[(String, String)]) {
    document.parent("Metadata", |document| {
        for (name, value) in metadata {
            document.element(name, value);
        }
    });
}

fn lease(document: &mut Document, lease: Option<&Lease>, now: SystemTime) {
    let words = LeaseWords::of(lease, now);
    document.element("LeaseStatus", words.status);
    document.element("LeaseState", words.state);
    if let Some(duration) = words.duration {
        document.element("LeaseDuration", duration);
    }
}

/// The blocks of a blob, of one kind or both.
pub(super) fn block_lists(lists: &BlockLists, committed: bool, uncommitted: bool) -> String {
    Document::text("BlockList", &[], |document| {
        let mut list = |name, blocks: &[ListedBlock]| {
            document.parent(name, |document| {
                for block in blocks {
                    document.parent("Block", |document| {
                        document.element("Name", &block.id);
                        document.element("Size", &block.length.to_string());
                    });
                }
            });
        };
        if committed {
            list("CommittedBlocks", &lists.committed);
        }
        if uncommitted {
            list("UncommittedBlocks", &lists.uncommitted);
        }
    })
}

/// Properties of the whole account.
pub(super) fn service_properties(properties: &ServiceProperties) -> String {
    fn retention(document: &mut Document, days: Option<u16>) {
        document.parent("RetentionPolicy", |document| {
            document.element("Enabled", flag(days.is_some()));
            if let Some(days) = days {
                document.element("Days", &days.to_string());
            }
        });
    }
    fn metrics(document: &mut Document, name: &str, metrics: &Metrics) {
        document.parent(name, |document| {
            document.element("Version", &metrics.version);
            document.element("Enabled", flag(metrics.is_enabled));
            if metrics.is_enabled {
                document.element("IncludeAPIs", flag(metrics.includes_apis));
            }
            retention(document, metrics.retention_days);
        });
    }
    Document::text("StorageServiceProperties", &[], |document| {
        document.parent("Logging", |document| {
            let logging = &properties.logging;
            document.element("Version", &logging.version);
            document.element("Read", flag(logging.read));
            document.element("Write", flag(logging.write));
            document.element("Delete", flag(logging.delete));
            retention(document, logging.retention_days);
        });
        metrics(document, "HourMetrics", &properties.hour_metrics);
        metrics(document, "MinuteMetrics", &properties.minute_metrics);
        document.parent("Cors", |_none| {});
        if let Some(version) = &properties.default_version {
            document.element("DefaultServiceVersion", version);
        }
        document.parent("DeleteRetentionPolicy", |document| document.element("Enabled", flag(false)));
        document.parent("StaticWebsite", |document| document.element("Enabled", flag(false)));
    })
}

const fn flag(value: bool) -> &'static str {
    if value { "true" } else { "false" }
}

/// The body of an error reply.
pub(super) fn error(code: &str, message: &str) -> String {
    Document::text("Error", &[], |document| {
        document.element("Code", code);
        document.element("Message", message);
    })
}

/// Reads the list of blocks that a blob is to consist of; `None` if the document is anything else, or has more than
/// `most` entries.
pub(super) fn read_block_list(document: &[u8], most: usize) -> Option<Vec<BlockChoice>> {
    let text = str::from_utf8(document).ok()?;
    let mut reader = Reader::from_str(text.trim_start_matches('\u{feff}'));
    reader.config_mut().trim_text(true);
    let mut list = Vec::new();
    let root = loop {
        match reader.read_event().ok()? {
            Event::Decl(_) | Event::Comment(_) => {}
            event => break event,
        }
    };
    match root {
        Event::Start(root) if is_block_list(&root) => {
            while read_block(&mut reader, most, &mut list)?.is_some() {}
        }
        Event::Empty(root) if is_block_list(&root) => {}
        _ => return None,
    }
    matches!(reader.read_event(), Ok(Event::Eof)).then_some(list)
}

/// Reads the texts of a document with this root: of each element without others in it, in their order, with the names of the
/// elements from beneath the root down to it, joined by slashes. `None` if it is another document, or deeper than any of these.
pub(super) fn texts(document: &[u8], root: &str) -> Option<Vec<(String, String)>> {
    let text = str::from_utf8(document).ok()?;
    let mut reader = Reader::from_str(text.trim_start_matches('\u{feff}'));
    let mut names: Vec<String> = Vec::new();
    let (mut texts, mut current, mut has_root, mut is_leaf) = (Vec::new(), String::new(), false, false);
    loop {
        match reader.read_event().ok()? {
            Event::Decl(_) | Event::Comment(_) => {}
            Event::Start(start) => {
                let name = str::from_utf8(start.name().as_ref()).ok()?.to_owned();
                match names.is_empty() {
                    true if has_root || name != root => return None,
                    true => has_root = true,
                    false if names.len() > DEPTH_MAX => return None,
                    false => {}
                }
                names.push(name);
                current.clear();
                is_leaf = true;
            }
            Event::Empty(empty) => {
                let name = str::from_utf8(empty.name().as_ref()).ok()?.to_owned();
                match names.get(1..) {
                    None if has_root || name != root => return None,
                    None => has_root = true,
                    Some([]) => texts.push((name, String::new())),
                    Some(above) => texts.push((format!("{}/{name}", above.join("/")), String::new())),
                }
                is_leaf = false;
            }
            Event::Text(part) => current.push_str(&part.decode().ok()?),
            Event::GeneralRef(reference) => {
                let character = match reference.resolve_char_ref().ok()? {
                    Some(character) => character.to_string(),
                    None => resolve_predefined_entity(&reference.decode().ok()?)?.to_owned(),
                };
                current.push_str(&character);
            }
            Event::End(_) => {
                let value = std::mem::take(&mut current);
                if names.len() > 1 && is_leaf {
                    texts.push((names[1..].join("/"), value));
                }
                is_leaf = false;
                names.pop()?;
            }
            Event::Eof if has_root && names.is_empty() => return Some(texts),
            _ => return None,
        }
    }
}

fn is_block_list(root: &BytesStart<'_>) -> bool {
    root.name().as_ref() == b"BlockList"
}

/// Reads the next entry into `list`; `Some(None)` at the end of the list.
fn read_block(reader: &mut Reader<&[u8]>, most: usize, list: &mut Vec<BlockChoice>) -> Option<Option<()>> {
    let source = match reader.read_event().ok()? {
        Event::Start(entry) => match entry.name().as_ref() {
            b"Latest" => BlockSource::Latest,
            b"Committed" => BlockSource::Committed,
            b"Uncommitted" => BlockSource::Uncommitted,
            _ => return None,
        },
        Event::End(_) => return Some(None),
        _ => return None,
    };
    let Event::Text(id) = reader.read_event().ok()? else { return None };
    let id = id.decode().ok()?.into_owned();
    // What base64 has, and nothing that XML would escape.
    let is_id =
        !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=-_".contains(&byte));
    let has_ended = matches!(reader.read_event().ok()?, Event::End(_));
    if !is_id || !has_ended || list.len() == most {
        return None;
    }
    list.push(BlockChoice { source, id });
    Some(Some(()))
}

/// What headers and listings alike say of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LeaseWords {
    pub(super) status: &'static str,
    pub(super) state: &'static str,
    /// While a client holds it.
    pub(super) duration: Option<&'static str>,
}

impl LeaseWords {
    /// What they say of `lease` at `now`.
    pub(super) fn of(lease: Option<&Lease>, now: SystemTime) -> Self {
        let state = state_of(lease, now);
        let status = match state.is_locked() {
            true => "locked",
            false => "unlocked",
        };
        let duration = match lease.is_some_and(Lease::is_infinite) {
            true => "infinite",
            false => "fixed",
        };
        Self { status, state: state.name(), duration: (state == LeaseState::Leased).then_some(duration) }
    }
}

/// The name of a kind of blob on the wire.
pub(super) const fn kind_name(kind: BlobKind) -> &'static str {
    match kind {
        BlobKind::Block => "BlockBlob",
        BlobKind::Append => "AppendBlob",
    }
}

/// A document while it is written.
struct Document(Writer<Vec<u8>>);

impl Document {
    /// The text of a document with this root, and what `content` puts into it.
    fn text(root: &str, attributes: &[(&str, &str)], content: impl FnOnce(&mut Self)) -> String {
        let mut document = Self(Writer::new(Vec::new()));
        document.write(Event::Decl(BytesDecl::new("1.0", Some("utf-8"), None)));
        let start = BytesStart::new(root).with_attributes(attributes.iter().copied());
        document.write(Event::Start(start));
        content(&mut document);
        document.write(Event::End(BytesEnd::new(root)));
        String::from_utf8(document.0.into_inner()).expect("made of strings")
    }

    /// An element with what `content` puts into it.
    fn parent(&mut self, name: &str, content: impl FnOnce(&mut Self)) {
        self.write(Event::Start(BytesStart::new(name)));
        content(self);
        self.write(Event::End(BytesEnd::new(name)));
    }

    /// An element with a text. One with characters that no document of XML can have is percent-encoded and marked so, as
    /// in the service.
    fn element(&mut self, name: &str, value: &str) {
        let start = BytesStart::new(name);
        if value.is_empty() {
            return self.write(Event::Empty(start));
        }
        let (start, text) = match value.chars().all(is_xml) {
            true => (start, escaped(value)),
            false => {
                let encoded = utf8_percent_encode(value, NON_ALPHANUMERIC).to_string();
                (start.with_attributes([("Encoded", "true")]), encoded.into())
            }
        };
        self.write(Event::Start(start));
        self.write(Event::Text(BytesText::from_escaped(text)));
        self.write(Event::End(BytesEnd::new(name)));
    }

    fn write(&mut self, event: Event<'_>) {
        self.0.write_event(event).expect("memory takes any bytes");
    }
}

fn is_xml(character: char) -> bool {
    !matches!(character, '\0'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}')
}

/// A text as a document has it. Readers would make a line feed of a carriage return that stands as it is; line feeds stand as they
/// are, since the reader of JavaScript's client resolves no references by number.
fn escaped(value: &str) -> Cow<'_, str> {
    let text = escape(value);
    match text.contains('\r') {
        false => text,
        true => text.replace('\r', "&#xD;").into(),
    }
}

const POLICIES: &str = "SignedIdentifiers";

/// Policies of a container, as in the service.
const POLICIES_MAX: usize = 5;

/// Characters of the name of a policy, as in the service.
const POLICY_ID_MAX: usize = 64;

/// Elements within one another, more than any document that is read has.
const DEPTH_MAX: usize = 8;

/// The state of every copying: it is over when its request is answered.
pub(super) const COPIED: &str = "success";

/// What a blob is whose writer did not say.
pub(super) const DEFAULT_TYPE: &str = "application/octet-stream";

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values_are_escaped_and_impossible_ones_marked() {
        let written = |value: &str| {
            let document =
                Document::text("Root", &[("of", "\"a\"")], |document| document.element("Name", value));
            let declaration = "<?xml version=\"1.0\" encoding=\"utf-8\"?>";
            let rest = document.strip_prefix(declaration).expect("a declaration");
            let content = rest.strip_prefix("<Root of=\"&quot;a&quot;\">").expect("a root");
            content.strip_suffix("</Root>").expect("its end").to_owned()
        };
        assert_eq!(written(""), "<Name/>");
        assert_eq!(written("a<b>&\"c\"\r\n"), "<Name>a&lt;b&gt;&amp;&quot;c&quot;&#xD;\n</Name>");
        assert_eq!(written("a\u{1}b"), "<Name Encoded=\"true\">a%01b</Name>");
    }

    #[test]
    fn block_lists_are_read_in_every_clients_form() {
        let choice = |source, id: &str| BlockChoice { source, id: id.to_owned() };
        let expected = vec![
            choice(BlockSource::Latest, "QUE="),
            choice(BlockSource::Uncommitted, "QUI="),
            choice(BlockSource::Committed, "QUM="),
        ];
        for text in [
            "<?xml version=\"1.0\" encoding=\"utf-8\"?><BlockList><Latest>QUE=</Latest>\
             <Uncommitted>QUI=</Uncommitted><Committed>QUM=</Committed></BlockList>",
            "\u{feff}<?xml version='1.0' encoding='utf-8'?>\n<BlockList>\n  <Latest>QUE=</Latest>\n\
             <Uncommitted> QUI= </Uncommitted><Committed>QUM=</Committed>\n</BlockList>\n",
        ] {
            assert_eq!(read_block_list(text.as_bytes(), 3), Some(expected.clone()));
        }
        assert_eq!(read_block_list(b"<BlockList/>", 3), Some(Vec::new()));
        assert_eq!(read_block_list(b"<BlockList></BlockList>", 3), Some(Vec::new()));
        for text in [
            "",
            "<BlockList>",
            "<BlockList><Latest>QUE=</Latest>",
            "<BlockList><Oldest>QUE=</Oldest></BlockList>",
            "<BlockList><Latest></Latest></BlockList>",
            "<BlockList><Latest>&amp;</Latest></BlockList>",
            "<BlockList><Latest>QUE=</Committed></BlockList>",
            "<BlockList/><BlockList/>",
            "<BlockList><Latest>QUE=<Latest/></Latest></BlockList>",
            "<!DOCTYPE a [<!ENTITY b \"QUE=\">]><BlockList><Latest>&b;</Latest></BlockList>",
            "<BlockList>QUE=</BlockList>",
        ] {
            assert_eq!(read_block_list(text.as_bytes(), 3), None, "{text}");
        }
        let many = format!("<BlockList>{}</BlockList>", "<Latest>QQ==</Latest>".repeat(4));
        assert_eq!(read_block_list(many.as_bytes(), 3), None);
    }

    #[test]
    fn sets_of_tags_come_back() {
        let tags = [("a b", "1"), ("empty", ""), ("spaces", " x ")];
        let tags: Tags = tags.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        assert_eq!(read_tag_set(tag_set(&tags).as_bytes()), Some(tags));
        let indented = b"<?xml version=\"1.0\"?>\n<Tags>\n <TagSet>\n  <Tag><Key>a</Key>\n<Value>&amp;&#65;</Value></Tag>\n</TagSet></Tags>";
        assert_eq!(read_tag_set(indented), Some(vec![("a".to_owned(), "&A".to_owned())]));
        for none in ["<Tags/>", "<Tags><TagSet/></Tags>", "<Tags><TagSet></TagSet></Tags>"] {
            assert_eq!(read_tag_set(none.as_bytes()), Some(Vec::new()), "{none}");
        }
        for wrong in [
            "",
            "<Tag/>",
            "<Tags><TagSet><Tag><Key>a</Key></Tag></TagSet></Tags>",
            "<Tags>",
            "<Tags/><Tags/>",
        ] {
            assert_eq!(read_tag_set(wrong.as_bytes()), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn no_document_panics(text in "(<\\?xml)?(<BlockList>)?(<(Latest|Committed)>[A-Za-z=]{0,4}</?){0,3}\\PC{0,20}") {
            let _ = read_block_list(text.as_bytes(), 9);
        }
    }
}
