//! One point of a sweep, ready to run.

use serde::Deserialize as _;
use serde_json::{Map, Value};

use super::{Entity, KafkaProperties, LoadMode, Parameters, Published, Target};

/// One set of parameters with the name that it has in tables, in `--only` and in results.
#[derive(Clone, Debug)]
pub struct Case {
    /// `fan_out=32`: the name of each axis and its value, joined by commas. A scenario without sweeps has one case,
    /// named as the scenario.
    pub name: String,
    /// The name of the sweep that the case belongs to; cases of one sweep make one table.
    pub sweep: Option<String>,
    /// What the sweep sets for this case: dotted path and value as written, in the order of the file.
    pub axes: Vec<Axis>,
    /// Everything that the case is run with.
    pub parameters: Parameters,
    /// What others measured with these parameters, if the scenario says so.
    pub published: Option<Published>,
}

/// One swept path with the value that it has in a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    /// What names show for it, such as `fan_out`: the last element of the path, unless the sweep says otherwise.
    pub name: String,
    /// The dotted path, such as `relay.fan_out`.
    pub path: String,
    /// The value as written, with single spaces: `32`, `1 KiB`.
    pub value: String,
}

impl Case {
    /// The parameters as JSON in the shape of the scenario file, for `params` in the results. What only hubs have is
    /// not among those of queues, and a connection string never: another namespace than the embedded one is only called
    /// `namespace`, and a cluster `kafka`.
    #[must_use]
    pub fn params(&self) -> Map<String, Value> {
        let value = serde_json::to_value(&self.parameters)
            .expect("parameters have text keys and finite numbers, so they are always JSON");
        let Value::Object(mut params) = value else { unreachable!("a struct serialises as an object") };
        // What is in the environment of a command may be a secret, too.
        let env = params.get_mut("sut").and_then(|sut| sut.get_mut("env"));
        for value in env.and_then(Value::as_object_mut).into_iter().flatten() {
            *value.1 = Value::from("***");
        }
        // Nor are passwords among the properties of an end.
        let topology = params.get_mut("topology").and_then(Value::as_object_mut);
        topology.into_iter().flatten().for_each(|(_, section)| mask_properties(section));
        // How a role is started names hosts, users and keys; by what program, is enough to know.
        for role in params.get_mut("roles").and_then(Value::as_object_mut).into_iter().flatten() {
            let launch = role.1.get_mut("launch").and_then(Value::as_array_mut);
            launch.into_iter().for_each(|launch| launch.truncate(1));
        }
        // What nothing looks at need not be compared or changed.
        let topology = self.parameters.topology();
        match (topology.of_pipeline(), params.get_mut("relay")) {
            (None, _) => drop(params.remove("relay")),
            (Some(source), Some(Value::Object(relay))) => {
                let has_partitions = topology.destinations().any(Entity::is_log);
                relay.retain(|key, _| {
                    let key = key.as_str();
                    (source.is_log() || !ONLY_FROM_LOGS.contains(&key))
                        && (has_partitions || !ONLY_TO_LOGS.contains(&key))
                });
            }
            (Some(_), _) => {}
        }
        match &self.parameters.target {
            Target::Embedded => {}
            Target::Namespace(_) => drop(params.insert("target".to_owned(), Value::from("namespace"))),
            Target::Kafka(_) => drop(params.insert("target".to_owned(), Value::from("kafka"))),
            Target::Command(service) => {
                let command = service.command.join(" ");
                drop(params.insert("target".to_owned(), Value::from(format!("command: {command}"))));
            }
        }
        params
    }

    /// Why the case can't be run on a machine of so many cores: a role of it is to have more, or there is no way to
    /// know when it is done. `None` if it can.
    #[must_use]
    pub fn obstacle(&self, cores: u32) -> Option<String> {
        let sut = &self.parameters.sut;
        if !sut.is_ours() && self.parameters.load.mode == LoadMode::Backlog {
            let name = &sut.name;
            return Some(format!(
                "{name} is a command, and nothing signals when it has drained a backlog; use another mode"
            ));
        }
        let limits = &self.parameters.limits;
        let roles =
            [("hub", &limits.hub), ("load", &limits.load), ("relay", &limits.relay), ("sink", &limits.sink)];
        roles.into_iter().find_map(|(role, limits)| {
            let wanted = limits.cores.filter(|wanted| *wanted > f64::from(cores))?;
            let there_are = match cores {
                1 => "1 core".to_owned(),
                cores => format!("{cores} cores"),
            };
            Some(format!("the {role} needs {wanted} cores and this machine has {there_are}"))
        })
    }
}

/// Hides the secrets among the properties of Kafka's clients in a part of a topology: an end, a list of them, or the pipeline,
/// which has both.
fn mask_properties(section: &mut Value) {
    if let Value::Array(ends) = section {
        return ends.iter_mut().for_each(mask_properties);
    }
    for key in ["from", "to"] {
        section.get_mut(key).into_iter().for_each(mask_properties);
    }
    // How a client is started is nobody's matter; what it is called, is.
    if let Some(client) = section.get_mut("client")
        && let Some(name) = client.get_mut("name").map(Value::take)
    {
        *client = name;
    }
    let Some(properties) = section.get_mut("properties") else {
        return;
    };
    if let Ok(written) = KafkaProperties::deserialize(&*properties) {
        *properties = serde_json::to_value(written.masked()).unwrap_or_default();
    }
}

/// Keys of the section `relay` that mean nothing to a relay that settles messages.
const ONLY_FROM_LOGS: [&str; 6] =
    ["batch", "checkpoint", "checkpoint_store", "ownership", "in_flight", "restart_after"];

/// Keys that mean nothing where every destination is one place.
const ONLY_TO_LOGS: [&str; 2] = ["route", "fan_out"];
