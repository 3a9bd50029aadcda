//! What the lab noticed: why a case failed, what limited it, what a reader has to know.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// One remark about a case, with its cause and, where there is one, what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Finding {
    /// What it means for the verdict.
    pub severity: Severity,
    /// The class of the finding, for programs.
    pub kind: FindingKind,
    /// One sentence with the figures, for people.
    pub message: String,
    /// What the reader can do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The trial it belongs to, counted from 1; absent if it concerns the whole case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub trial: Option<u32>,
}

/// The weight of a finding, from the heaviest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The case failed: what was measured did not do its work.
    Failure,
    /// The figures must not be used: the lab itself did not do its work.
    Invalid,
    /// The figures stand; something about them needs to be known.
    Warning,
    /// An explanation of the figures, such as what limited them.
    Note,
}

/// The classes of findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FindingKind {
    /// Acknowledged events never arrived.
    EventsLost,
    /// The source's retention took events before the relay read them.
    EventsMissed,
    /// Events arrived with other content than they were sent with.
    EventsCorrupted,
    /// Events arrived without the field that says which they are.
    EventsUnidentified,
    /// Events arrived that were never sent.
    EventsUnexpected,
    /// Events of another run arrived.
    EventsForeign,
    /// Events arrived at another partition than they were to go to.
    EventsMisplaced,
    /// Events arrived at fewer partitions than they could have.
    FewPartitions,
    /// Events of a stream arrived out of order.
    EventsReordered,
    /// Events arrived more than once.
    EventsDuplicated,
    /// Messages are in the dead-letter queue of the source.
    EventsDeadLettered,
    /// Sends were never acknowledged.
    OutcomeUnknown,
    /// A process of the run ended or could not do its work.
    RoleFailed,
    /// The generator did not keep to its schedule, or used all of its CPU.
    GeneratorOverloaded,
    /// The generator waited for answers of the service.
    LoadHeldBack,
    /// The sink did not keep up.
    SinkOverloaded,
    /// The service's counters and the clients' differ.
    CountersDisagree,
    /// Latencies below zero: clocks disagree.
    NegativeLatency,
    /// How far the clock of a role on another machine is off, and how well that is known.
    ClockOffset,
    /// Clocks of two machines are known less well than the latency between them.
    ClockUncertain,
    /// The service throttled: a quota limits the figures.
    LimitedByQuota,
    /// The measured client was at its CPU or memory limit.
    LimitedByClient,
    /// Less was offered than could have been carried.
    LimitedByGenerator,
    /// The number of workers over their latency bounds the rate (Little's law).
    LimitedByConcurrency,
    /// More or less waited at the end of the measured phase than at its beginning.
    NotSteady,
    /// Latencies that count from the send leave out what those that count from the intended instant show.
    CoordinatedOmission,
    /// A setting of a client makes latencies longer or shorter.
    SettingMatters,
    /// What a study recommends, by the figures of the run.
    Recommendation,
    /// Calls with a connection of their own spend most of their time before their event leaves.
    SetUpDominates,
    /// A setting of a client changes no latency by more than chance does.
    SettingWithoutEffect,
    /// The longest latencies are those of the first second.
    FirstSecond,
    /// Latencies are longer the more rarely something is sent.
    SleepingCores,
    /// Published figures differ by less than they differ from themselves.
    PublishedNoise,
    /// How near figures come to published ones where the service is shaped after these.
    PublishedTwin,
    /// The rate is what the stopwatches of a pipeline expect, or is not.
    RateExplained,
    /// How many events are worked on at once, by the times of each and the rate.
    ConcurrencyInferred,
    /// So many connections are made that the ports of a client on another machine would not last.
    ClientPorts,
    /// Each send takes as much memory as the largest message that the service takes.
    BufferPerSend,
    /// CPU was left over though there was more to be carried.
    LowUtilisation,
    /// Batches were far from full.
    SmallBatches,
    /// The slowest sends took far longer than most.
    SendTail,
    /// Sends failed.
    SendErrors,
    /// Batches failed and their partitions stood still for a while.
    ProcessingErrors,
    /// Checkpoints take so long that claims may not be renewed in time.
    SlowCheckpoints,
    /// Checkpoints could not be written.
    CheckpointErrors,
    /// Events arrived more than once because partitions changed hands.
    DuplicatesAfterLoss,
    /// An instance of the relay ended on purpose, and was started again.
    RelayRestarted,
    /// The measured role came close to its memory limit.
    MemoryNearLimit,
    /// Something that is not of the run used the machine as well.
    MachineShared,
    /// A limit was asked for and could not be put in force as asked.
    LimitNotEnforced,
    /// The trial or the run was interrupted.
    Interrupted,
    /// The machine can't run the case.
    CaseSkipped,
    /// Anything else.
    Other,
}

