//! Hubs of a namespace that exists: their numbers of partitions are facts, whatever the scenario has for other targets.

use settings::{Document, SettingsError};

use super::{Entities, Entity, Hub, Parameters, Target};

/// A hub as it was found in a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundHub {
    /// Where it is.
    pub target: Target,
    /// Its name.
    pub name: String,
    /// How many partitions it has.
    pub partitions: u32,
}

/// Gives the hubs of a case the partitions that they were found to have. `is_wanted` says whether the case itself asks for
/// a number, by its sweep or by `--set`; such a case can't be run with another one.
pub(super) fn adopt(
    parameters: &mut Parameters,
    found: &[FoundHub],
    document: &Document,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<(), SettingsError> {
    let target = parameters.target.clone();
    for (path, hub) in hubs(&mut parameters.entities) {
        let Some(found) = found.iter().find(|found| found.target == target && found.name == hub.name) else {
            continue;
        };
        if found.partitions != hub.partitions && is_wanted(&path) {
            let reason = format!(
                "the hub {} of the target has {} partitions, not {}",
                hub.name, found.partitions, hub.partitions
            );
            let advice =
                "choose a hub with this number, or leave the number out: then it is that of the target";
            return Err(document.mistake(&path, reason, advice));
        }
        hub.partitions = found.partitions;
    }
    Ok(())
}

/// The hubs of a case, each with the path of its number of partitions.
pub(super) fn hubs(entities: &mut Entities) -> Vec<(String, &mut Hub)> {
    match entities {
        Entities::Hubs(hubs) => vec![
            ("hubs.source.partitions".to_owned(), &mut hubs.source),
            ("hubs.destination.partitions".to_owned(), &mut hubs.destination),
        ],
        Entities::Queues(_) => Vec::new(),
        Entities::Topology(topology) => {
            let entities = topology.entities.iter_mut();
            let hubs = entities.filter_map(|(name, entity)| match &mut entity.0 {
                Entity::Hub(hub) => Some((format!("topology.entities.{name}.partitions"), hub)),
                Entity::Queue(_) | Entity::Topic(_) | Entity::Container(_) => None,
            });
            hubs.collect()
        }
    }
}
