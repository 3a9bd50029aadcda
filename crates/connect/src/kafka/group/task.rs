//! The task of a member: asks the coordinator what the member wants to know, and shows how it stands.

use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use kafka::ErrorCode;
use kafka::messages::group::MemberRef;
use kafka::messages::join_group::JoinGroupRequest;
use kafka::messages::sync_group::SyncGroupRequest;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use super::assignor::TopicPartition;
use super::member::{Answer, Failure, Member, MemberOptions, Question, Step};
use super::standing::Standing;
use crate::kafka::native::{Coordinator, refused};
use crate::retry::RetryPolicy;
use crate::service::ServiceError;
use crate::sink::ErrorClass;

/// What the task is told.
#[derive(Debug)]
pub(super) enum Order {
    /// To join.
    Begin,
    /// These are given up.
    Release(Vec<(TopicPartition, u64)>),
    /// To ask whether it still is a member.
    Doubt,
    /// To leave the group, and to say when that is done.
    Leave(oneshot::Sender<()>),
}

/// See the module.
#[derive(Debug)]
pub(super) struct Task {
    options: Arc<MemberOptions>,
    member: Member,
    coordinator: Coordinator,
    show: watch::Sender<Standing>,
    count: watch::Sender<u64>,
    /// Questions in a row that came to nothing.
    failures: u32,
    /// Why the last of them came to nothing.
    trouble: Option<String>,
}

/// Nothing more is to be done, but for this.
type End = Option<oneshot::Sender<()>>;

impl Task {
    pub(super) fn new(
        options: MemberOptions,
        coordinator: Coordinator,
        show: watch::Sender<Standing>,
        count: watch::Sender<u64>,
    ) -> Self {
        let member = Member::new(options.clone(), Instant::now());
        Self { options: Arc::new(options), member, coordinator, show, count, failures: 0, trouble: None }
    }

    /// Is a member from the order to begin until that to leave, or until nobody can order any more.
    pub(super) async fn run(mut self, mut orders: mpsc::Receiver<Order>) {
        match orders.recv().await {
            None | Some(Order::Leave(_)) => return,
            Some(Order::Begin | Order::Release(_) | Order::Doubt) => {}
        }
        let end = loop {
            if let ControlFlow::Break(end) = self.turn(&mut orders).await {
                break end;
            }
        };
        if let Some(left) = end {
            self.leave().await;
            // Who asked may have gone.
            let _gone = left.send(());
        }
    }

    /// Asks one question, or waits for the time of the next.
    async fn turn(&mut self, orders: &mut mpsc::Receiver<Order>) -> ControlFlow<End> {
        let step = match self.member.has_failed() {
            false => self.member.poll(Instant::now()),
            true => Step::Wait(Instant::now() + A_WHILE),
        };
        self.publish();
        let question = match step {
            Step::Ask(question) => question,
            Step::Wait(until) => return self.wait(orders, until).await,
        };
        let asked_at = Instant::now();
        let answered = {
            let mut asking = pin!(ask(&mut self.coordinator, Arc::clone(&self.options), question));
            loop {
                tokio::select! {
                    biased;
                    order = orders.recv() => take_order(&mut self.member, order)?,
                    answered = &mut asking => break answered,
                }
            }
        };
        let error = match answered {
            Ok(answer) => match self.member.take(Instant::now(), asked_at, answer) {
                Ok(()) => return self.succeed(),
                Err(code) => refused(code, "the coordinator of the consumer group says to come again"),
            },
            // Before it ever was a member, it may as well say what is wrong.
            Err(error) if error.class == ErrorClass::Fatal && !self.member.is_known() => {
                self.member.fail(Failure::Unreachable(error.to_string()));
                return ControlFlow::Continue(());
            }
            Err(error) => error,
        };
        self.failures += 1;
        tracing::debug!(%error, group_id = self.coordinator.group_id(), "a member asks again");
        self.trouble = Some(error.to_string());
        let delay = RETRY.delay_after(self.failures, 0).unwrap_or(RETRY.max_delay);
        self.publish();
        self.wait(orders, Instant::now() + delay).await
    }

    fn succeed(&mut self) -> ControlFlow<End> {
        self.failures = 0;
        self.trouble = None;
        ControlFlow::Continue(())
    }

    /// Takes orders until then. One of them may make the member want something else, which is looked at at once.
    async fn wait(&mut self, orders: &mut mpsc::Receiver<Order>, until: Instant) -> ControlFlow<End> {
        tokio::select! {
            biased;
            order = orders.recv() => take_order(&mut self.member, order),
            () = tokio::time::sleep_until(until) => ControlFlow::Continue(()),
        }
    }

