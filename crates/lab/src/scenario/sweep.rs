//! Sweeps: which parameters vary, and through which values.
//!
//! ```yaml
//! sweeps:
//!   fan_out:                                 # one table
//!     relay.fan_out: [1, 32, 64, 100]        # a list is an axis: four cases
//!   batch:                                   # another table
//!     load.payload: 1 KiB                    # a single value holds for all of its cases and is not in their names
//!     relay.batch.events: {name: batch, values: [32, 64]}   # an axis that is not named after its path: `batch=32`
//!   limits:
//!     limits.relay.cores: [1, 2]             # two axes are crossed:
//!     limits.relay.memory: [1 GiB, 2 GiB]    # four cases, `cores=1,memory=1 GiB` and so on
//!   payload:
//!     load.payload:
//!       - 16 B
//!       - {value: 8 KiB, limits.relay.memory: 3 GiB}        # this value needs another setting as well
//!   study:
//!     load.rate:
//!       - {value: 100/s, name: slow}         # `rate=slow`: a value by another name than itself
//! ```
//!
//! A list that `--set` gives a parameter with a single value is one more axis, by which all of these are multiplied.

use std::collections::BTreeSet;

use settings::{Entry, Node, Place, SettingsError};

/// One table: paths that vary together.
#[derive(Clone, Debug)]
pub(super) struct Sweep {
    pub(super) name: String,
    fixed: Vec<Step>,
    axes: Vec<SweptPath>,
}

#[derive(Clone, Debug)]
struct SweptPath {
    name: String,
    path: String,
    place: Place,
    values: Vec<SweptValue>,
}

#[derive(Clone, Debug)]
struct SweptValue {
    value: Node,
    /// What names show instead of it.
    name: Option<String>,
    also: Vec<Step>,
}

/// One combination of values.
#[derive(Clone, Debug)]
pub(super) struct Point {
    pub(super) name: String,
    pub(super) sweep: Option<String>,
    /// What is set besides the axes: for the whole sweep, or because a value needs it. `--set` has the last word.
    pub(super) settings: Vec<Step>,
    /// The value that each axis has here.
    pub(super) axes: Vec<AxisStep>,
}

/// One setting of a point.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) path: String,
    pub(super) path_place: Place,
    pub(super) value: Node,
}

/// The value that one axis has at a point.
#[derive(Clone, Debug)]
pub(super) struct AxisStep {
    pub(super) name: String,
    /// The value as names show it: its own name, or as written, with single spaces.
    pub(super) text: String,
    pub(super) step: Step,
}

/// Reads the section `sweeps`.
pub(super) fn read(section: &Node) -> Result<Vec<Sweep>, SettingsError> {
    if section.entries().is_empty() {
        return mistake(section, "sweeps", "must be a mapping of names to sweeps");
    }
    let sweeps: Vec<Sweep> = section.entries().iter().map(read_sweep).collect::<Result<_, _>>()?;
    reject_equal_names(&sweeps, section)?;
    Ok(sweeps)
}

fn read_sweep(sweep: &Entry) -> Result<Sweep, SettingsError> {
    let key = format!("sweeps.{}", sweep.key);
    if sweep.key == ALL {
        return mistake(&sweep.value, &key, "is the name for all sweeps together");
    }
    let (mut fixed, mut axes) = (Vec::new(), Vec::new());
    let mut cases = 1_usize;
    for entry in sweep.value.entries() {
        let key = format!("{key}.{}", entry.key);
        if entry.value.is_scalar() {
            fixed.push(step(entry));
            continue;
        }
        let axis = read_axis(entry, &key)?;
        cases = cases.saturating_mul(axis.values.len());
        if cases > MOST_CASES {
            let reason = "makes more than 1000 cases of this sweep";
            return mistake(&entry.value, &key, reason);
        }
        axes.push(axis);
    }
    if axes.is_empty() {
        let reason = "must be a mapping of dotted paths, at least one of them to a list";
        return mistake(&sweep.value, &key, reason);
    }
    Ok(Sweep { name: sweep.key.clone(), fixed, axes })
}

