//! The scenario file: its name, its sections, and the way from them to cases.

use std::path::Path;

use serde::Deserialize;
use serde::de::IgnoredAny;
use settings::{Document, Entry, Node, SettingsError};
use thiserror::Error;

use super::found;
use super::glob::Glob;
use super::sweep::{self, Point, Step, Sweep};
use super::{
    Axis, Case, Embedded, Entities, FoundHub, Hub, Hubs, Limits, Load, Parameters, Phases, Prices, Protocol,
    Published, Queues, Relay, Roles, Sink, SystemUnderTest, Target, TopologySection, client, system, target,
    validate,
};
use crate::record::LatencyRecording;

/// A scenario that was read and whose head is known to be right. Its parameters are checked for each case.
#[derive(Clone, Debug)]
pub struct Scenario {
    name: String,
    description: String,
    text: String,
    document: Document,
    quick: Option<Node>,
    /// The section `suts`.
    systems: Option<Node>,
    /// The section `targets`.
    targets: Option<Node>,
    /// The section `clients`.
    clients: Option<Node>,
    sweeps: Vec<Sweep>,
    published: Vec<Published>,
    prices: Option<Prices>,
}

/// A kind of target by its name, to be chosen without knowing its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetName {
    /// The embedded service.
    Embedded,
    /// The namespace that the file names or, where it names none, that of the connection string in the environment
    /// variable `EVENT_HUBS_CONNECTION_STRING`, or for queues `SERVICE_BUS_CONNECTION_STRING`; where only that is set,
    /// `…_FULLY_QUALIFIED_NAMESPACE`.
    Namespace,
}

/// Whether ranges and relations of parameters are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Checks {
    All,
    None,
}

/// How the cases of a scenario are chosen and changed for one run.
#[derive(Clone, Debug, Default)]
pub struct CaseOptions {
    /// The target, whatever the file says.
    pub target: Option<TargetName>,
    /// Lay the section `quick` over the parameters.
    pub quick: bool,
    /// The sweeps whose cases are wanted, by name; `all` stands for every one. Without any it is the first of the file.
    pub sweeps: Vec<String>,
    /// Only the cases whose name matches this pattern of `*` and `?`. If no sweep is named and the first one has no
    /// such case, those of the others are meant.
    pub only: Option<String>,
    /// Arguments of the form `path=value`, applied in order.
    pub set: Vec<String>,
    /// The number of trials, whatever the file says.
    pub trials: Option<u32>,
    /// What is known of hubs that exist.
    pub found: Vec<FoundHub>,
}

/// Why a scenario cannot be run.
#[derive(Debug, Error)]
pub enum ScenarioError {
    /// A mistake in the file or in a `--set` argument.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// Neither the name of a scenario of our own nor a file.
    #[error("there is no scenario `{name}`; there are: {}", known.join(", "))]
    UnknownScenario {
        /// What was asked for.
        name: String,
        /// The names that there are.
        known: Vec<&'static str>,
        /// The name that was probably meant.
        meant: Option<&'static str>,
    },
    /// No sweep has that name.
    #[error("`{scenario}` has no sweep `{name}`; {}", sweeps_there_are(known))]
    NoSuchSweep {
        /// The scenario.
        scenario: String,
        /// What was asked for.
        name: String,
        /// The names of its sweeps.
        known: Vec<String>,
        /// The name that was probably meant.
        meant: Option<String>,
    },
    /// The pattern of `--only` fits no case.
    #[error("no case of `{scenario}` matches `{only}`; its cases are: {}", cases.join(", "))]
    NoSuchCase {
        /// The scenario.
        scenario: String,
        /// The pattern.
        only: String,
        /// The names of its cases.
        cases: Vec<String>,
    },
}

