//! Defects on purpose: each must be found, or the invariants are not worth their name.

use std::str::FromStr;

/// One thing that is broken around a relay that is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    /// The store answers before it applies, and now and then does not apply.
    StoreAnswersEarly,
    /// The store applies a write that it had put aside after a later one.
    StoreReordersWrites,
    /// The store lets the owner of yesterday write.
    StoreIgnoresFences,
    /// The destination hub acknowledges before it stores.
    SinkAnswersEarly,
    /// The destination hub acknowledges what it then forgets in a crash.
    SinkForgets,
    /// The sink sends the events of a group back to front.
    SinkReorders,
    /// The sink sends an event to the wrong destination.
    SinkMisroutes,
    /// The sink flips a bit.
    SinkDamages,
    /// The place of dead letters acknowledges what it drops.
    DeadLettersDropped,
    /// The archive says that it has stored what it has not.
    ArchiveForgets,
    /// The source leaves out an event when it opens a partition again.
    SourceSkips,
    /// The source hands an event over again that it has handed over.
    SourceRepeats,
    /// The source hub delivers what it may forget in a crash.
    SourceServesUncommitted,
    /// The source does not wake its relay.
    SourceForgetsToWake,
    /// The checkpoint is one event beyond the watermark.
    CheckpointBeyond,
    /// The checkpoint is that of the newest event acknowledged, whatever is missing before it.
    CheckpointPassesGaps,
    /// The checkpoint is written before the events are sent on.
    CheckpointEarly,
}

impl Defect {
    /// All of them.
    pub const ALL: [Self; 17] = [
        Self::StoreAnswersEarly,
        Self::StoreReordersWrites,
        Self::StoreIgnoresFences,
        Self::SinkAnswersEarly,
        Self::SinkForgets,
        Self::SinkReorders,
        Self::SinkMisroutes,
        Self::SinkDamages,
        Self::DeadLettersDropped,
        Self::ArchiveForgets,
        Self::SourceSkips,
        Self::SourceRepeats,
        Self::SourceServesUncommitted,
        Self::SourceForgetsToWake,
        Self::CheckpointBeyond,
        Self::CheckpointPassesGaps,
        Self::CheckpointEarly,
    ];
}

impl FromStr for Defect {
    type Err = String;

    /// Takes the name of a variant.
    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|defect| format!("{defect:?}") == text);
        found.ok_or_else(|| format!("no such defect; there are {:?}", Self::ALL))
    }
}
