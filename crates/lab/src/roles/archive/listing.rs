//! A page of the list of a container's blobs.

use quick_xml::Reader;
use quick_xml::events::Event;

/// Names of blobs, and where the next page begins.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) names: Vec<String>,
    /// `None` on the last one.
    pub(super) next: Option<String>,
}

/// Reads the document. What it says of blobs besides their names is passed over.
pub(super) fn page(document: &[u8]) -> Result<Page, quick_xml::Error> {
    let text = std::str::from_utf8(document).map_err(quick_xml::encoding::EncodingError::from)?;
    // A mark of the byte order may come first.
    let mut reader = Reader::from_str(text.trim_start_matches('\u{feff}'));
    let mut page = Page::default();
    loop {
        match reader.read_event()? {
            Event::Start(start) if start.name().as_ref() == b"Name" => {
                page.names.push(content(&mut reader)?);
            }
            Event::Start(start) if start.name().as_ref() == b"NextMarker" => {
                page.next = Some(content(&mut reader)?).filter(|marker| !marker.is_empty());
            }
            Event::Eof => return Ok(page),
            _ => {}
        }
    }
}

/// The text until the end of the element.
fn content(reader: &mut Reader<&[u8]>) -> Result<String, quick_xml::Error> {
    let mut text = String::new();
    loop {
        match reader.read_event()? {
            Event::Text(part) => text.push_str(&part.decode()?),
            Event::GeneralRef(reference) => {
                let name = reference.decode()?;
                match (reference.resolve_char_ref()?, quick_xml::escape::resolve_predefined_entity(&name)) {
                    (Some(character), _) => text.push(character),
                    (None, Some(known)) => text.push_str(known),
                    // No blob's name has it.
                    (None, None) => {}
                }
            }
            Event::End(_) | Event::Eof => return Ok(text),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_names_and_says_where_the_next_one_begins() {
        let document = "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><EnumerationResults ContainerName=\"box\">\
            <Blobs><Blob><Name>hub/0/1</Name><Properties><Etag>x</Etag></Properties></Blob>\
            <Blob><Name>a &amp; b&#65;</Name></Blob></Blobs><NextMarker>bQ</NextMarker></EnumerationResults>";
        let names = vec!["hub/0/1".to_owned(), "a & bA".to_owned()];
        assert_eq!(page(document.as_bytes()).unwrap(), Page { names, next: Some("bQ".to_owned()) });
    }

    #[test]
    fn the_last_page_has_no_next_one() {
        for document in ["<R><Blobs/><NextMarker/></R>", "<R><NextMarker></NextMarker></R>"] {
            assert_eq!(page(document.as_bytes()).unwrap(), Page::default());
        }
    }

    #[test]
    fn what_is_no_document_is_an_error() {
        assert!(page(b"<R><Name>x</R>").is_err());
        assert!(page(b"<R>\xff").is_err());
    }
}
