//! A member that ends in mid-run on purpose, and the one that comes in its place. What the first had counted stays with it; the second
//! is a member of its own, which begins to count at nothing.

use std::time::Duration;

use super::{EXIT_PATIENCE, Heard, Member, Running, Supervisor};
use crate::clock::RunTime;
use crate::results::Role;
use crate::roles::protocol::{Edge, Report};

impl Supervisor {
    /// Kills a member, which fails nothing.
    pub(in crate::run) async fn kill(&mut self, member: Member) {
        let Some(running) = self.members.get_mut(&member) else { return };
        running.was_killed = true;
        if let Some(control) = running.control.take() {
            control.end(Duration::ZERO).await;
        }
        // Only now: one whose input ends takes leave.
        running.input = None;
    }

    /// Lets a member exit that has finished.
    pub(in crate::run) async fn let_go(&mut self, member: Member) {
        let Some(running) = self.members.get_mut(&member) else { return };
        running.input = None;
        if let Some(control) = running.control.take() {
            control.end(EXIT_PATIENCE).await;
        }
    }

    /// Whether members of a role were killed on purpose, so that nobody knows what they counted at last.
    pub(in crate::run) fn has_killed(&self, role: Role) -> bool {
        self.of(role).any(|(_, running)| running.was_killed)
    }

    /// Gives every member of a role counters at both edges of the measured phase: those that came later had counted nothing when it
    /// began, and those that had ended by then count no more when it ends.
    pub(in crate::run) fn complete_marks(&mut self, role: Role) {
        let marked = |edge: Edge| {
            let marks = self.of(role).filter_map(move |(_, running)| running.marks.get(&edge));
            marks.map(|counted| counted.at).collect::<Vec<RunTime>>()
        };
        let (began, ended) = (marked(Edge::Begin).into_iter().min(), marked(Edge::End).into_iter().max());
        let (Some(began), Some(ended)) = (began, ended) else { return };
        let of_role = self.members.iter_mut().filter(|(member, _)| member.role == role);
        for (_, running) in of_role {
            if let Some(counted) = running.marks.get_mut(&Edge::Begin) {
                counted.at = began;
            }
            if running.has_ended()
                && let Some(latest) = &running.latest
            {
                let mut counted = latest.clone();
                counted.at = ended;
                running.marks.insert(Edge::End, counted);
            }
        }
    }
}

impl Running {
    /// What one that was killed had said before.
    pub(super) fn hear_last(&mut self, heard: Heard) {
        if let Heard::Report(report, _) = heard
            && let Report::Progress(counted) = *report
        {
            self.latest = Some(counted);
        }
    }
}
