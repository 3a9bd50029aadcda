//! Each event as an object of a bucket.
//!
//! ```text
//!   PUT … If-None-Match: *  ─▶ 200                                accepted
//!                              412: it is there ─▶ HEAD ─▶ the same length and MD5: accepted, it was written before
//!                                                         ▶ another: an error of this event
//! ```

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use units::md5::md5;

use super::{EVENT_BYTES_MAX, queue_max};
use crate::archive::bucket::refusal::is_about_the_name;
use crate::archive::bucket::{About, Bucket, Condition, MD5, is_outage};
use crate::archive::content::Contents;
use crate::archive::{DIFFERENT_CONTENT, NAME};
use crate::event::Encoding;
use crate::service::ServiceError;
use crate::sink::{
    ErrorClass, OutgoingBatch, SendError, SendOutcome, SendToken, SendUnit, Sink, SinkBusy, SinkError,
    hand_over,
};

/// See the module.
pub(in crate::archive) struct PerEventObjects {
    contents: Contents,
    bucket: Bucket,
    /// How many requests are under way at most.
    concurrency: usize,
    queue_max: usize,
    waiting: VecDeque<NewObject>,
    writings: FuturesUnordered<Writing>,
    outcomes: Vec<SendOutcome>,
    /// Why the service can't be reached, since it was last.
    outage: Option<ServiceError>,
    /// Why nothing can be written any more.
    failure: Option<SinkError>,
}

/// An object that is to be written.
#[derive(Debug)]
struct NewObject {
    token: SendToken,
    name: String,
    content: Bytes,
    content_type: &'static str,
}

type Writing = Pin<Box<dyn Future<Output = (SendToken, Result<Written, ServiceError>)> + Send>>;

/// What became of a writing that the service took notice of.
enum Written {
    /// The event is there.
    Done,
    /// Something else is.
    Different(String),
}

impl PerEventObjects {
    pub(in crate::archive) fn new(contents: Contents, bucket: Bucket, concurrency: usize) -> Self {
        Self {
            contents,
            bucket,
            concurrency: concurrency.max(1),
            queue_max: queue_max(concurrency),
            waiting: VecDeque::new(),
            writings: FuturesUnordered::new(),
            outcomes: Vec::new(),
            outage: None,
            failure: None,
        }
    }

    fn drive(&mut self, context: &mut Context<'_>) {
        loop {
            while self.writings.len() < self.concurrency
                && let Some(object) = self.waiting.pop_front()
            {
                let bucket = self.bucket.clone();
                self.writings.push(Box::pin(async move { (object.token, write(&bucket, object).await) }));
            }
            let Poll::Ready(Some((token, result))) = self.writings.poll_next_unpin(context) else { return };
            self.written(token, result);
        }
    }

    fn written(&mut self, token: SendToken, result: Result<Written, ServiceError>) {
        let result = match result {
            Ok(written) => {
                self.outage = None;
                written.result()
            }
            Err(error) if is_about_the_name(&error) || error.condition == NAME => {
                Err(ServiceError { condition: NAME.to_owned(), ..error }.into())
            }
            Err(error) if error.class == ErrorClass::Fatal => {
                // The bucket is gone, or the right to write: of all events.
                self.failure.get_or_insert_with(|| error.into());
                return;
            }
            Err(error) => {
                self.outage = is_outage(&error).then(|| error.clone());
                Err(error.into())
            }
        };
        self.outcomes.push(SendOutcome { token, result: result.map_err(Box::new) });
    }
}

/// Writes an object, and looks at what is there where there is something.
async fn write(bucket: &Bucket, object: NewObject) -> Result<Written, ServiceError> {
    let NewObject { name, content, content_type, .. } = object;
    let digest = md5(&content);
    let length = content.len() as u64;
    let hex = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    let about = About { content_type, metadata: vec![(MD5, hex)] };
    if bucket.put(&name, content.into(), &about, Condition::Absent).await? {
        return Ok(Written::Done);
    }
    let Some(there) = bucket.look(&name).await? else {
        // Deleted in between.
        return Err(ServiceError {
            class: ErrorClass::Retryable,
            condition: "archive:contended".to_owned(),
            description: format!("`{}` was there, and is not any more", bucket.display(&name)),
        });
    };
    if there.length == length && there.md5() == Some(digest) {
        return Ok(Written::Done);
    }
    Ok(Written::Different(format!(
        "the object `{}` is there and holds something else: {} bytes instead of {length}",
        bucket.display(&name),
        there.length,
    )))
}

impl Written {
    fn result(self) -> Result<(), SendError> {
        match self {
            Self::Done => Ok(()),
            Self::Different(description) => Err(SendError {
                class: ErrorClass::Fatal,
                condition: DIFFERENT_CONTENT.to_owned(),
                description,
            }),
        }
    }
}

impl Sink for PerEventObjects {
    fn destinations(&self) -> u32 {
        1
    }

    fn takes(&self, encoding: Encoding) -> bool {
        encoding == Encoding::Amqp
    }

    fn send_unit(&self) -> SendUnit {
        SendUnit::Event
    }

    fn max_batch_bytes(&self, _destination: u32) -> usize {
        EVENT_BYTES_MAX
    }

    fn encoded_len(&self, message_len: usize) -> usize {
        message_len
    }

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), SinkError>> {
        self.drive(context);
        match self.waiting.len() <= self.queue_max / 2 {
            true => Poll::Ready(Ok(())),
            false => Poll::Pending,
        }
    }

    fn send(&mut self, token: SendToken, outgoing: OutgoingBatch<'_>) -> Result<(), SinkBusy> {
        if self.waiting.len() >= self.queue_max {
            return Err(SinkBusy);
        }
        let Some((batch, event)) = outgoing.events().next() else { return Err(SinkBusy) };
        let content_type = self.contents.content_type();
        match self.contents.of(batch, event) {
            Ok((name, content)) => self.waiting.push_back(NewObject {
                token,
                name: name.to_owned(),
                content: Bytes::copy_from_slice(content),
                content_type,
            }),
            Err(error) => self.outcomes.push(SendOutcome { token, result: Err(error) }),
        }
        Ok(())
    }

    fn poll_outcomes(
        &mut self,
        context: &mut Context<'_>,
        outcomes: &mut Vec<SendOutcome>,
    ) -> Poll<Result<(), SinkError>> {
        self.drive(context);
        if let Some(failure) = &self.failure {
            return Poll::Ready(Err(failure.clone()));
        }
        hand_over(&mut self.outcomes, outcomes).map(Ok)
    }

    fn outage(&self) -> Option<&ServiceError> {
        self.outage.as_ref()
    }
}

impl std::fmt::Debug for PerEventObjects {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PerEventObjects")
            .field("bucket", &self.bucket)
            .field("waiting", &self.waiting.len())
            .field("under_way", &self.writings.len())
            .finish_non_exhaustive()
    }
}