    /// Shows how the member stands, if that has changed.
    fn publish(&self) {
        let mut standing = self.member.standing();
        let is_lasting = self.failures >= TROUBLE_AFTER || self.member.is_out_of_time(Instant::now());
        // As long as the session lasts, nothing is wrong.
        standing.trouble = self.trouble.clone().filter(|_| standing.generation < 0 && is_lasting);
        let mut moved = false;
        self.show.send_if_modified(|shown| {
            let changed = *shown != standing;
            moved = shown.is_otherwise_held(&standing);
            *shown = standing;
            changed
        });
        if moved {
            self.count.send_modify(|count| *count += 1);
        }
    }

    async fn leave(&mut self) {
        let member_id = self.member.member_id();
        if member_id.is_empty() || self.options.instance_id.is_some() {
            return;
        }
        match self.coordinator.leave(member_id).await {
            Ok(ErrorCode::None) => {}
            Ok(code) => tracing::debug!(%code, "the coordinator had forgotten a member that leaves"),
            Err(error) => {
                tracing::warn!(%error, "the consumer group can't be left; the session will end by itself");
            }
        }
    }
}

/// Does what is ordered. Breaks if that is the end.
fn take_order(member: &mut Member, order: Option<Order>) -> ControlFlow<End> {
    match order {
        None => return ControlFlow::Break(None),
        Some(Order::Leave(left)) => return ControlFlow::Break(Some(left)),
        Some(Order::Begin) => {}
        Some(Order::Release(released)) => {
            released.iter().for_each(|(partition, having)| member.release(partition, *having));
        }
        Some(Order::Doubt) => member.doubt(Instant::now()),
    }
    ControlFlow::Continue(())
}

async fn ask(
    coordinator: &mut Coordinator,
    options: Arc<MemberOptions>,
    question: Question,
) -> Result<Answer, ServiceError> {
    let group_id = coordinator.group_id().to_owned();
    let instance_id = options.instance_id.as_deref();
    // The coordinator waits for all members for so long, and then for the one that leads.
    let patience = options.rebalance_timeout + PATIENCE_MORE;
    Ok(match question {
        Question::Join { member_id, protocols } => {
            let request = JoinGroupRequest {
                group_id: &group_id,
                session_timeout_ms: milliseconds(options.session_timeout),
                rebalance_timeout_ms: milliseconds(options.rebalance_timeout),
                member_id: &member_id,
                instance_id,
                protocol_type: PROTOCOL_TYPE,
                protocols: protocols.iter().map(|(name, metadata)| (*name, &metadata[..])).collect(),
            };
            Answer::Joined(coordinator.join(&request, patience).await?)
        }
        Question::Count(topics) => Answer::Counted(coordinator.count_partitions(&topics).await?),
        Question::Sync { member_id, generation, protocol, assignments } => {
            let request = SyncGroupRequest {
                member: MemberRef { group_id: &group_id, generation, member_id: &member_id, instance_id },
                protocol_type: Some(PROTOCOL_TYPE),
                protocol: Some(protocol),
                assignments: assignments.iter().map(|(member, part)| (&**member, &part[..])).collect(),
            };
            Answer::Synced(coordinator.sync(&request, patience).await?)
        }
        Question::Heartbeat { member_id, generation } => {
            let member = MemberRef { group_id: &group_id, generation, member_id: &member_id, instance_id };
            // Later it would be of no use.
            Answer::Beaten(coordinator.beat(&member, options.session_timeout).await?)
        }
    })
}

fn milliseconds(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis()).unwrap_or(i32::MAX)
}

/// What kind of group it is.
const PROTOCOL_TYPE: &str = "consumer";

/// What the way there and back, and a busy coordinator, may take; as in Java's client.
const PATIENCE_MORE: Duration = Duration::from_secs(5);

/// As Kafka's own clients have it (`retry.backoff.ms`, `retry.backoff.max.ms`).
const RETRY: RetryPolicy = RetryPolicy {
    attempts: u32::MAX,
    mode: crate::retry::RetryMode::Exponential,
    delay: Duration::from_millis(100),
    max_delay: Duration::from_secs(1),
    try_timeout: Duration::from_secs(30),
    jitter: 0.2,
    seed: 0,
};

/// A broker that is started again is there before anybody hears of it.
const TROUBLE_AFTER: u32 = 5;

/// For how long a member does nothing that has failed.
const A_WHILE: Duration = Duration::from_secs(3_600);
