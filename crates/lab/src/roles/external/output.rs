//! What a command writes to its standard output: copied to the role's log, and looked through for the line that says that
//! it is ready, for lines with figures of its own, and, if it is asked for them, for lines that say what it has done. Those
//! two are not copied, since there are many.

use std::io::Write as _;

use serde::Deserialize;
use tokio::{
    io::{AsyncRead, BufReader},
    sync::oneshot,
};

use crate::roles::{lines::next_line, protocol::ExternalFigures};

/// What a line says to the lab.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Said {
    /// Figures of the command's own.
    Figures(ExternalFigures),
    /// It has done a partition up to and including this event.
    Done { partition: u32, sequence_number: i64 },
    /// It begins like a line about what is done, and is none.
    NotDone(String),
}

/// Copies `output` to this process's standard error to its end. Tells `seen` when a line contains `wanted`, and hands
/// over what lines say to the lab. With `done_lines`, they may say what is done of so many partitions.
pub(super) async fn copy_output(
    output: impl AsyncRead + Unpin,
    wanted: Option<String>,
    seen: oneshot::Sender<()>,
    done_lines: Option<u32>,
    mut tell: impl FnMut(Said),
) {
    let mut wanted = wanted.zip(Some(seen));
    let mut output = BufReader::new(output);
    let mut line = Vec::new();
    while next_line(&mut output, &mut line).await {
        if let Some(figures) = figures_of(&line) {
            tell(Said::Figures(figures));
            continue;
        }
        if let Some(said) = done_lines.and_then(|partitions| done_of(&line, partitions)) {
            tell(said);
            continue;
        }
        // Nobody reads the log of an orchestrator that has gone, which the end of the input tells.
        let _ = std::io::stderr().write_all(&line);
        if let Some((_, seen)) =
            wanted.take_if(|(text, _)| String::from_utf8_lossy(&line).contains(text.as_str()))
        {
            let _ = seen.send(());
        }
    }
}

/// The figures in a line, if it is one of those.
fn figures_of(line: &[u8]) -> Option<ExternalFigures> {
    let figures = line.strip_prefix(FIGURES)?;
    serde_json::from_slice(figures).ok()
}

/// What a line says about what is done, if it begins like one.
fn done_of(line: &[u8], partitions: u32) -> Option<Said> {
    #[derive(Deserialize)]
    struct Done {
        partition: Partition,
        sequence_number: i64,
    }

    /// The SDKs have names, which are numbers.
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Partition {
        Number(u32),
        Name(String),
    }

    let said = line.strip_prefix(DONE)?;
    let read = serde_json::from_slice::<Done>(said).ok().and_then(|done| {
        let partition = match done.partition {
            Partition::Number(number) => number,
            Partition::Name(name) => name.parse().ok()?,
        };
        let sequence_number = done.sequence_number;
        (partition < partitions).then_some(Said::Done { partition, sequence_number })
    });
    Some(read.unwrap_or_else(|| {
        let mut line = String::from_utf8_lossy(line).trim_end().to_owned();
        line.truncate(line.floor_char_boundary(LONGEST_QUOTE));
        Said::NotDone(line)
    }))
}

/// What a line with figures begins with.
const FIGURES: &[u8] = b"parshall-figures ";

/// What a line about what is done begins with.
const DONE: &[u8] = b"parshall-done ";

/// So much of a line stands in a message.
const LONGEST_QUOTE: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::roles::lines::LONGEST_LINE;

    #[tokio::test]
    async fn the_wanted_line_is_seen_wherever_it_stands_and_however_long_others_are() {
        let mut text = vec![b'x'; 3 * LONGEST_LINE as usize];
        text.extend_from_slice(b"\n\xff it is listening now\nmore\n");
        let (see, seen) = oneshot::channel();
        copy_output(&text[..], Some("is listening".to_owned()), see, None, |_| {}).await;
        assert_eq!(seen.await, Ok(()));
    }

    #[tokio::test]
    async fn an_output_without_the_line_ends_without_a_sign() {
        let (see, seen) = oneshot::channel();
        copy_output(&b"almost list\nening\n"[..], Some("listening".to_owned()), see, None, |_| {}).await;
        assert!(seen.await.is_err());
    }

    #[tokio::test]
    async fn figures_are_taken_from_their_lines_and_what_is_not_understood_is_left_alone() {
        let text = b"parshall-figures {\"allocated_bytes\": 5, \"threads\": 3}\n\
            ready\nparshall-figures nonsense\nparshall-figures {\"heap_bytes\": 7}\n";
        let (see, seen) = oneshot::channel();
        let mut told = Vec::new();
        copy_output(&text[..], Some("ready".to_owned()), see, None, |said| {
            let Said::Figures(figures) = said else { panic!("{said:?}") };
            told.push((figures.allocated_bytes, figures.heap_bytes));
        })
        .await;
        assert_eq!(told, [(Some(5), None), (None, Some(7))]);
        assert_eq!(seen.await, Ok(()));
    }

    #[tokio::test]
    async fn lines_about_what_is_done_are_read_where_they_are_asked_for() {
        let text = b"parshall-done {\"partition\": \"3\", \"sequence_number\": 41}\n\
            parshall-done {\"partition\": 0, \"sequence_number\": 7, \"more\": 1}\n";
        let done = |partition, sequence_number| Said::Done { partition, sequence_number };
        assert_eq!(told(text, Some(4)).await, [done(3, 41), done(0, 7)]);
        assert_eq!(told(text, None).await, []);
    }

    #[tokio::test]
    async fn a_line_about_what_is_done_that_says_something_else_is_not_passed_over() {
        for wrong in [
            "parshall-done soon",
            "parshall-done {\"partition\": \"4\", \"sequence_number\": 1}",
            "parshall-done {\"partition\": \"one\", \"sequence_number\": 1}",
            "parshall-done {\"partition\": \"1\"}",
        ] {
            let told = told(format!("{wrong}\n").as_bytes(), Some(4)).await;
            assert_eq!(told, [Said::NotDone(wrong.to_owned())]);
        }
        let long = format!("parshall-done {}\n", "\u{e9}".repeat(LONGEST_QUOTE));
        let told = told(long.as_bytes(), Some(4)).await;
        assert!(matches!(&told[..], [Said::NotDone(line)] if line.len() <= LONGEST_QUOTE), "{told:?}");
    }

    async fn told(text: &[u8], done_lines: Option<u32>) -> Vec<Said> {
        let (see, _seen) = oneshot::channel();
        let mut told = Vec::new();
        copy_output(text, None, see, done_lines, |said| told.push(said)).await;
        told
    }
}
