//! Any XML document as a tree.
//!
//! Names are local: what their prefixes stand for is resolved, and elements of namespaces that have nothing to do with
//! administration are left out. Entities of one's own, and processing instructions, are refused.

use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesStart, Event};
use quick_xml::name::ResolveResult;
use quick_xml::reader::NsReader;

use super::{ARRAYS, ATOM, COUNTS, DESCRIPTIONS, INSTANCES, TYPES};

/// An element with what is in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Element {
    /// Its local name.
    pub name: String,
    /// The type that it says it has: `SqlFilter` of `i:type="SqlFilter"`, `int` of `xsi:type="d6p1:int"`.
    pub type_name: Option<String>,
    /// Its further attributes by their names as they are written.
    pub attributes: Vec<(String, String)>,
    /// The text in it, without that of its children.
    pub text: String,
    /// The elements in it.
    pub children: Vec<Self>,
}

/// Why a text is no document.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DocumentError {
    /// It is no XML.
    #[error("it is not XML: {0}")]
    Malformed(String),
    /// It has something that no client needs.
    #[error("it has {0}, which is not taken")]
    Refused(&'static str),
    /// It is nested too deep.
    #[error("its elements are nested deeper than {DEPTH_MAX}")]
    TooDeep,
    /// It has too many elements.
    #[error("it has more than {ELEMENTS_MAX} elements")]
    TooLarge,
    /// An element has too many attributes.
    #[error("one of its elements has more than {ATTRIBUTES_MAX} attributes")]
    TooManyAttributes,
    /// It ends before its root does, or goes on after it.
    #[error("it is not one element")]
    NoRoot,
}

impl Element {
    /// Reads a document; its root.
    ///
    /// # Errors
    /// It is none, or larger than anything that is needed.
    pub fn parse(text: &str) -> Result<Self, DocumentError> {
        let mut reader = NsReader::from_str(text.trim_start_matches('\u{feff}'));
        let mut open: Vec<(Self, bool)> = Vec::new();
        let mut root = None;
        let mut elements = 0;
        loop {
            let (resolved, event) = reader.read_resolved_event().map_err(|error| malformed(&error))?;
            let is_foreign = is_foreign(&resolved);
            match event {
                Event::Start(start) => {
                    count(&mut elements, open.len(), root.is_some())?;
                    open.push((Self::of(&start, &reader)?, is_foreign));
                }
                Event::Empty(start) => {
                    count(&mut elements, open.len(), root.is_some())?;
                    let element = Self::of(&start, &reader)?;
                    Self::close(element, is_foreign, &mut open, &mut root);
                }
                Event::End(_) => {
                    let (element, is_foreign) = open.pop().ok_or(DocumentError::NoRoot)?;
                    Self::close(element, is_foreign, &mut open, &mut root);
                }
                Event::Text(text) => {
                    let text = text.xml10_content().map_err(|error| malformed(&error))?;
                    match open.last_mut() {
                        Some((element, _)) => element.text.push_str(&text),
                        None if text.trim().is_empty() => {}
                        None => return Err(DocumentError::NoRoot),
                    }
                }
                Event::CData(data) => {
                    let text = data.xml10_content().map_err(|error| malformed(&error))?;
                    let (element, _) = open.last_mut().ok_or(DocumentError::NoRoot)?;
                    element.text.push_str(&text);
                }
                Event::GeneralRef(reference) => {
                    let (element, _) = open.last_mut().ok_or(DocumentError::NoRoot)?;
                    if let Some(character) =
                        reference.resolve_char_ref().map_err(|error| malformed(&error))?
                    {
                        element.text.push(character);
                    } else {
                        let name = reference.decode().map_err(|error| malformed(&error))?;
                        let text = resolve_predefined_entity(&name)
                            .ok_or(DocumentError::Refused("an entity of its own"))?;
                        element.text.push_str(text);
                    }
                }
                Event::Decl(_) | Event::Comment(_) => {}
                Event::DocType(_) => return Err(DocumentError::Refused("a document type")),
                Event::PI(_) => return Err(DocumentError::Refused("a processing instruction")),
                Event::Eof => break,
            }
        }
        root.filter(|_| open.is_empty()).ok_or(DocumentError::NoRoot)
    }

    /// The first child of this name.
    #[must_use]
    pub fn child(&self, name: &str) -> Option<&Self> {
        self.children.iter().find(|child| child.name == name)
    }

    /// Returns the text of the first child of this name, blanks and all: that is what its writer wants. Values that are no texts are
    /// trimmed where they are parsed.
    #[must_use]
    pub fn text_of(&self, name: &str) -> Option<&str> {
        self.child(name).map(|child| child.text.as_str())
    }