fn read_axis(entry: &Entry, key: &str) -> Result<SweptPath, SettingsError> {
    let (name, list) = match entry.value.entries() {
        [] => (last(&entry.key).to_owned(), &entry.value),
        entries => {
            let unknown = |entry: &&Entry| !["name", "values"].contains(&entry.key.as_str());
            if let Some(entry) = entries.iter().find(unknown) {
                return mistake(&entry.value, key, "may only have the keys `name` and `values`");
            }
            let name = match entry.value.value("name") {
                Some(name) if name.is_scalar() && !name.written().is_empty() => name.written(),
                Some(name) => return mistake(name, key, "must have a string as its name"),
                None => last(&entry.key).to_owned(),
            };
            let Some(values) = entry.value.value("values") else {
                return mistake(&entry.value, key, "lacks its `values`");
            };
            (name, values)
        }
    };
    let Some(values) = list.elements().filter(|values| !values.is_empty()) else {
        return mistake(list, key, "must be a list with at least one value");
    };
    let values = values.iter().map(|value| read_value(value, key));
    Ok(SweptPath {
        name,
        path: entry.key.clone(),
        place: entry.key_place.clone(),
        values: values.collect::<Result<_, _>>()?,
    })
}

fn read_value(node: &Node, key: &str) -> Result<SweptValue, SettingsError> {
    if node.is_scalar() {
        return Ok(SweptValue { value: node.clone(), name: None, also: Vec::new() });
    }
    const SINGLE: &str = "can only be swept through single values, alone or with others that they need";
    let Some(value) = node.value(VALUE).filter(|value| value.is_scalar()) else {
        return mistake(node, key, SINGLE);
    };
    let name = match node.value(NAME) {
        None => None,
        Some(name) if name.is_scalar() && !written(name).is_empty() => Some(written(name)),
        Some(name) => return mistake(name, key, "must have a string as its name"),
    };
    let others = node.entries().iter().filter(|entry| ![VALUE, NAME].contains(&entry.key.as_str()));
    let also = others.map(|entry| match entry.value.is_scalar() {
        true => Ok(step(entry)),
        false => mistake(&entry.value, key, SINGLE),
    });
    Ok(SweptValue { value: value.clone(), name, also: also.collect::<Result<_, _>>()? })
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
            settings: Vec::new(),
            axes: Vec::new(),
        }];
    }
    sweeps.iter().flat_map(|sweep| sweep.points(&set)).collect()
}

/// Crosses the points with the values in `list`, which `--set` gives a parameter that has a single value. A point that
/// has an axis for it already went through the list.
pub(super) fn cross(points: Vec<Point>, path: &str, list: &Node) -> Result<Vec<Point>, SettingsError> {
    let advice = "write a list of different values, such as `relay.instances=[1, 2, 4]`";
    let mistake = |node: &Node, reason: &str| Err(node.mistake(path, reason, advice));
    let values = list.elements().unwrap_or_default();
    let mut texts = BTreeSet::new();
    if values.is_empty() {
        return mistake(list, "must have at least one value");
    }
    for value in values {
        if !value.is_scalar() {
            return mistake(value, "can only be swept through single values");
        }
        if !texts.insert(written(value)) {
            return mistake(value, "makes two cases of the same name");
        }
    }
    let has_axis = |point: &Point| point.axes.iter().any(|axis| axis.step.path == path);
    let crossed = points.iter().map(|point| if has_axis(point) { 1 } else { values.len() });
    if crossed.sum::<usize>() > MOST_CASES {
        return mistake(list, "makes more than 1000 cases");
    }
    let with_all = |point: Point| -> Vec<Point> {
        if has_axis(&point) {
            return vec![point];
        }
        // The short name may be that of another axis: `batch.events` and `dispatch.events`.
        let is_taken = point.axes.iter().any(|axis| axis.name == last(path));
        let name = if is_taken { path } else { last(path) };
        let axis = |value: &Node| SweptPath {
            name: name.to_owned(),
            path: path.to_owned(),
            place: value.place.clone(),
            values: Vec::new(),
        };
        let value = |value: &Node| SweptValue { value: value.clone(), name: None, also: Vec::new() };
        values.iter().map(|element| point.with(&axis(element), &value(element))).collect()
    };
    Ok(points.into_iter().flat_map(with_all).collect())
}