impl Scenario {
    /// The names of the scenarios that are part of this program.
    pub fn names() -> impl Iterator<Item = &'static str> {
        EMBEDDED.iter().map(|(name, _)| *name)
    }

    /// The scenario of that name, or the one in that file. What ends in `.yaml` or `.yml` or contains a `/` is a file.
    ///
    /// # Errors
    /// There is none, or its head, sweeps or published figures are wrong.
    pub fn load(name_or_path: &str) -> Result<Self, ScenarioError> {
        if let Some((name, text)) = EMBEDDED.iter().find(|(name, _)| *name == name_or_path) {
            return Ok(Self::parse(&format!("{name}.yaml"), text)?);
        }
        let path = Path::new(name_or_path);
        let is_yaml = path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml");
        if is_yaml || name_or_path.contains('/') {
            return Ok(Self::from_document(Document::read(path)?)?);
        }
        Err(ScenarioError::UnknownScenario {
            name: name_or_path.to_owned(),
            known: Self::names().collect(),
            meant: settings::nearest(name_or_path, Self::names()),
        })
    }

    /// The scenario that `text` is; messages call the text `file`.
    ///
    /// # Errors
    /// The text is no YAML, or the scenario's head, sweeps or published figures are wrong.
    pub fn parse(file: &str, text: &str) -> Result<Self, SettingsError> {
        Self::from_document(Document::parse(file, text)?)
    }

    /// The scenario's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it shows, in a few lines of prose.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.description
    }

    /// What a core-hour and the like cost, if the file says so.
    #[must_use]
    pub const fn prices(&self) -> Option<&Prices> {
        self.prices.as_ref()
    }

    /// The file as it was read.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The names of its sweeps, each with the names of its cases, in the order of the file.
    #[must_use]
    pub fn sweeps(&self) -> Vec<(&str, Vec<String>)> {
        let names = |sweep| {
            let points = sweep::points(&self.name, std::slice::from_ref(sweep), |_| None);
            points.into_iter().map(|point| point.name).collect()
        };
        let sweeps = self.sweeps.iter();
        sweeps.map(|sweep| (sweep.name.as_str(), names(sweep))).collect()
    }

    /// All cases that `options` ask for, in the order of the file, resolved and checked.
    ///
    /// # Errors
    /// The first mistake in any of them; or no case is left.
    pub fn cases(&self, options: &CaseOptions) -> Result<Vec<Case>, ScenarioError> {
        let cases = self.resolve(options.quick, options, Checks::All)?;
        if !options.quick && self.quick.is_some() {
            // A mistake in `quick` should not wait for the day on which someone is in a hurry.
            self.resolve(true, &CaseOptions { found: Vec::new(), ..options.clone() }, Checks::All)?;
        }
        Ok(cases)
    }

    /// The hubs of the cases that `options` ask for, each with its target. Whether a case fits them, or makes sense at all,
    /// is not asked yet.
    ///
    /// # Errors
    /// The first mistake in any of the cases; or no case is left.
    pub fn hubs(&self, options: &CaseOptions) -> Result<Vec<(Target, Hub)>, ScenarioError> {
        let cases = self.resolve(options.quick, options, Checks::None)?;
        let hubs = cases.into_iter().flat_map(|mut case| {
            let hubs = found::hubs(&mut case.parameters.entities).into_iter();
            let target = case.parameters.target;
            hubs.map(|(_, hub)| (target.clone(), hub.clone())).collect::<Vec<_>>()
        });
        Ok(hubs.collect())
    }

    fn from_document(mut document: Document) -> Result<Self, SettingsError> {
        let head: Head = document.typed()?;
        let text = document.text().to_owned();
        if head.scenario.is_empty()
            || !head.scenario.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        {
            let reason = "the name must consist of letters, digits and `-`, because files are named after it";
            return Err(document.mistake("scenario", reason, "such as `fan-out`"));
        }
        let quick = document.take("quick");
        let sweeps = match document.take("sweeps") {
            Some(node) => sweep::read(&node)?,
            None => Vec::new(),
        };
        let systems = document.take("suts");
        if let Some(systems) = &systems {
            system::check_definitions(systems)?;
        }
        let targets = document.take("targets");
        if let Some(targets) = &targets {
            target::check_definitions(targets)?;
        }
        let clients = document.take("clients");
        if let Some(clients) = &clients {
            client::check_definitions(clients)?;
        }
        let published = document.take("published");
        document.take("prices");
        if let Some(quick) = &quick {
            let misplaced = |entry: &&Entry| NO_PARAMETERS.contains(&entry.key.as_str());
            if let Some(entry) = quick.entries().iter().find(misplaced) {
                let reason = format!("`{}` belongs to the scenario as a whole", entry.key);
                return Err(entry.value.mistake("quick", reason, "move it to the top of the file"));
            }
        }
        let scenario = Self {
            name: head.scenario,
            description: head.description.trim_end().to_owned(),
            text,
            document,
            quick,
            systems,
            targets,
            clients,
            sweeps,
            published: head.published,
            prices: head.prices,
        };
        if let Some(node) = published {
            scenario.check_published(&node)?;
        }
        Ok(scenario)
    }

    /// Published figures belong to cases, or else they would silently stand nowhere.
    fn check_published(&self, node: &Node) -> Result<(), SettingsError> {
        let names: Vec<String> =
            sweep::points(&self.name, &self.sweeps, |_| None).into_iter().map(|point| point.name).collect();
        let entries = node.elements().unwrap_or_default();
        for (index, (node, published)) in entries.iter().zip(&self.published).enumerate() {
            if !names.contains(&published.case) {
                let meant = settings::nearest(&published.case, names.iter().map(String::as_str));
                let advice = match meant {
                    Some(meant) => format!("did you mean `{meant}`? the cases are: {}", names.join(", ")),
                    None => format!("the cases are: {}", names.join(", ")),
                };
                let at = node.value("case").unwrap_or(node);
                return Err(at.mistake(&format!("published[{index}].case"), "there is no such case", advice));
            }
        }
        Ok(())
    }

    fn resolve(
        &self,
        quick: bool,
        options: &CaseOptions,
        checks: Checks,
    ) -> Result<Vec<Case>, ScenarioError> {
        let mut document = self.document.clone();
        if let (true, Some(section)) = (quick, &self.quick) {
            document.overlay(section);
        }
        if let Some(target) = options.target {
            choose_target(&mut document, target)?;
        }
        let unset = document.clone();
        let mut set_paths: Vec<String> = Vec::new();
        for argument in &options.set {
            let path = document.set(argument)?;
            let first = path.split('.').next().unwrap_or_default();
            if NO_PARAMETERS.contains(&first) {
                let advice = "set a parameter, such as `relay.fan_out=64`; to change the values of a sweep, set the \
                              path that it sweeps to a list";
                return Err(document.mistake(&path, "a case has no such parameter", advice).into());
            }
            set_paths.push(path);
        }
        let set = |path: &str| document.value(path).filter(|_| set_paths.iter().any(|set| set == path));
        let mut points = sweep::points(&self.name, &self.sweeps, set);
        for path in &set_paths {
            if let Some(list) = document.value(path).filter(|value| value.elements().is_some())
                && (sweeps(&points, path) || self.refuses_list([&document, &unset], path, list))
            {
                points = sweep::cross(points, path, list)?;
            }
        }
        let cases = self
            .chosen(points, options)?
            .into_iter()
            .map(|point| self.case(&document, &set_paths, point, options, checks));
        Ok(cases.collect::<Result<_, _>>()?)
    }

    /// Whether the type of the parameter at `path` refuses a list, so that its elements are meant. Another mistake may hide
    /// that in one document and not in another.
    fn refuses_list(&self, documents: [&Document; 2], path: &str, list: &Node) -> bool {
        documents.into_iter().any(|document| {
            let mut document = document.clone();
            document.put(path, &list.place, list.clone());
            // A mistake here is found again for each case.
            let resolved = system::resolve(&mut document, self.systems.as_ref());
            let resolved = resolved.and_then(|_| target::resolve(&mut document, self.targets.as_ref()));
            let resolved = resolved.and_then(|()| client::resolve(&mut document, self.clients.as_ref()));
            let _ = document.fill_in_environment();
            let typed = resolved.and_then(|()| document.typed::<File>());
            let mistake = typed.as_ref().err().and_then(SettingsError::mistake);
            mistake.is_some_and(|mistake| mistake.key == path)
        })
    }

    /// The points of the sweeps that are asked for, less those whose name is not.
    fn chosen(&self, points: Vec<Point>, options: &CaseOptions) -> Result<Vec<Point>, ScenarioError> {
        let known = || self.sweeps.iter().map(|sweep| sweep.name.as_str());
        for name in &options.sweeps {
            if name != sweep::ALL && !known().any(|known| known == name) {
                return Err(ScenarioError::NoSuchSweep {
                    scenario: self.name.clone(),
                    name: name.clone(),
                    known: known().map(str::to_owned).collect(),
                    meant: settings::nearest(name, known()).map(str::to_owned),
                });
            }
        }
        let is_chosen = |point: &Point| match &point.sweep {
            None => true,
            Some(sweep) if options.sweeps.is_empty() => known().next() == Some(sweep),
            Some(sweep) => options.sweeps.iter().any(|name| name == sweep || name == sweep::ALL),
        };
        let (chosen, others): (Vec<_>, Vec<_>) = points.into_iter().partition(is_chosen);
        let Some(only) = &options.only else {
            return Ok(chosen);
        };
        let glob = Glob::new(only);
        let is_wanted = |point: &Point| glob.matches(&point.name);
        let (wanted, mut unwanted): (Vec<_>, Vec<_>) = chosen.into_iter().partition(is_wanted);
        if !wanted.is_empty() {
            return Ok(wanted);
        }
        if options.sweeps.is_empty() {
            let (wanted, more): (Vec<_>, Vec<_>) = others.into_iter().partition(is_wanted);
            if !wanted.is_empty() {
                return Ok(wanted);
            }
            unwanted.extend(more);
        }
        Err(ScenarioError::NoSuchCase {
            scenario: self.name.clone(),
            only: only.clone(),
            cases: unwanted.into_iter().map(|point| point.name).collect(),
        })
    }

    fn case(
        &self,
        base: &Document,
        set_paths: &[String],
        point: Point,
        options: &CaseOptions,
        checks: Checks,
    ) -> Result<Case, SettingsError> {
        let mut document = base.clone();
        let is_set = |step: &&Step| set_paths.iter().any(|set| is_within(&step.path, set));
        let settings = point.settings.iter().filter(|step| !is_set(step));
        for step in settings.chain(point.axes.iter().map(|axis| &axis.step)) {
            document.put(&step.path, &step.path_place, step.value.clone());
        }
        let system = system::resolve(&mut document, self.systems.as_ref())?;
        target::resolve(&mut document, self.targets.as_ref())?;
        client::resolve(&mut document, self.clients.as_ref())?;
        document.fill_in_environment()?;
        let mut parameters = document.typed::<File>()?.into_parameters();
        parameters.sut = parameters.sut.named(system);
        if let Some(trials) = options.trials {
            parameters.trials = trials;
        }
        let is_axis = |path: &str| point.axes.iter().any(|axis| axis.step.path == path);
        found::adopt(&mut parameters, &options.found, &document, |path| {
            document.value(path).is_some()
                && (is_axis(path) || set_paths.iter().any(|set| is_within(path, set)))
        })?;
        if checks == Checks::All {
            validate::check(&document, &parameters)?;
        }
        if parameters.leaves_failures_out() {
            if is_axis(FAILURE_RATIO) || set_paths.iter().any(|set| set == FAILURE_RATIO) {
                let reason = "a search for the capacity injects no failures";
                let advice = "to inject them, also set `load.capacity.failures=as-configured`";
                return Err(document.mistake(FAILURE_RATIO, reason, advice));
            }
            parameters.relay.failure_ratio = 0.0;
        }
        let axes = point.axes.into_iter().map(|axis| Axis {
            name: axis.name,
            path: axis.step.path,
            value: axis.text,
        });
        let published = self.published.iter().find(|published| published.case == point.name).cloned();
        Ok(Case { name: point.name, sweep: point.sweep, axes: axes.collect(), parameters, published })
    }
}

