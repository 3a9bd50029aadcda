//! The few documents of the protocol: listings out, block lists in and out.

use std::fmt::Write as _;
use std::time::SystemTime;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use units::date::http_date;

use blob_store::{
    Blob, BlobKind, BlockChoice, BlockLists, BlockSource, Container, Lease, LeaseState, ListRequest, Listed,
    ListedBlock, Listing, state_of,
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
    /// Which leases are judged by.
    pub(super) now: SystemTime,
}

/// The blobs of a container.
pub(super) fn blobs(page: &BlobPage<'_>, request: &ListRequest<'_>, listing: &Listing) -> String {
    let mut text = head(page.endpoint, Some(page.container));
    element(&mut text, "Prefix", request.prefix);
    element(&mut text, "Marker", page.marker);
    element(&mut text, "MaxResults", &request.maximum.to_string());
    if let Some(delimiter) = request.delimiter {
        element(&mut text, "Delimiter", delimiter);
    }
    text.push_str("<Blobs>");
    for entry in &listing.entries {
        match entry {
            Listed::Prefix(prefix) => {
                text.push_str("<BlobPrefix>");
                element(&mut text, "Name", prefix);
                text.push_str("</BlobPrefix>");
            }
            Listed::Blob { name, blob } => listed_blob(&mut text, name, blob, page),
        }
    }
    text.push_str("</Blobs>");
    element(&mut text, "NextMarker", page.next);
    text.push_str("</EnumerationResults>");
    text
}

fn listed_blob(text: &mut String, name: &str, blob: &Blob, page: &BlobPage<'_>) {
    text.push_str("<Blob>");
    element(text, "Name", name);
    text.push_str("<Properties>");
    let version = blob.version();
    element(text, "Creation-Time", &http_date(blob.created_at()));
    element(text, "Last-Modified", &http_date(version.modified_at));
    element(text, "Etag", &version.etag.to_string());
    element(text, "Content-Length", &blob.length().to_string());
    let headers = &blob.description().headers;
    let content_type = headers.content_type.as_deref();
    element(text, "Content-Type", content_type.unwrap_or(DEFAULT_TYPE));
    for (name, value) in [
        ("Content-Encoding", &headers.content_encoding),
        ("Content-Language", &headers.content_language),
        ("Content-Disposition", &headers.content_disposition),
        ("Cache-Control", &headers.cache_control),
        ("Content-MD5", &headers.content_md5),
    ] {
        element(text, name, value.as_deref().unwrap_or_default());
    }
    element(text, "BlobType", kind_name(blob.kind()));
    if blob.kind() == BlobKind::Block {
        element(text, "AccessTier", ACCESS_TIER);
    }
    lease(text, blob.lease(), page.now);
    text.push_str("</Properties>");
    if page.with_metadata {
        metadata(text, &blob.description().metadata);
    }
    text.push_str("</Blob>");
}

/// The containers of the account.
pub(super) fn containers(
    endpoint: &str,
    page: &ContainerPage<'_>,
    containers: &[std::sync::Arc<Container>],
) -> String {
    let mut text = head(endpoint, None);
    element(&mut text, "Prefix", page.prefix);
    element(&mut text, "Marker", page.marker);
    element(&mut text, "MaxResults", &page.maximum.to_string());
    text.push_str("<Containers>");
    for container in containers {
        text.push_str("<Container>");
        element(&mut text, "Name", container.name());
        text.push_str("<Properties>");
        let properties = container.properties();
        let version = properties.version();
        element(&mut text, "Last-Modified", &http_date(version.modified_at));
        element(&mut text, "Etag", &version.etag.to_string());
        lease(&mut text, properties.lease(), page.now);
        text.push_str("</Properties>");
        if page.with_metadata {
            metadata(&mut text, properties.metadata());
        }
        text.push_str("</Container>");
    }
    text.push_str("</Containers>");
    element(&mut text, "NextMarker", page.next);
    text.push_str("</EnumerationResults>");
    text
}

fn metadata(text: &mut String, metadata: &[(String, String)]) {
    text.push_str("<Metadata>");
    for (name, value) in metadata {
        element(text, name, value);
    }
    text.push_str("</Metadata>");
}

fn lease(text: &mut String, lease: Option<&Lease>, now: SystemTime) {
    let told = LeaseWords::of(lease, now);
    element(text, "LeaseStatus", told.status);
    element(text, "LeaseState", told.state);
    if let Some(duration) = told.duration {
        element(text, "LeaseDuration", duration);
    }
}

/// The blocks of a blob, of one kind or both.
pub(super) fn block_lists(lists: &BlockLists, committed: bool, uncommitted: bool) -> String {
    let mut text = format!("{DECLARATION}<BlockList>");
    let mut list = |name: &str, blocks: &[ListedBlock]| {
        let _ = write!(text, "<{name}>");
        for block in blocks {
            text.push_str("<Block>");
            element(&mut text, "Name", &block.id);
            element(&mut text, "Size", &block.length.to_string());
            text.push_str("</Block>");
        }
        let _ = write!(text, "</{name}>");
    };
    if committed {
        list("CommittedBlocks", &lists.committed);
    }
    if uncommitted {
        list("UncommittedBlocks", &lists.uncommitted);
    }
    text.push_str("</BlockList>");
    text
}

