//! Lists of blocks and of pages.

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use super::Document;
use blob_store::{BlockChoice, BlockLists, BlockSource, ListedBlock, PageRange};

/// The blocks of a blob, of one kind or both.
pub(in super::super) fn block_lists(lists: &BlockLists, committed: bool, uncommitted: bool) -> String {
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

/// Writes ranges of pages, with the position of the next range if there is one.
pub(in super::super) fn page_ranges(ranges: &[PageRange], next: Option<u64>) -> String {
    Document::text("PageList", &[], |document| {
        for PageRange { range, is_cleared } in ranges {
            document.parent(if *is_cleared { "ClearRange" } else { "PageRange" }, |document| {
                document.element("Start", &range.start.to_string());
                document.element("End", &(range.end - 1).to_string());
            });
        }
        if let Some(next) = next {
            document.element("NextMarker", &next.to_string());
        }
    })
}

/// Reads the list of blocks that a blob is to consist of; `None` if the document is anything else, or has more than
/// `most` entries.
pub(in super::super) fn read_block_list(document: &[u8], most: usize) -> Option<Vec<BlockChoice>> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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

    proptest! {
        #[test]
        fn no_document_panics(text in "(<\\?xml)?(<BlockList>)?(<(Latest|Committed)>[A-Za-z=]{0,4}</?){0,3}\\PC{0,20}") {
            let _ = read_block_list(text.as_bytes(), 9);
        }
    }
}