impl Sweep {
    fn points<'a>(&self, set: &impl Fn(&str) -> Option<&'a Node>) -> Vec<Point> {
        let start = Point {
            name: String::new(),
            sweep: Some(self.name.clone()),
            settings: self.fixed.clone(),
            axes: Vec::new(),
        };
        self.axes.iter().fold(vec![start], |points, axis| {
            let values = axis.values(set(&axis.path));
            points.iter().flat_map(|point| values.iter().map(|value| point.with(axis, value))).collect()
        })
    }
}

impl SweptPath {
    /// The axis's own values, or what was set instead of them. A value that is its own keeps what it needs besides.
    fn values(&self, set: Option<&Node>) -> Vec<SweptValue> {
        let Some(set) = set else {
            return self.values.clone();
        };
        let set = set.elements().unwrap_or_else(|| std::slice::from_ref(set));
        let of_own = |value: &Node| {
            let mut own = self.values.iter();
            own.find(|own| written(&own.value) == written(value))
        };
        let swept = |value: &Node| match of_own(value) {
            Some(own) => SweptValue { value: value.clone(), ..own.clone() },
            None => SweptValue { value: value.clone(), name: None, also: Vec::new() },
        };
        set.iter().map(swept).collect()
    }
}

impl Point {
    fn with(&self, axis: &SweptPath, value: &SweptValue) -> Self {
        let mut point = self.clone();
        if point.axes.is_empty() {
            point.name.clear();
        }
        let text = value.name.clone().unwrap_or_else(|| written(&value.value));
        let comma = if point.axes.is_empty() { "" } else { "," };
        point.name.push_str(&format!("{comma}{}={text}", axis.name));
        point.settings.extend(value.also.iter().cloned());
        point.axes.push(AxisStep {
            name: axis.name.clone(),
            text,
            step: Step {
                path: axis.path.clone(),
                path_place: axis.place.clone(),
                value: value.value.clone(),
            },
        });
        point
    }
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
            let advice = "cases are named by the last element of each path, or the axis's own `name`, and its value; \
                          each may come once";
            return Err(node.mistake(&format!("sweeps.{sweep}"), reason, advice));
        }
    }
    Ok(())
}

fn step(entry: &Entry) -> Step {
    Step { path: entry.key.clone(), path_place: entry.key_place.clone(), value: entry.value.clone() }
}

fn written(value: &Node) -> String {
    let text = value.written();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The last element of a path. The properties of Kafka's clients have dots in their names.
fn last(path: &str) -> &str {
    match path.split_once(".properties.") {
        Some((_, property)) => property,
        None => path.rsplit('.').next().unwrap_or(path),
    }
}

fn mistake<T>(node: &Node, key: &str, reason: &str) -> Result<T, SettingsError> {
    Err(node.mistake(key, reason, SHAPE))
}

/// The keys of a value that is a mapping, beside the paths that it sets.
const VALUE: &str = "value";
const NAME: &str = "name";

/// What chooses every sweep; no sweep can be called so.
pub(super) const ALL: &str = "all";

const SHAPE: &str = "write `sweeps: {fan_out: {relay.fan_out: [1, 32]}}`: name, dotted path, list of values";

/// Each takes at least seconds; more than this is a mistake.
const MOST_CASES: usize = 1000;
