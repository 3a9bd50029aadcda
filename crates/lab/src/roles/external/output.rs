//! What a command writes to its standard output: copied to the role's log, and looked through for the line that says that
//! it is ready.

use std::io::Write as _;

use tokio::{
    io::{AsyncRead, BufReader},
    sync::oneshot,
};

use crate::roles::lines::next_line;

/// Copies `output` to this process's standard error to its end. Tells `seen` when a line contains `wanted`.
pub(super) async fn copy_output(
    output: impl AsyncRead + Unpin,
    wanted: Option<String>,
    seen: oneshot::Sender<()>,
) {
    let mut wanted = wanted.zip(Some(seen));
    let mut output = BufReader::new(output);
    let mut line = Vec::new();
    while next_line(&mut output, &mut line).await {
        // Nobody reads the log of an orchestrator that has gone, which the end of the input tells.
        let _ = std::io::stderr().write_all(&line);
        if let Some((_, seen)) =
            wanted.take_if(|(text, _)| String::from_utf8_lossy(&line).contains(text.as_str()))
        {
            let _ = seen.send(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::roles::lines::LONGEST_LINE;

    #[tokio::test]
    async fn the_wanted_line_is_seen_wherever_it_stands_and_however_long_others_are() {
        let mut text = vec![b'x'; 3 * LONGEST_LINE as usize];
        text.extend_from_slice(b"\n\xff it is listening now\nmore\n");
        let (see, seen) = oneshot::channel();
        copy_output(&text[..], Some("is listening".to_owned()), see).await;
        assert_eq!(seen.await, Ok(()));
    }

    #[tokio::test]
    async fn an_output_without_the_line_ends_without_a_sign() {
        let (see, seen) = oneshot::channel();
        copy_output(
            &b"almost list\nening\n"[..],
            Some("listening".to_owned()),
            see,
        )
        .await;
        assert!(seen.await.is_err());
    }
}
