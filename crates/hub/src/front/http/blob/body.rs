//! The bodies of requests and replies.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame, SizeHint};
use listen::http::RequestBody;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::JoinHandle;
use units::ByteSize;

use super::http_error::HttpError;
use blob_store::structured::{Decoder, Encoder, longest_message};
use blob_store::{BlobError, ContentReader};

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
    /// The checksum of the bytes, if they came as a structured message, which was verified.
    pub(super) crc64: Option<u64>,
    _memory: SemaphorePermit<'a>,
}

impl BodyMemory {
    /// Memory for twice the largest body, which is `limit`.
    pub(super) fn new(limit: ByteSize) -> Self {
        let kibibytes = limit.bytes().div_ceil(1024).saturating_mul(2);
        Self {
            limit,
            free: Semaphore::new(usize::try_from(kibibytes).unwrap_or(usize::MAX).min(u32::MAX as usize)),
        }
    }

    /// Waits for memory for the bytes of another blob, which are written like a body.
    ///
    /// # Errors
    /// They are more than a body may be, or there is no memory for them.
    pub(super) async fn for_source(&self, length: u64) -> Result<SemaphorePermit<'_>, HttpError> {
        match length > self.limit.bytes() {
            true => Err(HttpError::BodySize { limit: self.limit }),
            false => self.reserve(length).await,
        }
    }

    async fn reserve(&self, length: u64) -> Result<SemaphorePermit<'_>, HttpError> {
        let kibibytes = u32::try_from(length.div_ceil(1024)).map_err(|_| HttpError::Busy)?;
        let memory = self.free.acquire_many(kibibytes);
        match tokio::time::timeout(MEMORY_PATIENCE, memory).await {
            Ok(Ok(memory)) => Ok(memory),
            Ok(Err(_)) | Err(_) => Err(HttpError::Busy),
        }
    }

    /// Waits for a body, of whose content there are at most `most` bytes. If it is a structured message, its content has
    /// `structured` bytes.
    ///
    /// # Errors
    /// It is longer, has no length, breaks off, is no structured message, or there is no memory for it.
    pub(super) async fn collect(
        &self,
        mut body: RequestBody,
        most: ByteSize,
        structured: Option<u64>,
    ) -> Result<Arrived<'_>, HttpError> {
        let limit = self.limit.min(most);
        let hint = body.size_hint();
        let message_length = hint.exact().ok_or(HttpError::MissingHeader { name: "content-length" })?;
        let length = structured.unwrap_or(message_length);
        let longest = structured.map_or(length, longest_message);
        if length > limit.bytes() || message_length > longest {
            return Err(HttpError::BodySize { limit });
        }
        let mut decoder = structured.map(|length| Decoder::new(message_length, length));
        let memory = self.reserve(length).await?;
        let mut bytes = Vec::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_broken| HttpError::Body)?;
            let Ok(data) = frame.into_data() else {
                continue;
            };
            // Not before something has come: a length alone costs its sender nothing.
            bytes
                .try_reserve_exact((length as usize).saturating_sub(bytes.len()))
                .map_err(|_full| HttpError::Busy)?;
            match &mut decoder {
                Some(decoder) => decoder.push(&data, &mut bytes)?,
                None => bytes.extend_from_slice(&data),
            }
        }
        let crc64 = decoder.map(Decoder::finish).transpose()?;
        match bytes.len() as u64 == length {
            true => Ok(Arrived { bytes: bytes.into(), crc64, _memory: memory }),
            false => Err(HttpError::Body),
        }
    }
}

/// The body of a reply.
#[derive(Debug)]
pub(in crate::front::http) enum ReplyBody {
    /// All of it.
    Whole(Option<Bytes>),
    /// A part of a blob, read while it is sent.
    Content {
        reader: Reader,
        /// What is still to come.
        remaining: u64,
    },
    /// The same as a structured message.
    Structured {
        reader: Reader,
        encoder: Box<Encoder>,
        /// What can be sent at once.
        ready: VecDeque<Bytes>,
        remaining: u64,
    },
}

/// A reader, or what it is doing.
#[derive(Debug)]
pub(in crate::front::http) enum Reader {
    Idle(Option<ContentReader>),
    Reading(JoinHandle<(ContentReader, Result<Option<Bytes>, BlobError>)>),
}

impl ReplyBody {
    pub(super) const fn empty() -> Self {
        Self::Whole(None)
    }

    pub(super) const fn content(reader: ContentReader, length: u64) -> Self {
        Self::Content { reader: Reader::Idle(Some(reader)), remaining: length }
    }

    pub(super) fn structured(reader: ContentReader, length: u64) -> Self {
        let mut encoder = Encoder::new(length);
        let remaining = encoder.message_length();
        let mut ready = VecDeque::new();
        encoder.start(&mut ready);
        Self::Structured { reader: Reader::Idle(Some(reader)), encoder: Box::new(encoder), ready, remaining }
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
                    if reader.has_next_in_memory() {
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
                    let (reader, chunk) = ready!(Pin::new(reading).poll(cx)).map_err(io::Error::other)?;
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
            Self::Content { reader, remaining } => Poll::Ready(match ready!(reader.poll_chunk(cx)) {
                Ok(Some(chunk)) => {
                    *remaining = remaining.saturating_sub(chunk.len() as u64);
                    Some(Ok(Frame::data(chunk)))
                }
                Ok(None) => None,
                Err(error) => Some(Err(error)),
            }),
            Self::Structured { reader, encoder, ready, remaining } => loop {
                if let Some(part) = ready.pop_front() {
                    *remaining = remaining.saturating_sub(part.len() as u64);
                    return Poll::Ready(Some(Ok(Frame::data(part))));
                }
                match ready!(reader.poll_chunk(cx)) {
                    Ok(Some(chunk)) => encoder.encode(chunk, ready),
                    Ok(None) => return Poll::Ready(None),
                    Err(error) => return Poll::Ready(Some(Err(error))),
                }
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.is_none(),
            Self::Content { remaining, .. } | Self::Structured { remaining, .. } => *remaining == 0,
        }
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(match self {
            Self::Whole(bytes) => bytes.as_ref().map_or(0, |bytes| bytes.len() as u64),
            Self::Content { remaining, .. } | Self::Structured { remaining, .. } => *remaining,
        })
    }
}

/// How much of a blob is read at a time; and so much memory a reply takes.
const CHUNK_BYTES: usize = 256 * 1024;

/// How long a request waits for memory before it is told to come again.
const MEMORY_PATIENCE: Duration = Duration::from_secs(10);
