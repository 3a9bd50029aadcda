//! The XML documents of the protocol, and the words that they share with headers.
//!
//! * `listings`: containers, blobs, and results of searches.
//! * `contents`: blocks and pages of a blob.
//! * `tags`, `policies`, `service_properties`: documents that clients set.

mod contents;
mod listings;
mod policies;
mod service_properties;
mod tags;

use std::borrow::Cow;
use std::time::SystemTime;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use quick_xml::escape::{escape, resolve_predefined_entity};
use quick_xml::events::{BytesDecl, BytesEnd, BytesStart, BytesText, Event};
use quick_xml::{Reader, Writer};

pub(super) use contents::{block_lists, page_ranges, read_block_list};
pub(super) use listings::{BlobPage, ContainerPage, blobs, containers, found_blobs, no_blobs};
pub(super) use policies::{policies, read_policies};
pub(super) use service_properties::{service_properties, statistics, user_delegation_key};
pub(super) use tags::{read_tag_set, tag_set};

use blob_store::{BlobKind, Lease, LeaseState, PublicAccess, state_of};

/// The body of an error reply.
pub(super) fn error(code: &str, message: &str) -> String {
    Document::text("Error", &[], |document| {
        document.element("Code", code);
        document.element("Message", message);
    })
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

/// Words for a lease, the same in headers and in listings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LeaseWords {
    pub(super) status: &'static str,
    pub(super) state: &'static str,
    /// While a client holds it.
    pub(super) duration: Option<&'static str>,
}

impl LeaseWords {
    /// Words for `lease` as it stands at `now`.
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
        BlobKind::Page => "PageBlob",
    }
}

/// The name of access for anyone on the wire.
pub(super) const fn access_name(access: PublicAccess) -> &'static str {
    match access {
        PublicAccess::Blob => "blob",
        PublicAccess::Container => "container",
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

/// Elements within one another, more than any document that is read has.
const DEPTH_MAX: usize = 8;

/// The state of every copying: it is over when its request is answered.
pub(super) const COPIED: &str = "success";

/// Content type of a blob whose writer gave none.
pub(super) const DEFAULT_TYPE: &str = "application/octet-stream";

#[cfg(test)]
mod tests {
    use super::*;

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
}
