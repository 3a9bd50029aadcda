//! Membership of a consumer group, whose coordinator says which member reads which partition.
//!
//! ```text
//!   store ── orders: begin, released, doubt, leave ──► task ── Member: what to ask ──► Coordinator
//!     ▲                                                 │
//!     └───────────── standing: what is had, as whom ────┘
//! ```
//!
//! * [`member`] is the protocol of a member, [`assignor`] what one does that leads the group. Both are without clock and network.
//! * The [`task`] asks the coordinator, over a connection of its own: a coordinator keeps its answer to a member until all others have
//!   come, and commits must not wait behind that.
//! * Its [`standing`] is there to be read at any moment. Nobody waits for the task to learn what is had.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{mpsc, oneshot, watch};

use super::native::Coordinator;

mod assignor;
mod member;
mod standing;
mod task;

pub(crate) use assignor::{Assignor, TopicPartition};
pub(crate) use member::MemberOptions;
pub(crate) use standing::Standing;
use task::{Order, Task};

/// A member of a group, for the store that is one.
#[derive(Debug)]
pub(crate) struct Membership {
    instance_id: Option<String>,
    orders: mpsc::Sender<Order>,
    standing: watch::Receiver<Standing>,
    /// Counts changes of it.
    changes: watch::Receiver<u64>,
    has_begun: AtomicBool,
}

impl Membership {
    /// A member that joins when it is told to. Made within a tokio runtime with time and I/O.
    pub(crate) fn new(options: MemberOptions, coordinator: Coordinator) -> Self {
        let (orders, ordered) = mpsc::channel(ORDERS_MAX);
        let (show, standing) = watch::channel(Standing::default());
        let (count, changes) = watch::channel(0);
        let instance_id = options.instance_id.clone();
        // A task: the coordinator is to hear of the member whatever its user is busy with.
        tokio::spawn(Task::new(options, coordinator, show, count).run(ordered));
        Self { instance_id, orders, standing, changes, has_begun: AtomicBool::new(false) }
    }

    /// Joins the group, unless that was done, and waits until the coordinator knows of it or never will. Gives how it stands then.
    pub(crate) fn begin(&self) -> impl Future<Output = Option<Standing>> + Send + use<> {
        let is_first = !self.has_begun.swap(true, Ordering::Relaxed);
        let (orders, mut standing) = (self.orders.clone(), self.standing.clone());
        async move {
            if is_first {
                orders.send(Order::Begin).await.ok()?;
            }
            let known = standing.wait_for(|standing| standing.is_known || standing.failure().is_some());
            known.await.ok().map(|standing| standing.clone())
        }
    }

    /// How it stands now.
    pub(crate) fn standing(&self) -> watch::Ref<'_, Standing> {
        self.standing.borrow()
    }

    /// How it stands, for one who waits for changes.
    pub(crate) fn watch(&self) -> watch::Receiver<Standing> {
        self.standing.clone()
    }

    /// Counts changes of what it has.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.clone()
    }

    /// The name that it keeps over restarts.
    pub(crate) fn instance_id(&self) -> Option<&str> {
        self.instance_id.as_deref()
    }

    /// Gives up partitions, by their havings.
    pub(crate) fn release(
        &self,
        released: Vec<(TopicPartition, u64)>,
    ) -> impl Future<Output = ()> + Send + use<> {
        let orders = self.orders.clone();
        async move {
            if !released.is_empty() {
                // A task that is over has nothing any more.
                let _over = orders.send(Order::Release(released)).await;
            }
        }
    }

    /// Lets it ask whether it still is a member.
    pub(crate) fn doubt(&self) {
        // Where so much is to be done already, it will be found out.
        let _full = self.orders.try_send(Order::Doubt);
    }

    /// Leaves the group. One that keeps its name does not: it is expected back.
    pub(crate) fn leave(&self) -> impl Future<Output = ()> + Send + use<> {
        let orders = self.orders.clone();
        async move {
            let (done, left) = oneshot::channel();
            if orders.send(Order::Leave(done)).await.is_ok() {
                let _over = left.await;
            }
        }
    }
}

/// More than one user can have under way: it releases what it has finished in one piece.
const ORDERS_MAX: usize = 64;