/// Whether a path is `section` or leads into it.
fn is_within(path: &str, section: &str) -> bool {
    path.strip_prefix(section).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Whether a sweep of the file goes through values of `path`.
fn sweeps(points: &[Point], path: &str) -> bool {
    points.iter().flat_map(|point| &point.axes).any(|axis| axis.step.path == path)
}

fn choose_target(document: &mut Document, target: TargetName) -> Result<(), SettingsError> {
    let chosen = match target {
        TargetName::Embedded => Document::parse("--target embedded", "embedded")?,
        TargetName::Namespace if document.value("target").is_some_and(|target| !target.is_scalar()) => {
            return Ok(());
        }
        TargetName::Namespace => {
            let entities = document.value("topology.entities");
            let mut entities = entities.into_iter().flat_map(Node::entries);
            let is_of_messages =
                |entity: &Entry| ["queue", "topic"].iter().any(|key| entity.value.value(key).is_some());
            let has_queues = document.value("queues").is_some() || entities.any(is_of_messages);
            let service = match has_queues {
                true => "SERVICE_BUS",
                false => "EVENT_HUBS",
            };
            let variable = format!("{service}_CONNECTION_STRING");
            let by_name = format!("{service}_FULLY_QUALIFIED_NAMESPACE");
            let is_set = |variable: &str| std::env::var_os(variable).is_some();
            let target = match is_set(&by_name) && !is_set(&variable) {
                true => format!("fully_qualified_namespace: ${{{by_name}}}"),
                false => format!("connection_string: ${{{variable}}}"),
            };
            Document::parse("--target namespace", &target)?
        }
    };
    let root = chosen.root();
    document.put("target", &root.place, root.clone());
    Ok(())
}

/// What is read when the file is loaded; all else is read for each case.
#[derive(Deserialize)]
struct Head {
    scenario: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    published: Vec<Published>,
    #[serde(default)]
    prices: Option<Prices>,
}

/// The whole file. Sections that are not parameters are listed so that a message can name them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(rename = "scenario")]
    _scenario: IgnoredAny,
    #[serde(default, rename = "description")]
    _description: IgnoredAny,
    #[serde(default = "Target::embedded")]
    target: Target,
    #[serde(default)]
    embedded: Embedded,
    #[serde(default)]
    hubs: HubsSection,
    #[serde(default)]
    queues: Option<Queues>,
    #[serde(default)]
    topology: Option<TopologySection>,
    #[serde(default)]
    load: Load,
    #[serde(default)]
    relay: Relay,
    #[serde(default)]
    sut: SystemUnderTest,
    #[serde(default)]
    sink: Sink,
    #[serde(default)]
    roles: Roles,
    #[serde(default)]
    limits: Limits,
    #[serde(default)]
    phases: Phases,
    #[serde(default = "one")]
    trials: u32,
    #[serde(default, rename = "quick")]
    _quick: IgnoredAny,
    #[serde(default, rename = "sweeps")]
    _sweeps: IgnoredAny,
    #[serde(default, rename = "published")]
    _published: IgnoredAny,
    #[serde(default, rename = "prices")]
    _prices: IgnoredAny,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct HubsSection {
    source: HubSection,
    destination: HubSection,
    protocol: Protocol,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct HubSection {
    name: Option<String>,
    partitions: Option<u32>,
    consumer_group: Option<String>,
}

impl File {
    fn into_parameters(self) -> Parameters {
        let entities = match (self.topology, self.queues) {
            (Some(topology), _) => Entities::Topology(Box::new(topology)),
            (None, Some(queues)) => Entities::Queues(queues),
            (None, None) => Entities::Hubs(Hubs {
                source: self.hubs.source.or_default("source", DEFAULT_SOURCE_PARTITIONS),
                destination: self.hubs.destination.or_default("destination", self.relay.fan_out),
                protocol: self.hubs.protocol,
            }),
        };
        Parameters {
            target: self.target,
            embedded: self.embedded,
            entities,
            load: self.load,
            relay: self.relay,
            sut: self.sut,
            sink: self.sink,
            roles: self.roles,
            limits: self.limits,
            phases: self.phases,
            trials: self.trials,
            latency_recording: LatencyRecording::On,
        }
    }
}

impl HubSection {
    fn or_default(self, name: &str, partitions: u32) -> Hub {
        Hub {
            name: self.name.unwrap_or_else(|| name.to_owned()),
            partitions: self.partitions.unwrap_or(partitions),
            consumer_group: self.consumer_group.unwrap_or_else(|| "$Default".to_owned()),
        }
    }
}

fn sweeps_there_are(known: &[String]) -> String {
    match known {
        [] => "it has none".to_owned(),
        known => format!("there are: {}", known.join(", ")),
    }
}

fn one() -> u32 {
    1
}

/// What a search sets to zero unless it is told not to.
const FAILURE_RATIO: &str = "relay.failure_ratio";

/// The published study's; as many as a premium namespace gives by default, too.
const DEFAULT_SOURCE_PARTITIONS: u32 = 32;

/// Keys at the top of the file that describe the scenario and not one of its cases.
const NO_PARAMETERS: [&str; 9] =
    ["scenario", "description", "quick", "suts", "targets", "clients", "sweeps", "published", "prices"];

/// The scenarios that are part of this program.
const EMBEDDED: [(&str, &str); 5] = [
    ("fan-out", include_str!("../../../../scenarios/fan-out.yaml")),
    ("queue-forward", include_str!("../../../../scenarios/queue-forward.yaml")),
    ("consumer-strategies", include_str!("../../../../scenarios/consumer-strategies.yaml")),
    ("ingestion", include_str!("../../../../scenarios/ingestion.yaml")),
    ("kafka-latency", include_str!("../../../../scenarios/kafka-latency.yaml")),
];