/// What a client is told that went wrong.
pub(super) fn error(code: &str, message: &str) -> String {
    let mut text = format!("{DECLARATION}<Error>");
    element(&mut text, "Code", code);
    element(&mut text, "Message", message);
    text.push_str("</Error>");
    text
}

/// Reads the list of blocks that a blob is to consist of; `None` if it is none, or has more than `most` entries.
pub(super) fn read_block_list(document: &[u8], most: usize) -> Option<Vec<BlockChoice>> {
    let text = str::from_utf8(document).ok()?;
    let mut rest = text.trim_start_matches('\u{feff}').trim_start();
    if let Some(declaration) = rest.strip_prefix("<?xml") {
        rest = declaration.split_once("?>")?.1.trim_start();
    }
    if let Some(after) = rest.strip_prefix("<BlockList/>") {
        return after.trim().is_empty().then(Vec::new);
    }
    rest = rest.strip_prefix("<BlockList>")?;
    let mut list = Vec::new();
    loop {
        rest = rest.trim_start();
        if let Some(after) = rest.strip_prefix("</BlockList>") {
            return after.trim().is_empty().then_some(list);
        }
        let (name, after) = rest.strip_prefix('<')?.split_once('>')?;
        let source = match name {
            "Latest" => BlockSource::Latest,
            "Committed" => BlockSource::Committed,
            "Uncommitted" => BlockSource::Uncommitted,
            _ => return None,
        };
        let (id, after) = after.split_once("</")?;
        rest = after.strip_prefix(name)?.strip_prefix('>')?;
        let id = id.trim();
        // What base64 has, and nothing that XML would escape.
        let is_id =
            !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=-_".contains(&byte));
        if !is_id || list.len() == most {
            return None;
        }
        let id = id.to_owned();
        list.push(BlockChoice { source, id });
    }
}

/// What is told of a lease, in headers and listings alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LeaseWords {
    pub(super) status: &'static str,
    pub(super) state: &'static str,
    /// While a client holds it.
    pub(super) duration: Option<&'static str>,
}

impl LeaseWords {
    /// What is told of `lease` at `now`.
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

fn head(endpoint: &str, container: Option<&str>) -> String {
    let mut text = format!("{DECLARATION}<EnumerationResults ServiceEndpoint=\"");
    escape(&mut text, endpoint);
    text.push('"');
    if let Some(container) = container {
        text.push_str(" ContainerName=\"");
        escape(&mut text, container);
        text.push('"');
    }
    text.push('>');
    text
}

/// Adds an element. A text with characters that no document of XML can have is percent-encoded and marked so, as in the service.
fn element(text: &mut String, name: &str, value: &str) {
    if value.is_empty() {
        let _ = write!(text, "<{name}/>");
    } else if value.chars().all(is_xml) {
        let _ = write!(text, "<{name}>");
        escape(text, value);
        let _ = write!(text, "</{name}>");
    } else {
        let encoded = utf8_percent_encode(value, NON_ALPHANUMERIC);
        let _ = write!(text, "<{name} Encoded=\"true\">{encoded}</{name}>");
    }
}

fn is_xml(character: char) -> bool {
    !matches!(character, '\0'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}')
}

fn escape(text: &mut String, value: &str) {
    for character in value.chars() {
        match character {
            '&' => text.push_str("&amp;"),
            '<' => text.push_str("&lt;"),
            '>' => text.push_str("&gt;"),
            '"' => text.push_str("&quot;"),
            // Readers of XML make something else of these where they stand as they are.
            '\t' | '\n' | '\r' => {
                let _ = write!(text, "&#x{:X};", u32::from(character));
            }
            character => text.push(character),
        }
    }
}

const DECLARATION: &str = "<?xml version=\"1.0\" encoding=\"utf-8\"?>";

/// The only tier that there is.
pub(super) const ACCESS_TIER: &str = "Hot";

/// What a blob is whose writer did not say.
pub(super) const DEFAULT_TYPE: &str = "application/octet-stream";

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values_are_escaped_and_impossible_ones_marked() {
        let written = |value: &str| {
            let mut text = String::new();
            element(&mut text, "Name", value);
            text
        };
        assert_eq!(written(""), "<Name/>");
        assert_eq!(written("a<b>&\"c\"\r\n"), "<Name>a&lt;b&gt;&amp;&quot;c&quot;&#xD;&#xA;</Name>");
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
        ] {
            assert_eq!(read_block_list(text.as_bytes(), 3), None, "{text}");
        }
        let many = format!("<BlockList>{}</BlockList>", "<Latest>QQ==</Latest>".repeat(4));
        assert_eq!(read_block_list(many.as_bytes(), 3), None);
    }

    proptest! {
        #[test]
        fn no_document_panics(text in "(<\\?xml)?(<BlockList>)?(<(Latest|Committed)>[A-Za-z=]{0,4}</?){0,3}\\PC{0,20}") {
            let _ = read_block_list(text.as_bytes(), 9);
        }
    }
}
