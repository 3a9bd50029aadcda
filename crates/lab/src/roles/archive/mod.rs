//! An archive as the sink reads it: every blob of a container, each an event, listed and read back through the blob endpoint.
//!
//! It is read when everything has been sent, so that nobody is slowed down who writes it, and again and again from then on, since
//! the last blobs may still be written. A blob is read once: what is written over it under the same name is the same event, or is
//! found out by its content.
//!
//! ```text
//! list pages ──▶ names not seen before ──▶ readers, each on a connection of its own ──▶ bodies in batches
//! ```

mod client;
mod listing;

use std::collections::HashSet;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use connect::event::{Encoding, EventBatch, PartitionId};
use connect::sink::ErrorClass;
use connect::source::{AnySource, Source, SourceError, SourceEvent, StartPosition};
use tokio::sync::{Mutex, mpsc};

use self::client::{Account, Connection, ReadError};
use super::backend::OpenedSource;
use super::network::BackendError;
use super::protocol::Endpoint;

/// Connects to the container. Nothing is read until it is opened, as its only partition.
pub(super) fn open_source(endpoint: &Endpoint) -> Result<OpenedSource, BackendError> {
    let account = Account::of(&endpoint.connection_string, endpoint.entity.name())?;
    let (find, found) = mpsc::channel(BATCHES_AHEAD);
    let source = ArchiveSource { account: Arc::new(account), find, found, next: 0 };
    Ok(OpenedSource {
        source: AnySource::by_checkpoint(source),
        positions: vec![(PARTITION, StartPosition::Earliest)],
        is_stamped: false,
    })
}

/// The bodies of some blobs, or why there are no more.
type Found = Result<Vec<Bytes>, ReadError>;

/// The blobs of a container in no order. A blob has no sequence number of its own: they are counted as they come.
#[derive(Debug)]
struct ArchiveSource {
    account: Arc<Account>,
    /// Kept, so that what is not open is without an end.
    find: mpsc::Sender<Found>,
    found: mpsc::Receiver<Found>,
    next: i64,
}

impl Source for ArchiveSource {
    fn partitions(&self) -> Vec<PartitionId> {
        vec![PARTITION]
    }

    fn encoding(&self) -> Encoding {
        Encoding::Opaque
    }

    fn has_contiguous_numbers(&self) -> bool {
        false
    }

    fn open(&mut self, _: PartitionId, _: StartPosition) {
        let (tell, told) = mpsc::channel(READERS);
        tokio::spawn(list(Arc::clone(&self.account), tell, self.find.clone()));
        let told = Arc::new(Mutex::new(told));
        for _ in 0..READERS {
            tokio::spawn(read(Arc::clone(&self.account), Arc::clone(&told), self.find.clone()));
        }
    }

    fn close(&mut self, _: PartitionId) {
        self.found.close();
    }

    fn poll_batch(&mut self, context: &mut Context<'_>) -> Poll<Result<SourceEvent, SourceError>> {
        let Some(found) = ready!(self.found.poll_recv(context)) else {
            // It was closed.
            return Poll::Pending;
        };
        let bodies = found.map_err(|error| SourceError {
            class: ErrorClass::Fatal,
            condition: "archive".to_owned(),
            description: error.to_string(),
        })?;
        let mut batch = EventBatch::with_capacity(PARTITION, bodies.len());
        batch.set_encoding(Encoding::Opaque);
        for body in &bodies {
            batch.push_message(body, self.next);
            self.next += 1;
        }
        Poll::Ready(Ok(SourceEvent::Batch(batch)))
    }

    fn release(&mut self, _: EventBatch) {}
}

/// Tells the names of all blobs, and of those that come later, until nobody listens.
async fn list(account: Arc<Account>, tell: mpsc::Sender<Vec<String>>, find: mpsc::Sender<Found>) {
    let mut connection = Connection::to(account);
    let mut seen = HashSet::new();
    while !find.is_closed() {
        let mut marker = String::new();
        loop {
            let page = match connection.list(&marker).await {
                Ok(page) => page,
                Err(error) => {
                    // If nobody listens, nobody misses it.
                    let _ = find.send(Err(error)).await;
                    return;
                }
            };
            let new: Vec<String> = page.names.into_iter().filter(|name| seen.insert(name.clone())).collect();
            for names in new.chunks(NAMES_AT_ONCE) {
                if tell.send(names.to_vec()).await.is_err() {
                    return;
                }
            }
            match page.next {
                Some(next) => marker = next,
                None => break,
            }
        }
        tokio::time::sleep(LOOK_AGAIN_AFTER).await;
    }
}

/// Reads the blobs whose names it is told.
async fn read(
    account: Arc<Account>,
    told: Arc<Mutex<mpsc::Receiver<Vec<String>>>>,
    find: mpsc::Sender<Found>,
) {
    let mut connection = Connection::to(account);
    loop {
        let names = told.lock().await.recv().await;
        let Some(names) = names else {
            return;
        };
        let found = connection.get_all(&names).await;
        let has_failed = found.is_err();
        if find.send(found).await.is_err() || has_failed {
            return;
        }
    }
}

/// All of a container is one.
const PARTITION: PartitionId = PartitionId(0);

/// Blobs that are read at once, each over a connection of its own: a service that takes 9 ms for each gives 20,000 a second.
const READERS: usize = 192;

/// Blobs that a reader reads before it says what it has found.
const NAMES_AT_ONCE: usize = 32;

/// What was read and not yet looked at, in such portions.
const BATCHES_AHEAD: usize = 64;

/// A listing of hundreds of thousands of blobs costs the service a moment.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(300);
