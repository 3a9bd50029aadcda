//! The bodies of requests and replies.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::JoinHandle;
use units::ByteSize;

use super::refusal::Refusal;
use crate::blob::{BlobError, ContentReader};

/// Memory for the bodies of requests that are under way.
#[derive(Debug)]
pub(super) struct BodyMemory {
    limit: ByteSize,
    /// In KiB.
    free: Semaphore,
}

/// A body that has arrived, and the memory that was set aside for it.
#[derive(Debug)]
pub(super) struct Arrived<'a> {
    pub(super) bytes: Bytes,
    _memory: SemaphorePermit<'a>,
}

impl BodyMemory {
    /// Memory for twice the largest body, which is `limit`.
    pub(super) fn new(limit: ByteSize) -> Self {
        let kibibytes = limit.bytes().div_ceil(1024).saturating_mul(2);
        Self {
            limit,
            free: Semaphore::new(
                usize::try_from(kibibytes)
                    .unwrap_or(usize::MAX)
                    .min(u32::MAX as usize),
            ),
        }
    }

    /// Waits for a body, of which there are at most `most` bytes.
    ///
    /// # Errors
    /// It is longer, has no length, breaks off, or there is no memory for it.
    pub(super) async fn collect(
        &self,
        mut body: Incoming,
        most: ByteSize,
    ) -> Result<Arrived<'_>, Refusal> {
        let limit = self.limit.min(most);
        let hint = body.size_hint();
        let length = hint.exact().ok_or(Refusal::MissingHeader {
            name: "content-length",
        })?;
        if length > limit.bytes() {
            return Err(Refusal::BodySize { limit });
        }
        let kibibytes = u32::try_from(length.div_ceil(1024)).map_err(|_| Refusal::Busy)?;
        let memory = self.free.acquire_many(kibibytes);
        let Ok(Ok(memory)) = tokio::time::timeout(MEMORY_PATIENCE, memory).await else {
            return Err(Refusal::Busy);
        };
        let mut bytes = Vec::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_broken| Refusal::Body)?;
            let Ok(data) = frame.into_data() else {
                continue;
            };
            // Not before something has come: a length alone costs its sender nothing.
            bytes
                .try_reserve_exact((length as usize).saturating_sub(bytes.len()))
                .map_err(|_full| Refusal::Busy)?;
            bytes.extend_from_slice(&data);
        }
        match bytes.len() as u64 == length {
            true => Ok(Arrived {
                bytes: bytes.into(),
                _memory: memory,
            }),
            false => Err(Refusal::Body),
        }
    }
}

/// The body of a reply.
#[derive(Debug)]
pub(super) enum ReplyBody {
    /// All of it.
    Whole(Option<Bytes>),
    /// A part of a blob, read while it is sent.
    Content {
        reader: Reader,
        /// What is still to come.
        remaining: u64,
    },
}

/// A reader, or what it is doing.
#[derive(Debug)]
pub(super) enum Reader {
    Idle(Option<ContentReader>),
    Reading(JoinHandle<(ContentReader, Result<Option<Bytes>, BlobError>)>),
}

impl ReplyBody {
    pub(super) const fn empty() -> Self {
        Self::Whole(None)
    }

    pub(super) const fn content(reader: ContentReader, length: u64) -> Self {
        Self::Content {
            reader: Reader::Idle(Some(reader)),
            remaining: length,
        }
    }
}

impl From<Vec<u8>> for ReplyBody {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Whole(Some(bytes.into()).filter(|bytes: &Bytes| !bytes.is_empty()))
    }
}

impl From<Bytes> for ReplyBody {
    fn from(bytes: Bytes) -> Self {
        Self::Whole(Some(bytes).filter(|bytes| !bytes.is_empty()))
    }
}

impl Reader {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, io::Error>> {
        loop {
            match self {
                Self::Idle(idle) => {
                    let Some(mut reader) = idle.take() else {
                        return Poll::Ready(Ok(None));
                    };
                    if reader.is_in_memory() {
                        let chunk = reader.next_chunk(CHUNK_BYTES).map_err(io::Error::other);
                        *idle = Some(reader);
                        return Poll::Ready(chunk);
                    }
                    *self = Self::Reading(tokio::task::spawn_blocking(move || {
                        let chunk = reader.next_chunk(CHUNK_BYTES);
                        (reader, chunk)
                    }));
                }
                Self::Reading(reading) => {
                    let (reader, chunk) =
                        ready!(Pin::new(reading).poll(cx)).map_err(io::Error::other)?;
                    *self = Self::Idle(Some(reader));
                    return Poll::Ready(chunk.map_err(io::Error::other));
                }
            }
        }
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Content { reader, remaining } => {
                Poll::Ready(match ready!(reader.poll_chunk(cx)) {
                    Ok(Some(chunk)) => {
                        *remaining = remaining.saturating_sub(chunk.len() as u64);
                        Some(Ok(Frame::data(chunk)))
                    }
                    Ok(None) => None,
                    Err(error) => Some(Err(error)),
                })
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.is_none(),
            Self::Content { remaining, .. } => *remaining == 0,
        }
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(match self {
            Self::Whole(bytes) => bytes.as_ref().map_or(0, |bytes| bytes.len() as u64),
            Self::Content { remaining, .. } => *remaining,
        })
    }
}

/// How much of a blob is read at a time; and so much memory a reply takes.
const CHUNK_BYTES: usize = 256 * 1024;

/// How long a request waits for memory before it is told to come again.
const MEMORY_PATIENCE: Duration = Duration::from_secs(10);
