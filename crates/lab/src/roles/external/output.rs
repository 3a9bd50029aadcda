//! What a command writes to its standard output: copied to the role's log, and looked through for the line that says that
//! it is ready, and for lines with figures of its own. Those are not copied, since there is one every second.

use std::io::Write as _;

use tokio::{
    io::{AsyncRead, BufReader},
    sync::oneshot,
};

use crate::roles::{lines::next_line, protocol::ExternalFigures};

/// Copies `output` to this process's standard error to its end. Tells `seen` when a line contains `wanted`, and hands
/// over the figures that the command reports about itself.
pub(super) async fn copy_output(
    output: impl AsyncRead + Unpin,
    wanted: Option<String>,
    seen: oneshot::Sender<()>,
    mut tell: impl FnMut(ExternalFigures),
) {
    let mut wanted = wanted.zip(Some(seen));
    let mut output = BufReader::new(output);
    let mut line = Vec::new();
    while next_line(&mut output, &mut line).await {
        if let Some(figures) = figures_of(&line) {
            tell(figures);
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

/// What a line with figures begins with.
const FIGURES: &[u8] = b"parshall-figures ";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::roles::lines::LONGEST_LINE;

    #[tokio::test]
    async fn the_wanted_line_is_seen_wherever_it_stands_and_however_long_others_are() {
        let mut text = vec![b'x'; 3 * LONGEST_LINE as usize];
        text.extend_from_slice(b"\n\xff it is listening now\nmore\n");
        let (see, seen) = oneshot::channel();
        copy_output(&text[..], Some("is listening".to_owned()), see, |_| {}).await;
        assert_eq!(seen.await, Ok(()));
    }

    #[tokio::test]
    async fn an_output_without_the_line_ends_without_a_sign() {
        let (see, seen) = oneshot::channel();
        copy_output(&b"almost list\nening\n"[..], Some("listening".to_owned()), see, |_| {}).await;
        assert!(seen.await.is_err());
    }

    #[tokio::test]
    async fn figures_are_taken_from_their_lines_and_what_is_not_understood_is_left_alone() {
        let text = b"parshall-figures {\"allocated_bytes\": 5, \"threads\": 3}\n\
            ready\nparshall-figures nonsense\nparshall-figures {\"heap_bytes\": 7}\n";
        let (see, seen) = oneshot::channel();
        let mut told = Vec::new();
        copy_output(&text[..], Some("ready".to_owned()), see, |figures| {
            told.push((figures.allocated_bytes, figures.heap_bytes));
        })
        .await;
        assert_eq!(told, [(Some(5), None), (None, Some(7))]);
        assert_eq!(seen.await, Ok(()));
    }
}
