//! Each event as a blob.
//!
//! ```text
//!   PUT … If-None-Match: *  ─▶ 201                                accepted
//!                              409: it is there ─▶ HEAD ─▶ the same length and MD5: accepted, it was written before
//!                                                         ▶ another: an error of this event
//! ```

use std::task::{Context, Poll};

use futures_util::stream::{FuturesUnordered, StreamExt as _};

use super::{EVENT_BYTES_MAX, queue_max};
use crate::archive::DIFFERENT_CONTENT;
use crate::archive::NAME;
use crate::archive::blob::refusal::{is_about_the_name, may_be_there};
use crate::archive::blob::{BlobLanes, BlobRequest, Done, Heads, PutBlob};
use crate::archive::content::Contents;
use crate::checkpoint::StoreError;
use crate::checkpoint::blobs::{BlobProperties, Container};
use crate::event::Encoding;
use crate::http::HttpFailure;
use crate::service::ServiceError;
use crate::service::error::UNREACHABLE;
use crate::sink::{
    ErrorClass, OutgoingBatch, SendError, SendOutcome, SendToken, SendUnit, Sink, SinkBusy, SinkError,
    hand_over,
};

/// See the module.
pub(in crate::archive) struct PerEventBlobs {
    contents: Contents,
    heads: Heads,
    lanes: BlobLanes,
    queue_max: usize,
    container: Container,
    /// Blobs that are there already, and are being looked at.
    looks: FuturesUnordered<Look>,
    done: Vec<Done>,
    outcomes: Vec<SendOutcome>,
    /// Why nothing can be written any more.
    failure: Option<SinkError>,
}

type Look = std::pin::Pin<Box<dyn Future<Output = Looked> + Send>>;

/// A blob that is there already.
struct Looked {
    request: BlobRequest,
    /// Why it was not written.
    refusal: ServiceError,
    found: Result<Option<BlobProperties>, StoreError>,
}

impl PerEventBlobs {
    pub(in crate::archive) fn new(
        contents: Contents,
        lanes: BlobLanes,
        container: Container,
        concurrency: usize,
    ) -> Self {
        Self {
            contents,
            heads: lanes.heads(),
            lanes,
            queue_max: queue_max(concurrency),
            container,
            looks: FuturesUnordered::new(),
            done: Vec::new(),
            outcomes: Vec::new(),
            failure: None,
        }
    }

    fn drive(&mut self, context: &mut Context<'_>) {
        let mut done = std::mem::take(&mut self.done);
        self.lanes.drive(context, &mut done);
        for (request, result) in done.drain(..) {
            match result {
                Ok(()) => self.conclude(request, Ok(())),
                Err(failure) => self.refused(request, failure),
            }
        }
        self.done = done;
        while let Poll::Ready(Some(looked)) = self.looks.poll_next_unpin(context) {
            self.looked(looked);
        }
    }

    fn conclude(&mut self, request: BlobRequest, result: Result<(), SendError>) {
        self.outcomes.push(SendOutcome { token: SendToken(request.token), result: result.map_err(Box::new) });
        self.lanes.recycle(request);
    }

    #[cold]
    fn refused(&mut self, request: BlobRequest, failure: HttpFailure) {
        let HttpFailure { error, is_refused, .. } = failure;
        if is_refused && error.class == ErrorClass::Fatal {
            if may_be_there(&error) {
                let container = self.container.clone();
                self.looks.push(Box::pin(async move {
                    let found = container.properties(&request.name).await;
                    Looked { request, refusal: error, found }
                }));
                return;
            }
            if !is_about_the_name(&error) {
                // The container is gone, or the right to write: of all events.
                self.failure.get_or_insert_with(|| error.into());
                return;
            }
            let named = ServiceError { condition: NAME.to_owned(), ..error };
            return self.conclude(request, Err(named.into()));
        }
        self.conclude(request, Err(error.into()));
    }

    /// Compares what is there with what was to be written.
    #[cold]
    fn looked(&mut self, looked: Looked) {
        let Looked { request, refusal, found } = looked;
        let result = match found {
            Ok(Some(blob)) if blob.length == request.length && blob.md5 == Some(request.md5) => Ok(()),
            Ok(Some(blob)) => Err(SendError {
                class: ErrorClass::Fatal,
                condition: DIFFERENT_CONTENT.to_owned(),
                description: format!(
                    "the blob `{}` is there and holds something else: {} bytes instead of {}{}",
                    request.name,
                    blob.length,
                    request.length,
                    if blob.md5.is_none() { ", without an MD5" } else { "" },
                ),
            }),
            // Deleted in between.
            Ok(None) if refusal.condition == "BlobAlreadyExists" => {
                Err(SendError { class: ErrorClass::Retryable, ..refusal.into() })
            }
            Err(StoreError::Unavailable { reason }) => {
                Err(ServiceError::of_connection(UNREACHABLE, reason).into())
            }
            // It is not there, or nobody may look at it: then the refusal is what it says.
            Ok(None) | Err(_) => {
                self.failure.get_or_insert_with(|| refusal.into());
                return;
            }
        };
        self.conclude(request, result);
    }
}

impl Sink for PerEventBlobs {
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
        // Not for each that leaves: whoever waits is offered much at once.
        match self.lanes.waiting() <= self.queue_max / 2 {
            true => Poll::Ready(Ok(())),
            false => Poll::Pending,
        }
    }

    fn send(&mut self, token: SendToken, outgoing: OutgoingBatch<'_>) -> Result<(), SinkBusy> {
        if self.lanes.waiting() >= self.queue_max {
            return Err(SinkBusy);
        }
        let Some((batch, event)) = outgoing.events().next() else { return Err(SinkBusy) };
        let content_type = self.contents.content_type();
        match self.contents.of(batch, event) {
            Ok((name, content)) => {
                let mut request = self.lanes.empty_request();
                request.token = token.0;
                self.heads.put_blob(&mut request, &PutBlob { name, content, content_type });
                self.lanes.submit(request);
            }
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
        self.lanes.outage()
    }
}

impl std::fmt::Debug for PerEventBlobs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PerEventBlobs").field("lanes", &self.lanes).finish_non_exhaustive()
    }
}
