//! The XML in which the blob service lists the blobs of a container.

use std::collections::HashMap;

use quick_xml::Reader;
use quick_xml::escape::unescape;
use quick_xml::events::Event;

/// One page of a list.
#[derive(Debug, Default)]
pub struct Page {
    pub blobs: Vec<Blob>,
    /// The marker of the next page, if there is one.
    pub next: Option<String>,
}

/// What a list says of a blob.
#[derive(Debug, Default)]
pub struct Blob {
    pub name: String,
    pub etag: String,
    /// As in HTTP headers.
    pub last_modified: String,
    pub metadata: HashMap<String, String>,
}

/// Reads one page; a mistake is told with what the parser says of it.
pub fn parse(text: &str) -> Result<Page, String> {
    let mut reader = Reader::from_str(text);
    let mut page = Page::default();
    let mut path: Vec<String> = Vec::new();
    let mut content = String::new();
    loop {
        match reader.read_event().map_err(|error| error.to_string())? {
            Event::Start(element) => {
                let name = String::from_utf8_lossy(element.name().as_ref()).into_owned();
                if name == "Blob" {
                    page.blobs.push(Blob::default());
                }
                path.push(name);
                content.clear();
            }
            Event::Empty(element) => {
                path.push(String::from_utf8_lossy(element.name().as_ref()).into_owned());
                page.take(&path, String::new());
                path.pop();
            }
            Event::Text(piece) => content.push_str(&String::from_utf8_lossy(&piece)),
            // `&amp;` and the like.
            Event::GeneralRef(reference) => {
                content.push('&');
                content.push_str(&String::from_utf8_lossy(&reference));
                content.push(';');
            }
            Event::End(_) => {
                let text = unescape(&content).map_err(|error| error.to_string())?.into_owned();
                page.take(&path, text);
                path.pop();
                content.clear();
            }
            Event::Eof => return Ok(page),
            _ => {}
        }
    }
}

impl Page {
    /// Takes the content of the element at `path`.
    fn take(&mut self, path: &[String], content: String) {
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        match (path.as_slice(), self.blobs.last_mut()) {
            (["EnumerationResults", "NextMarker"], _) if !content.is_empty() => self.next = Some(content),
            ([_, _, "Blob", "Name"], Some(blob)) => blob.name = content,
            ([_, _, "Blob", "Properties", "Etag"], Some(blob)) => blob.etag = content,
            ([_, _, "Blob", "Properties", "Last-Modified"], Some(blob)) => blob.last_modified = content,
            ([_, _, "Blob", "Metadata", name], Some(blob)) => {
                blob.metadata.insert((*name).to_ascii_lowercase(), content);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_its_blobs_with_metadata_and_the_next_marker() {
        let page = parse(
            "<?xml version=\"1.0\" encoding=\"utf-8\"?><EnumerationResults ContainerName=\"c\"><Prefix>p</Prefix><Blobs>\
             <Blob><Name>a&amp;b/0</Name><Properties><Last-Modified>Fri, 20 Nov 2026 22:17:43 GMT</Last-Modified>\
             <Etag>0x1</Etag></Properties><Metadata><ownerid/></Metadata></Blob>\
             <Blob><Name>a/1</Name><Properties><Etag>0x2</Etag></Properties><Metadata><Offset>7</Offset></Metadata></Blob>\
             </Blobs><NextMarker>m</NextMarker></EnumerationResults>",
        )
        .unwrap();
        assert_eq!(page.next.as_deref(), Some("m"));
        let [first, second] = page.blobs.as_slice() else { panic!("{page:?}") };
        assert_eq!((first.name.as_str(), first.etag.as_str()), ("a&b/0", "0x1"));
        assert_eq!(first.last_modified, "Fri, 20 Nov 2026 22:17:43 GMT");
        assert_eq!(first.metadata["ownerid"], "");
        assert_eq!((second.name.as_str(), second.metadata["offset"].as_str()), ("a/1", "7"));
    }

    #[test]
    fn an_empty_list_is_its_last_page() {
        let page = parse("<EnumerationResults><Blobs /><NextMarker /></EnumerationResults>").unwrap();
        assert!(page.blobs.is_empty() && page.next.is_none());
    }
}
