//! Entries and feeds of Atom: where something is, what it is called, and its description.

use std::fmt::{Display, Write as _};
use std::time::SystemTime;

use quick_xml::escape::escape;
use units::date::iso_date;

use super::document::{DocumentError, Element};
use super::{ARRAYS, ATOM, COUNTS, DESCRIPTIONS, INSTANCES};

/// One entity, to be written.
#[derive(Debug)]
pub struct Entry {
    /// Where it is.
    pub url: String,
    /// Its own name.
    pub title: String,
    /// When it was made and when it was changed.
    pub published: Option<(SystemTime, SystemTime)>,
    /// What is said of it.
    pub description: Description,
}

/// What is said of an entity: elements in their order, written already.
#[derive(Debug)]
pub struct Description {
    name: &'static str,
    content: String,
}

/// One entity, as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadEntry {
    /// Its own name, if it has one.
    pub title: String,
    /// The one element of its content.
    pub description: Element,
}

/// A page of a list, as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadFeed {
    /// What is on it.
    pub entries: Vec<ReadEntry>,
    /// Whether there is another page.
    pub has_next: bool,
}

impl Description {
    /// A description with nothing in it.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self { name, content: String::new() }
    }

    /// Adds an element.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Display) -> Self {
        self.put(name, value);
        self
    }

    /// Adds an element if there is a value for it.
    #[must_use]
    pub fn with_some(self, name: &str, value: Option<impl Display>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// Adds an element with strings as its elements.
    #[must_use]
    pub fn with_strings(mut self, name: &str, values: impl Iterator<Item = String>) -> Self {
        let _ = write!(self.content, r#"<{name} xmlns:d2p1="{ARRAYS}">"#);
        for value in values {
            let _ = write!(self.content, "<d2p1:string>{}</d2p1:string>", escape(&value));
        }
        let _ = write!(self.content, "</{name}>");
        self
    }

    /// Adds an element.
    pub fn put(&mut self, name: &str, value: impl Display) {
        let value = value.to_string();
        let _ = write!(self.content, "<{name}>{}</{name}>", escape(&value));
    }

    /// Adds the counts of messages.
    pub fn put_counts(&mut self, counts: &[(&str, u64)]) {
        // Some clients take the one attribute for the declaration of the prefix.
        let _ = write!(self.content, r#"<CountDetails xmlns:d2p1="{COUNTS}">"#);
        for (name, count) in counts {
            let _ = write!(self.content, "<d2p1:{name}>{count}</d2p1:{name}>");
        }
        self.content.push_str("</CountDetails>");
    }

    /// Adds what is written already.
    pub fn put_written(&mut self, content: &str) {
        self.content.push_str(content);
    }

    /// What is in it.
    #[must_use]
    pub fn content(&self) -> &str {
        &self.content
    }
}

impl Entry {
    /// A document with it.
    #[must_use]
    pub fn document(&self) -> String {
        let mut text = String::new();
        self.write(&mut text, &format!(r#" xmlns="{ATOM}""#));
        text
    }

    fn write(&self, out: &mut String, namespace: &str) {
        let Self { url, title, published, description: Description { name, content } } = self;
        let (url, title) = (escape(url), escape(title));
        let _ = write!(out, r#"<entry{namespace}><id>{url}</id><title type="text">{title}</title>"#);
        if let Some((published, updated)) = published {
            let (published, updated) = (iso_date(*published), iso_date(*updated));
            let _ = write!(out, "<published>{published}</published><updated>{updated}</updated>");
        }
        let _ = write!(
            out,
            r#"<link rel="self" href="{url}"/><content type="application/xml"><{name} xmlns="{DESCRIPTIONS}" xmlns:i="{INSTANCES}">{content}</{name}></content></entry>"#
        );
    }
}

/// A page of a list, to be written.
#[derive(Debug)]
pub struct Feed<'a> {
    /// The address of the request for it.
    pub url: &'a str,
    /// The name of the list.
    pub title: &'a str,
    /// When the list was as it is told, cut to the second.
    pub updated: SystemTime,
    /// The address of the next page, if there is one.
    pub next: Option<&'a str>,
}

impl Feed<'_> {
    /// A document with it and its entries.
    #[must_use]
    pub fn document(&self, entries: &[Entry]) -> String {
        let (url, title, updated) = (escape(self.url), escape(self.title), iso_date(self.updated));
        let mut text = format!(
            r#"<feed xmlns="{ATOM}"><title type="text">{title}</title><id>{url}</id><updated>{updated}</updated><link rel="self" href="{url}"/>"#
        );
        // Second, since there are clients that look for it there.
        if let Some(next) = self.next {
            let _ = write!(text, r#"<link rel="next" href="{}"/>"#, escape(next));
        }
        entries.iter().for_each(|entry| entry.write(&mut text, ""));
        text.push_str("</feed>");
        text
    }
}

/// A document for a request: an entry with nothing but a description.
#[must_use]
pub fn request(description: &Description) -> String {
    let Description { name, content } = description;
    format!(
        r#"<entry xmlns="{ATOM}"><content type="application/xml"><{name} xmlns="{DESCRIPTIONS}" xmlns:i="{INSTANCES}">{content}</{name}></content></entry>"#
    )
}

/// Reads a document that is an entry; `None` if it is something else.
///
/// # Errors
/// It is no document.
pub fn read_entry(text: &str) -> Result<Option<ReadEntry>, DocumentError> {
    let root = Element::parse(text)?;
    Ok(if root.name == "entry" { ReadEntry::of(&root) } else { None })
}

/// Reads a document that is a feed; `None` if it is something else. Entries without a description are left out.
///
/// # Errors
/// It is no document.
pub fn read_feed(text: &str) -> Result<Option<ReadFeed>, DocumentError> {
    let root = Element::parse(text)?;
    if root.name != "feed" {
        return Ok(None);
    }
    let links = root.children.iter().filter(|child| child.name == "link");
    let has_next = { links }.any(|link| link.attribute("rel") == Some("next"));
    let entries = root.children.iter().filter(|child| child.name == "entry");
    Ok(Some(ReadFeed { entries: entries.filter_map(ReadEntry::of).collect(), has_next }))
}

impl ReadEntry {
    fn of(entry: &Element) -> Option<Self> {
        let description = entry.child("content")?.children.first()?.clone();
        Some(Self { title: entry.text_of("title").unwrap_or_default().to_owned(), description })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_has_its_description_and_no_markup_of_others() {
        let description = Description::new("QueueDescription")
            .with("Status", "<Active>")
            .with_some("Absent", None::<u64>)
            .with_strings("PartitionIds", ["0".to_owned()].into_iter());
        let one = Entry { url: "http://h/q".into(), title: "q&".into(), published: None, description };
        let text = one.document();
        assert!(
            text.starts_with(r#"<entry xmlns="http://www.w3.org/2005/Atom"><id>http://h/q</id>"#),
            "{text}"
        );
        assert!(text.contains("<title type=\"text\">q&amp;</title>"), "{text}");
        assert!(text.contains("<Status>&lt;Active&gt;</Status><PartitionIds"), "{text}");
        assert!(text.ends_with("</QueueDescription></content></entry>"), "{text}");
        let read = read_entry(&text).unwrap().unwrap();
        assert_eq!((&*read.title, read.description.text_of("Status")), ("q&", Some("<Active>")));
        assert_eq!(read_feed(&text), Ok(None));
        let (url, next) = ("http://h/all?$top=1&a=b", Some("http://h/all?$skip=1&$top=1"));
        let updated = SystemTime::UNIX_EPOCH + std::time::Duration::from_millis(1_500);
        let text = Feed { url, title: "all", updated, next }.document(&[one]);
        let head = "<id>http://h/all?$top=1&amp;a=b</id><updated>1970-01-01T00:00:01Z</updated><link rel=\"self\" href=\"http://h/all?$top=1&amp;a=b\"/>";
        assert!(text.contains(head), "{text}");
        let page = read_feed(&text).unwrap().unwrap();
        assert!(page.has_next);
        assert_eq!(page.entries, [read]);
    }
}
