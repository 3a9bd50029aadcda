//! A session: numbering and windows (specification sections 2.5.6 and 2.6).

use super::unsettled::Unsettled;
use crate::performative::{Begin, DeliveryState, Disposition, Error, Flow, Role};

/// One end of a session.
#[derive(Debug)]
pub(super) struct Session {
    /// Our channel.
    pub(super) channel: u16,
    /// The peer's channel, once its begin has come.
    pub(super) remote_channel: Option<u16>,
    /// Whether our end has been sent, after which whatever else comes is discarded.
    pub(super) end_sent: bool,
    /// Why we ended it.
    pub(super) end_reason: Option<Error>,
    /// Next transfer id that we use.
    next_outgoing_id: u32,
    /// Next delivery id that we use.
    pub(super) next_delivery_id: u32,
    /// Transfers that the peer accepts now.
    pub(super) remote_incoming_window: u32,
    /// Next transfer id that we expect.
    next_incoming_id: u32,
    /// Transfers that we accept before we must replenish.
    incoming_window: u32,
    /// What `incoming_window` is replenished to.
    incoming_window_max: u32,
    /// Highest handle that the peer takes; what is expected of it until its begin has come.
    pub(super) remote_handle_max: u32,
    /// The link of each of our deliveries that awaits an outcome.
    pub(super) unsettled: Unsettled<u32>,
    /// Link index by the peer's handle.
    pub(super) remote_handles: Vec<Option<u32>>,
    /// Link index by our handle.
    pub(super) local_handles: Vec<Option<u32>>,
    /// A run of outcomes that is still growing, of deliveries that we received.
    pub(super) pending_outcomes: Option<Disposition>,
    /// A run of answers to outcomes that is still growing, of deliveries that we sent.
    pub(super) pending_answers: Option<Disposition>,
    /// A message of which the window has let only a part through.
    pub(super) waiting: Option<WaitingMessage>,
    /// Whether a flow is owed.
    pub(super) flow_due: bool,
    /// Whether the peer has asked for a flow. Flows of links have the same state, but need not count as an answer.
    pub(super) echo_due: bool,
    /// Whether the session is in the list of those with something to say.
    pub(super) dirty: bool,
}

/// The rest of a message that waits for the session window.
#[derive(Debug)]
pub(super) struct WaitingMessage {
    pub(super) link: u32,
    pub(super) handle: u32,
    pub(super) id: u32,
    pub(super) settled: bool,
    pub(super) aborted: bool,
    pub(super) bytes: Vec<u8>,
    pub(super) position: usize,
}

impl Session {
    pub(super) fn new(channel: u16, incoming_window: u32) -> Self {
        Self {
            channel,
            remote_channel: None,
            end_sent: false,
            end_reason: None,
            next_outgoing_id: 1,
            next_delivery_id: 0,
            remote_incoming_window: 0,
            next_incoming_id: 0,
            incoming_window,
            incoming_window_max: incoming_window,
            remote_handle_max: u32::MAX,
            unsettled: Unsettled::default(),
            remote_handles: Vec::new(),
            local_handles: Vec::new(),
            pending_outcomes: None,
            pending_answers: None,
            waiting: None,
            flow_due: false,
            echo_due: false,
            dirty: false,
        }
    }

    /// Returns the lowest handle of ours without a link.
    pub(super) fn free_handle(&self) -> usize {
        let free = self.local_handles.iter().position(Option::is_none);
        free.unwrap_or(self.local_handles.len())
    }

    /// Our begin.
    pub(super) fn begin(&self, handle_max: u32) -> Begin {
        Begin {
            remote_channel: self.remote_channel,
            next_outgoing_id: self.next_outgoing_id,
            incoming_window: self.incoming_window,
            outgoing_window: u32::MAX >> 1,
            handle_max,
        }
    }

    /// The peer's begin.
    pub(super) fn on_begin(&mut self, remote_channel: u16, begin: &Begin) {
        self.remote_channel = Some(remote_channel);
        self.next_incoming_id = begin.next_outgoing_id;
        self.remote_incoming_window = begin.incoming_window;
        self.remote_handle_max = begin.handle_max;
    }

    /// The session part of a flow from the peer. Says whether a closed window opened.
    pub(super) fn on_flow(&mut self, flow: &Flow) -> bool {
        let was_closed = self.remote_incoming_window == 0;
        // Before the peer has seen our begin, it counts from the id that begin announced.
        let expected = flow.next_incoming_id.unwrap_or(1);
        let in_flight = self.next_outgoing_id.wrapping_sub(expected);
        // A window that the peer shrank below what is in flight is closed, not negative.
        self.remote_incoming_window = flow.incoming_window.saturating_sub(in_flight);
        self.next_incoming_id = flow.next_outgoing_id;
        was_closed && self.remote_incoming_window > 0
    }

    /// Transfers that may still come.
    #[inline]
    pub(super) const fn incoming_window(&self) -> u32 {
        self.incoming_window
    }

    /// Counts transfers that came in. `Err` where the window did not allow them.
    #[inline]
    pub(super) fn on_transfers(&mut self, count: u32) -> Result<(), ()> {
        self.next_incoming_id = self.next_incoming_id.wrapping_add(count);
        self.incoming_window = self.incoming_window.checked_sub(count).ok_or(())?;
        // At half and not below it, or a window of one would never be replenished.
        if self.incoming_window <= self.incoming_window_max / 2 {
            self.flow_due = true;
        }
        Ok(())
    }

    /// Counts transfers that go out.
    #[inline]
    pub(super) fn count_outgoing(&mut self, transfers: u32) {
        self.next_outgoing_id = self.next_outgoing_id.wrapping_add(transfers);
        self.remote_incoming_window = self.remote_incoming_window.saturating_sub(transfers);
    }

