//! What processes write, line by line.

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _};

/// Reads the next line into `line`, with its end; false when there is none any more. A line without end is cut, so that a
/// process gone mad costs disk and not memory.
pub(super) async fn next_line(output: &mut (impl AsyncBufRead + Unpin), line: &mut Vec<u8>) -> bool {
    line.clear();
    let read = output.take(LONGEST_LINE).read_until(b'\n', line).await;
    !matches!(read, Ok(0) | Err(_))
}

/// In bytes.
pub(super) const LONGEST_LINE: u64 = 64 << 10;
