//! Rules of consumers that forward nothing: what shows that they have done an event, and where that can be seen.

use settings::SettingsError;

use super::Rules;
use crate::scenario::{Done, Entities, Entity, LoadMode, Parameters, Target};

impl Rules<'_> {
    /// Whether `done` and a pipeline without a destination come together. Entities and roles are checked afterwards.
    pub(super) fn consumer(&self, parameters: &Parameters) -> Result<(), SettingsError> {
        let mistake =
            |path: &str, reason: &str, advice: &str| Err(self.document.mistake(path, reason, advice));
        let topology = parameters.topology();
        let forwards = topology.pipeline.as_ref().map(|pipeline| !pipeline.to.is_empty());
        let Some(done) = parameters.sut.done else {
            return match forwards {
                Some(false) => mistake(
                    "topology.pipeline.to",
                    "the pipeline sends to nothing",
                    "such as `to: out`; of a consumer that forwards nothing, say what shows that it has done an event: \
                     `done: checkpoint`, `settlement` or `line` of the system",
                ),
                Some(true) | None => Ok(()),
            };
        };
        if parameters.sut.is_ours() {
            let reason = "the relay of Parshall forwards what it reads, so that a sink sees it";
            return mistake("sut.done", reason, "add `command`, or leave it out");
        }
        if forwards != Some(false) {
            let reason = "is for a consumer that forwards nothing, and here events go on to a sink";
            let advice = "leave it out, or write a `topology` with `pipeline: {from: in}` and without a sink";
            return mistake("sut.done", reason, advice);
        }
        if parameters.target != Target::Embedded {
            let reason = "what a consumer has done is seen in the embedded service only";
            return mistake("sut.done", reason, "choose `target: embedded`");
        }
        if let Entities::Topology(section) = &parameters.entities
            && (section.sink.is_some() || section.sinks.is_some())
        {
            let path = if section.sink.is_some() { "topology.sink" } else { "topology.sinks" };
            let reason = "nothing arrives there: the pipeline has no destination";
            return mistake(path, reason, "leave it out, or add `topology.pipeline.to`");
        }
        let read =
            topology.pipeline.as_ref().and_then(|pipeline| topology.entities.get(&pipeline.from.entity));
        match (done, read.map(Entity::is_log)) {
            (Done::Settlement, Some(true)) => {
                let reason = "events of a hub are not settled";
                mistake("sut.done", reason, "choose `checkpoint` or `line`")
            }
            (Done::Checkpoint | Done::Line, Some(false)) => {
                let reason = "there are no positions in a queue, up to which everything is done";
                mistake("sut.done", reason, "choose `settlement`")
            }
            (Done::Settlement, _) if parameters.load.mode == LoadMode::Capacity => {
                let reason = "a search for a capacity needs latencies, and settlements have none";
                mistake("load.mode", reason, "choose another mode")
            }
            (Done::Settlement, _) if parameters.load.latency_at.is_some() => {
                mistake("load.latency_at", "settlements have no latencies", "leave it out")
            }
            _ => Ok(()),
        }
    }
}
