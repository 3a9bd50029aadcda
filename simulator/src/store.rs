//! The checkpoint store as one process sees it: a client on the simulated network.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use connect::checkpoint::{
    Checkpoint, CheckpointStore, Claimed, ConsumerGroup, ETag, Ownership, StoreError, StoreFuture,
};

use crate::world::{Answer, Request, SharedWorld};

/// The store of one process.
#[derive(Debug)]
pub(crate) struct SimulatedStore {
    world: SharedWorld,
    process: u32,
}

/// A call that is made when it is first polled, as a request to a service would be. Dropping it does not take it back.
struct CallStore {
    world: SharedWorld,
    process: u32,
    stage: Stage,
}

enum Stage {
    Unsent(Request),
    Sent(u64),
    /// The process is dead.
    Nowhere,
}

impl SimulatedStore {
    pub(crate) fn new(world: &SharedWorld, process: u32) -> Self {
        Self { world: world.clone(), process }
    }

    fn call(&self, request: Request) -> CallStore {
        CallStore { world: self.world.clone(), process: self.process, stage: Stage::Unsent(request) }
    }
}

impl CheckpointStore for SimulatedStore {
    fn list_checkpoints(&self, _group: &ConsumerGroup) -> StoreFuture<Vec<Checkpoint>> {
        let call = self.call(Request::ListCheckpoints);
        Box::pin(async {
            match call.await? {
                Answer::Checkpoints(checkpoints) => Ok(checkpoints),
                other => Err(unexpected(&other)),
            }
        })
    }

    fn update_checkpoint(&self, checkpoint: Checkpoint) -> StoreFuture<()> {
        let call = self.call(Request::Write { checkpoint, fenced: false });
        Box::pin(async { call.await.map(|_| ()) })
    }

    fn replace_checkpoint(&self, checkpoint: Checkpoint) -> StoreFuture<ETag> {
        let call = self.call(Request::Write { checkpoint, fenced: true });
        Box::pin(async {
            match call.await? {
                Answer::Written(etag) => Ok(etag),
                other => Err(unexpected(&other)),
            }
        })
    }

    fn list_ownership(&self, _group: &ConsumerGroup) -> StoreFuture<Vec<Ownership>> {
        let call = self.call(Request::ListOwnership);
        Box::pin(async {
            match call.await? {
                Answer::Ownership(ownership) => Ok(ownership),
                other => Err(unexpected(&other)),
            }
        })
    }

    fn claim_ownership(&self, claims: Vec<Ownership>, _: Duration) -> StoreFuture<Claimed> {
        let call = self.call(Request::Claim(claims));
        Box::pin(async {
            match call.await? {
                Answer::Ownership(ownership) => Ok(ownership.into()),
                other => Err(unexpected(&other)),
            }
        })
    }

    fn now(&self) -> SystemTime {
        self.world.lock().store_time(Some(self.process))
    }
}

impl Future for CallStore {
    type Output = Result<Answer, StoreError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let mut world = this.world.lock();
        if let Stage::Unsent(request) = &this.stage {
            this.stage = match world.call_store(this.process, request.clone()) {
                Some(number) => Stage::Sent(number),
                None => Stage::Nowhere,
            };
        }
        match this.stage {
            Stage::Sent(number) => world.poll_answer(number, context),
            _ => Poll::Pending,
        }
    }
}

impl fmt::Debug for CallStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallStore").field("process", &self.process).finish_non_exhaustive()
    }
}

fn unexpected(answer: &Answer) -> StoreError {
    StoreError::Unavailable { reason: format!("{answer:?} is no answer to this") }
}
