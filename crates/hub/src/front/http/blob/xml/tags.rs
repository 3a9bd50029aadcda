//! Tags of blobs.

use super::{Document, texts};
use blob_store::Tags;

pub(super) fn tags(document: &mut Document, tags: &[(String, String)]) {
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
pub(in super::super) fn tag_set(tags: &[(String, String)]) -> String {
    Document::text("Tags", &[], |document| set_of_tags(document, tags))
}

/// Reads the tags in a document like that; `None` if it is another.
pub(in super::super) fn read_tag_set(document: &[u8]) -> Option<Tags> {
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