    /// The value of an attribute.
    #[must_use]
    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    fn of(start: &BytesStart<'_>, reader: &NsReader<&[u8]>) -> Result<Self, DocumentError> {
        let mut element = Self { name: local(start.local_name().as_ref()), ..Self::default() };
        for (count, attribute) in start.attributes().enumerate() {
            if count == ATTRIBUTES_MAX {
                return Err(DocumentError::TooManyAttributes);
            }
            let attribute = attribute.map_err(|error| malformed(&error))?;
            let value = attribute.normalized_value(quick_xml::XmlVersion::Implicit1_0);
            let value = value.map_err(|error| malformed(&error))?;
            let (namespace, name) = reader.resolver().resolve_attribute(attribute.key);
            let is_instance = match namespace {
                ResolveResult::Bound(namespace) => namespace.as_ref() == INSTANCES.as_bytes(),
                // Some clients write a prefix and declare another one.
                ResolveResult::Unknown(_) => true,
                ResolveResult::Unbound => false,
            };
            if is_instance && name.as_ref() == b"type" {
                let local = value.rsplit_once(':').map_or(&*value, |(_, local)| local);
                element.type_name = Some(local.to_owned());
            } else {
                element.attributes.push((local(attribute.key.as_ref()), value.into_owned()));
            }
        }
        Ok(element)
    }

    fn close(element: Self, is_foreign: bool, open: &mut [(Self, bool)], root: &mut Option<Self>) {
        match open.last_mut() {
            Some((parent, _)) if !is_foreign => parent.children.push(element),
            Some(_) => {}
            None => *root = Some(element),
        }
    }
}

fn count(elements: &mut usize, depth: usize, has_root: bool) -> Result<(), DocumentError> {
    *elements += 1;
    match () {
        () if has_root => Err(DocumentError::NoRoot),
        () if *elements > ELEMENTS_MAX => Err(DocumentError::TooLarge),
        () if depth >= DEPTH_MAX => Err(DocumentError::TooDeep),
        () => Ok(()),
    }
}

/// Whether an element is of a namespace that has nothing to do with administration.
fn is_foreign(resolved: &ResolveResult<'_>) -> bool {
    match resolved {
        ResolveResult::Bound(namespace) => {
            let known = [ATOM, DESCRIPTIONS, COUNTS, ARRAYS, TYPES, INSTANCES];
            !known.iter().any(|known| known.as_bytes() == namespace.as_ref())
        }
        ResolveResult::Unbound | ResolveResult::Unknown(_) => false,
    }
}

fn local(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

fn malformed(error: &dyn std::fmt::Display) -> DocumentError {
    DocumentError::Malformed(error.to_string())
}

/// Entry, content, description, rule, filter, properties, key, value: eight, and as many again.
const DEPTH_MAX: usize = 16;

/// Clients have four at most. Namespaces are declared by attributes, and each element is looked up among all that hold for it.
const ATTRIBUTES_MAX: usize = 16;

/// A page of a list has some 4,000.
const ELEMENTS_MAX: usize = 100_000;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_what_their_prefixes_stand_for() {
        let text = r#"<?xml version="1.0"?>
            <a:entry xmlns:a="http://www.w3.org/2005/Atom" xmlns:o="urn:other">
              <o:title>theirs</o:title>
              <a:title type="text"> a &amp; b&#33;<!-- no --></a:title>
              <content xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect">
                <Value xmlns:p="http://www.w3.org/2001/XMLSchema-instance" xmlns:q="http://www.w3.org/2001/XMLSchema"
                  p:type="q:int" type="text"><![CDATA[5]]></Value>
              </content>
            </a:entry>"#;
        let root = Element::parse(text).unwrap();
        assert_eq!(root.name, "entry");
        assert_eq!(root.text_of("title"), Some(" a & b!"));
        let value = root.child("content").unwrap().child("Value").unwrap();
        assert_eq!((value.type_name.as_deref(), &*value.text), (Some("int"), "5"));
        assert_eq!(value.attribute("type"), Some("text"));
    }

    #[test]
    fn what_is_no_document_or_too_much_of_one_is_refused() {
        for text in
            ["", "text", "<a>", "<a></b>", "<a/><b/>", "<a/>text", "<a b=c/>", "<a>&nothing;</a>", "&amp;"]
        {
            assert!(Element::parse(text).is_err(), "{text}");
        }
        let entity = "<!DOCTYPE a [<!ENTITY b \"c\">]><a>&b;</a>";
        assert_eq!(Element::parse(entity), Err(DocumentError::Refused("a document type")));
        let nested = |depth: usize| "<a>".repeat(depth) + &"</a>".repeat(depth);
        assert!(Element::parse(&nested(DEPTH_MAX)).is_ok());
        assert_eq!(Element::parse(&nested(DEPTH_MAX + 1)), Err(DocumentError::TooDeep));
        let many = format!("<a>{}</a>", "<b/>".repeat(ELEMENTS_MAX));
        assert_eq!(Element::parse(&many), Err(DocumentError::TooLarge));
        let with_namespaces = |count: usize| {
            let declared: String =
                (0..count).map(|number| format!(" xmlns:n{number}=\"urn:{number}\"")).collect();
            format!("<a{declared}/>")
        };
        assert!(Element::parse(&with_namespaces(ATTRIBUTES_MAX)).is_ok());
        let refused = Element::parse(&with_namespaces(ATTRIBUTES_MAX + 1));
        assert_eq!(refused, Err(DocumentError::TooManyAttributes));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(<\\?xml)?(</?[a-c:]{1,3}( [a-c:]{1,3}=\"[a-c&;]{0,3}\")?/?>|&#?[a-z0-9]{0,3};|\\PC){0,12}") {
            let _ = Element::parse(&text);
        }
    }
}
