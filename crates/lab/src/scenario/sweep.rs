//! Sweeps: which parameters vary, and through which values.
//!
//! ```yaml
//! sweeps:
//!   fan_out:                                 # one table
//!     relay.fan_out: [1, 32, 64, 100]        # four cases
//!   payload:                                 # another table
//!     load.payload: [16 B, 1 KiB]            # two paths are crossed:
//!     relay.batch.events: [32, 128]          # four cases, `payload=16B,events=32` and so on
//! ```

use std::collections::BTreeSet;

use settings::{Node, Place, SettingsError};

/// One table: paths that vary together.
#[derive(Clone, Debug)]
pub(super) struct Sweep {
    name: String,
    axes: Vec<SweptPath>,
}

#[derive(Clone, Debug)]
struct SweptPath {
    path: String,
    place: Place,
    values: Vec<Node>,
}

/// One combination of values.
#[derive(Clone, Debug)]
pub(super) struct Point {
    pub(super) name: String,
    pub(super) sweep: Option<String>,
    pub(super) steps: Vec<Step>,
}

/// One value of a point.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) path: String,
    pub(super) path_place: Place,
    pub(super) value: Node,
}

impl Step {
    /// The value as names show it: as written, without spaces.
    pub(super) fn text(&self) -> String {
        self.value.written().split_whitespace().collect()
    }
}

/// Reads the section `sweeps`.
pub(super) fn read(section: &Node) -> Result<Vec<Sweep>, SettingsError> {
    const SHAPE: &str =
        "write `sweeps: {fan_out: {relay.fan_out: [1, 32]}}`: name, dotted path, list of values";
    let mistake = |node: &Node, key: &str, reason: &str| Err(node.mistake(key, reason, SHAPE));
    if section.entries().is_empty() {
        return mistake(section, "sweeps", "must be a mapping of names to sweeps");
    }
    let mut sweeps = Vec::new();
    for sweep in section.entries() {
        let key = format!("sweeps.{}", sweep.key);
        if sweep.value.entries().is_empty() {
            return mistake(
                &sweep.value,
                &key,
                "must be a mapping of dotted paths to lists",
            );
        }
        let mut axes = Vec::new();
        let mut cases = 1_usize;
        for axis in sweep.value.entries() {
            let key = format!("{key}.{}", axis.key);
            let Some(values) = axis.value.elements().filter(|values| !values.is_empty()) else {
                return mistake(&axis.value, &key, "must be a list with at least one value");
            };
            if let Some(value) = values.iter().find(|value| !value.is_scalar()) {
                return mistake(value, &key, "can only be swept through single values");
            }
            cases = cases.saturating_mul(values.len());
            if cases > MOST_CASES {
                return mistake(
                    &axis.value,
                    &key,
                    "makes more than 1000 cases of this sweep",
                );
            }
            let (path, place) = (axis.key.clone(), axis.key_place.clone());
            axes.push(SweptPath {
                path,
                place,
                values: values.to_vec(),
            });
        }
        sweeps.push(Sweep {
            name: sweep.key.clone(),
            axes,
        });
    }
    reject_equal_names(&sweeps, section)?;
    Ok(sweeps)
}

/// All combinations of all sweeps. Where `set` knows another value for a path, its axis goes through that value, or
/// through its elements if it is a list. Without a sweep there is one point, called `scenario`.
pub(super) fn points<'a>(
    scenario: &str,
    sweeps: &[Sweep],
    set: impl Fn(&str) -> Option<&'a Node>,
) -> Vec<Point> {
    if sweeps.is_empty() {
        return vec![Point {
            name: scenario.to_owned(),
            sweep: None,
            steps: Vec::new(),
        }];
    }
    let mut points: Vec<Point> = Vec::new();
    for sweep in sweeps {
        let mut combinations: Vec<Vec<Step>> = vec![Vec::new()];
        for axis in &sweep.axes {
            let set = set(&axis.path);
            let values = match set {
                Some(node) => node
                    .elements()
                    .unwrap_or_else(|| std::slice::from_ref(node)),
                None => &axis.values,
            };
            let step = |value: &Node| Step {
                path: axis.path.clone(),
                path_place: set.map_or_else(|| axis.place.clone(), |node| node.place.clone()),
                value: value.clone(),
            };
            combinations = combinations
                .iter()
                .flat_map(|steps| {
                    values.iter().map(move |value| {
                        let mut steps = steps.clone();
                        steps.push(step(value));
                        steps
                    })
                })
                .collect();
        }
        points.extend(combinations.into_iter().map(|steps| {
            let names: Vec<String> = steps
                .iter()
                .map(|step| format!("{}={}", last(&step.path), step.text()))
                .collect();
            Point {
                name: names.join(","),
                sweep: Some(sweep.name.clone()),
                steps,
            }
        }));
    }
    points
}

/// Two cases with one name could not be told apart in results.
fn reject_equal_names(sweeps: &[Sweep], section: &Node) -> Result<(), SettingsError> {
    let mut names = BTreeSet::new();
    for point in points("", sweeps, |_| None) {
        let name = point.name.clone();
        if !names.insert(point.name) {
            let sweep = point.sweep.unwrap_or_default();
            let node = section.value(&sweep).unwrap_or(section);
            let reason = format!("makes a second case of the name `{name}`");
            let advice = "cases are named by the last element of each path and its value; each may come once";
            return Err(node.mistake(&format!("sweeps.{sweep}"), reason, advice));
        }
    }
    Ok(())
}

fn last(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

/// Each takes at least seconds; more than this is a mistake.
const MOST_CASES: usize = 1000;
