//! What is told of entities, in the XML that management clients know: an Atom entry with a description, or a feed of entries.

use std::fmt::{Display, Write as _};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use quick_xml::escape::escape;
use units::date::iso_date;

use super::reply::Reply;

/// One entity.
#[derive(Debug)]
pub(super) struct Entry {
    /// Where it is.
    pub(super) url: String,
    pub(super) title: String,
    pub(super) published: Option<SystemTime>,
    pub(super) description: Description,
}

/// What is told of it: elements in their order, written already.
#[derive(Debug)]
pub(super) struct Description {
    name: &'static str,
    content: String,
}

impl Description {
    pub(super) const fn new(name: &'static str) -> Self {
        Self { name, content: String::new() }
    }

    /// Adds an element.
    pub(super) fn with(mut self, name: &str, value: impl Display) -> Self {
        let value = value.to_string();
        let _ = write!(self.content, "<{name}>{}</{name}>", escape(&value));
        self
    }

    /// Adds an element if there is a value for it.
    pub(super) fn with_some(self, name: &str, value: Option<impl Display>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// Adds an element with strings as its elements.
    pub(super) fn with_strings(mut self, name: &str, values: impl Iterator<Item = String>) -> Self {
        let _ = write!(self.content, r#"<{name} xmlns:d2p1="{ARRAYS}">"#);
        for value in values {
            let _ = write!(self.content, "<d2p1:string>{}</d2p1:string>", escape(&value));
        }
        let _ = write!(self.content, "</{name}>");
        self
    }

    /// Adds the counts of messages.
    pub(super) fn with_counts(mut self, counts: [(&str, u64); 5]) -> Self {
        let _ = write!(self.content, r#"<CountDetails xmlns:d2p1="{COUNTS}">"#);
        for (name, count) in counts {
            let _ = write!(self.content, "<d2p1:{name}>{count}</d2p1:{name}>");
        }
        self.content.push_str("</CountDetails>");
        self
    }
}

impl Entry {
    fn write(&self, out: &mut String, namespace: &str) {
        let Self { url, title, published, description: Description { name, content } } = self;
        let (url, title) = (escape(url), escape(title));
        let _ = write!(out, r#"<entry{namespace}><id>{url}</id><title type="text">{title}</title>"#);
        if let Some(published) = published.map(iso_date) {
            let _ = write!(out, "<published>{published}</published><updated>{published}</updated>");
        }
        let _ = write!(
            out,
            r#"<link rel="self" href="{url}"/><content type="application/xml"><{name} xmlns="{DESCRIPTIONS}" xmlns:i="http://www.w3.org/2001/XMLSchema-instance">{content}</{name}></content></entry>"#
        );
    }
}

/// A reply with one entity.
pub(super) fn entry(entry: &Entry) -> Reply {
    let mut text = String::new();
    entry.write(&mut text, &format!(r#" xmlns="{ATOM}""#));
    reply("application/atom+xml;type=entry;charset=utf-8", text)
}

/// A reply with several.
pub(super) fn feed(url: &str, title: &str, entries: &[Entry]) -> Reply {
    let (url, title) = (escape(url), escape(title));
    let mut text = format!(
        r#"<feed xmlns="{ATOM}"><title type="text">{title}</title><id>{url}</id><link rel="self" href="{url}"/>"#
    );
    entries.iter().for_each(|entry| entry.write(&mut text, ""));
    text.push_str("</feed>");
    reply("application/atom+xml;type=feed;charset=utf-8", text)
}

/// A length of time as ISO 8601 has it; without one, the longest that the service knows.
pub(super) fn duration(time: Option<Duration>) -> String {
    match time {
        None => "P10675199DT2H48M5.4775807S".to_owned(),
        Some(time) => {
            let seconds = time.as_secs();
            let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
            format!("P{days}DT{hours}H{minutes}M{}.{:03}S", seconds % 60, time.subsec_millis())
        }
    }
}

fn reply(content_type: &'static str, text: String) -> Reply {
    Reply { content_type: Some(content_type.into()), body: Bytes::from(text), ..Reply::empty(200) }
}

const ATOM: &str = "http://www.w3.org/2005/Atom";
const DESCRIPTIONS: &str = "http://schemas.microsoft.com/netservices/2010/10/servicebus/connect";
const ARRAYS: &str = "http://schemas.microsoft.com/2003/10/Serialization/Arrays";
const COUNTS: &str = "http://schemas.microsoft.com/netservices/2011/06/servicebus";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_are_written_as_iso_8601_has_them() {
        let time = Duration::from_millis(90_061_500);
        assert_eq!(duration(Some(time)), "P1DT1H1M1.500S");
    }

    #[test]
    fn an_entry_has_its_description_and_no_markup_of_others() {
        let description = Description::new("QueueDescription")
            .with("Status", "<Active>")
            .with_some("Absent", None::<u64>)
            .with_strings("PartitionIds", ["0".to_owned()].into_iter());
        let one = Entry { url: "http://h/q".into(), title: "q&".into(), published: None, description };
        let text = String::from_utf8(entry(&one).body.to_vec()).unwrap();
        assert!(
            text.starts_with(r#"<entry xmlns="http://www.w3.org/2005/Atom"><id>http://h/q</id>"#),
            "{text}"
        );
        assert!(text.contains("<title type=\"text\">q&amp;</title>"), "{text}");
        assert!(text.contains("<Status>&lt;Active&gt;</Status><PartitionIds"), "{text}");
        assert!(text.ends_with("</QueueDescription></content></entry>"), "{text}");
    }
}