/// Any word, since readers of results meet classes of later builds.
impl JsonSchema for FindingKind {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "FindingKind".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": "^[a-z]+(-[a-z]+)*$"})
    }
}

impl Finding {
    /// A finding without a hint, about the whole case.
    #[must_use]
    pub fn new(severity: Severity, kind: FindingKind, message: impl Into<String>) -> Self {
        Self { severity, kind, message: message.into(), hint: None, trial: None }
    }

    /// The finding with what the reader can do about it.
    #[must_use]
    pub fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

impl Severity {
    /// The name that users read and that `results.json` uses.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Failure => "failure",
            Self::Invalid => "invalid",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_keeps_the_name_under_which_it_is_documented() {
        let document = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/findings.md"));
        let kinds = [
            FindingKind::EventsLost,
            FindingKind::EventsMissed,
            FindingKind::EventsCorrupted,
            FindingKind::EventsUnidentified,
            FindingKind::EventsUnexpected,
            FindingKind::EventsForeign,
            FindingKind::EventsMisplaced,
            FindingKind::FewPartitions,
            FindingKind::EventsDuplicated,
            FindingKind::EventsReordered,
            FindingKind::EventsDeadLettered,
            FindingKind::CoordinatedOmission,
            FindingKind::SettingMatters,
            FindingKind::Recommendation,
            FindingKind::SetUpDominates,
            FindingKind::SettingWithoutEffect,
            FindingKind::FirstSecond,
            FindingKind::SleepingCores,
            FindingKind::PublishedNoise,
            FindingKind::PublishedTwin,
            FindingKind::RateExplained,
            FindingKind::ConcurrencyInferred,
            FindingKind::ClientPorts,
            FindingKind::BufferPerSend,
            FindingKind::OutcomeUnknown,
            FindingKind::RoleFailed,
            FindingKind::GeneratorOverloaded,
            FindingKind::LoadHeldBack,
            FindingKind::SinkOverloaded,
            FindingKind::CountersDisagree,
            FindingKind::NegativeLatency,
            FindingKind::ClockOffset,
            FindingKind::ClockUncertain,
            FindingKind::LimitedByQuota,
            FindingKind::LimitedByClient,
            FindingKind::LimitedByGenerator,
            FindingKind::LimitedByConcurrency,
            FindingKind::NotSteady,
            FindingKind::LowUtilisation,
            FindingKind::SmallBatches,
            FindingKind::SendTail,
            FindingKind::SendErrors,
            FindingKind::ProcessingErrors,
            FindingKind::SlowCheckpoints,
            FindingKind::CheckpointErrors,
            FindingKind::DuplicatesAfterLoss,
            FindingKind::RelayRestarted,
            FindingKind::MemoryNearLimit,
            FindingKind::MachineShared,
            FindingKind::LimitNotEnforced,
            FindingKind::Interrupted,
            FindingKind::CaseSkipped,
            FindingKind::Other,
        ];
        for kind in kinds {
            let name = serde_json::to_value(kind).expect("a plain name");
            let name = format!("`{}`", name.as_str().expect("a text"));
            assert!(document.contains(&name), "{name}");
        }
    }
}