    /// Takes back transfers that were counted but called off before they left.
    pub(super) fn uncount_outgoing(&mut self, transfers: u32) {
        self.next_outgoing_id = self.next_outgoing_id.wrapping_sub(transfers);
        self.remote_incoming_window += transfers;
    }

    /// A flow with the session's state, which also replenishes our window.
    pub(super) fn flow(&mut self) -> Flow {
        self.incoming_window = self.incoming_window_max;
        self.flow_due = false;
        Flow {
            next_incoming_id: self.remote_channel.map(|_| self.next_incoming_id),
            incoming_window: self.incoming_window,
            next_outgoing_id: self.next_outgoing_id,
            outgoing_window: u32::MAX >> 1,
            ..Flow::default()
        }
    }

    /// Settles those of our deliveries from `first` to `last` that await an outcome, and reports them as runs of
    /// consecutive ids: at most `runs_max` of them, of which the last one then has gaps.
    pub(super) fn take_runs(
        &mut self,
        first: u32,
        last: u32,
        runs_max: usize,
        mut run: impl FnMut(u32, u32),
    ) {
        let mut runs = Runs::new(runs_max);
        self.unsettled.take(first, last, |id, _link| runs.add(id, &mut run));
        runs.finish(run);
    }

    /// Reports the outcome of deliveries that stay unsettled.
    #[cold]
    pub(super) fn look_at_runs(&self, first: u32, last: u32, runs_max: usize, mut run: impl FnMut(u32, u32)) {
        let mut runs = Runs::new(runs_max);
        self.unsettled.look_at(first, last, |id, _link| runs.add(id, &mut run));
        runs.finish(run);
    }

    /// Adds an outcome to the run of its role that is growing. Returns the run that it does not extend, to be written
    /// now.
    #[inline]
    pub(super) fn dispose(
        &mut self,
        role: Role,
        first: u32,
        last: u32,
        state: DeliveryState,
        settled: bool,
    ) -> Option<Disposition> {
        let pending = match role {
            Role::Receiver => &mut self.pending_outcomes,
            Role::Sender => &mut self.pending_answers,
        };
        if let Some(pending) = pending
            && first == pending.last.wrapping_add(1)
            && settled == pending.settled
            && pending.state.as_ref() == Some(&state)
        {
            pending.last = last;
            return None;
        }
        pending.replace(Disposition { role, first, last, settled, state: Some(state) })
    }
}

/// Groups ascending delivery ids into runs of consecutive ones.
struct Runs {
    growing: Option<(u32, u32)>,
    /// Number of runs, the growing one included.
    count: usize,
    /// Maximum number of runs. Beyond it, the last one has gaps.
    most: usize,
}

impl Runs {
    const fn new(most: usize) -> Self {
        Self { growing: None, count: 1, most }
    }

    /// Adds an id above all earlier ones. Calls `run` with the run that it completes, if any.
    #[inline]
    fn add(&mut self, id: u32, run: &mut impl FnMut(u32, u32)) {
        match &mut self.growing {
            Some((_, last)) if last.wrapping_add(1) == id || self.count == self.most => *last = id,
            other => {
                if let Some((first, last)) = other.replace((id, id)) {
                    self.count += 1;
                    run(first, last);
                }
            }
        }
    }

    fn finish(self, mut run: impl FnMut(u32, u32)) {
        if let Some((first, last)) = self.growing {
            run(first, last);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone, Copy)]
    enum Step {
        Send,
        TransferArrives,
        Announce,
        FlowArrives,
    }

    proptest! {
        /// However flows and transfers overtake each other's answers, the sender never sends more than the receiver
        /// takes, nor does it stop for good. Ids start anywhere, so they wrap around.
        #[test]
        fn a_window_is_never_exceeded_and_always_opens_again(
            window in 1u32..10,
            start in prop_oneof![Just(1u32), (u32::MAX - 20)..=u32::MAX],
            steps in proptest::collection::vec(
                prop_oneof![
                    4 => Just(Step::Send),
                    3 => Just(Step::TransferArrives),
                    1 => Just(Step::Announce),
                    3 => Just(Step::FlowArrives),
                ],
                0..300,
            ),
        ) {
            let (mut sender, mut receiver) = (Session::new(0, 100), Session::new(0, window));
            sender.next_outgoing_id = start;
            receiver.on_begin(0, &sender.begin(0));
            sender.on_begin(0, &receiver.begin(0));
            let (mut transfers, mut flows) = (0u32, VecDeque::new());
            let settle_down = [Step::TransferArrives, Step::FlowArrives].repeat(400);
            for step in steps.into_iter().chain(settle_down) {
                match step {
                    Step::Send if sender.remote_incoming_window > 0 => {
                        sender.count_outgoing(1);
                        transfers += 1;
                    }
                    Step::TransferArrives if transfers > 0 => {
                        transfers -= 1;
                        prop_assert!(receiver.on_transfers(1).is_ok());
                        if receiver.flow_due {
                            flows.push_back(receiver.flow());
                        }
                    }
                    Step::Announce => flows.push_back(receiver.flow()),
                    Step::FlowArrives => {
                        if let Some(flow) = flows.pop_front() {
                            sender.on_flow(&flow);
                        }
                    }
                    _ => {}
                }
                prop_assert!(transfers + sender.remote_incoming_window <= window);
            }
            prop_assert!(sender.remote_incoming_window > 0, "when all has arrived the window is open");
            prop_assert_eq!(sender.next_outgoing_id, receiver.next_incoming_id);
        }
    }
}
