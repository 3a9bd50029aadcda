//! Figures that others published for a case, to stand beside the measured ones: an entry of the section `published` of
//! a scenario, and of a case in the results.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, DeserializeSeed, MapAccess};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value, json};
use units::{ByteSize, Rate};

use super::figures::{Figure, NAMES, Quantity};

/// What a study printed for a case, by the names of the figures; what it did not print is absent.
///
/// Scenario files may write units: `latency_us.p99: 51 ms`, `memory: 1 GB`. Results have numbers, in the unit of the
/// name. Memory is called `memory_bytes` there: studies rarely say whether it was the peak. A table of latencies may be
/// copied as it was printed, in milliseconds: `min_ms`, `mean_ms`, `p99_ms`, and the rate that was offered as `per_s`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Published {
    /// The name of the case that the figures belong to.
    pub case: String,
    /// Who published it, and how it was measured.
    pub source: Option<String>,
    figures: BTreeMap<Figure, f64>,
}

impl Published {
    /// Figures of a case.
    #[must_use]
    pub fn new(case: impl Into<String>, figures: impl IntoIterator<Item = (Figure, f64)>) -> Self {
        Self { case: case.into(), source: None, figures: figures.into_iter().collect() }
    }

    /// The same, with who published them and how they were measured.
    #[must_use]
    pub fn with_source(self, source: impl Into<String>) -> Self {
        Self { source: Some(source.into()), ..self }
    }

    /// One of the figures, if it was published.
    #[must_use]
    pub fn get(&self, figure: Figure) -> Option<f64> {
        self.figures.get(&figure).copied()
    }
}

impl Serialize for Published {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry(CASE, &self.case)?;
        for (figure, value) in &self.figures {
            match figure {
                Figure::MemoryPeakBytes => map.serialize_entry(MEMORY[0], &(*value as u64))?,
                figure => map.serialize_entry(figure.definition().name, value)?,
            }
        }
        if let Some(source) = &self.source {
            map.serialize_entry(SOURCE, source)?;
        }
        map.end()
    }
}

impl JsonSchema for Published {
    fn schema_name() -> Cow<'static, str> {
        "Published".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let text = || json!({"type": "string"});
        let number = |whole| json!({"type": if whole { "integer" } else { "number" }, "minimum": 0});
        let figures = Figure::all().map(|figure| match figure {
            Figure::MemoryPeakBytes => (MEMORY[0], number(true)),
            figure => (figure.definition().name, number(false)),
        });
        let named = [(CASE, text()), (SOURCE, text())].into_iter().chain(figures);
        let properties: Map<String, Value> = named.map(|(name, schema)| (name.to_owned(), schema)).collect();
        json_schema!({
            "description": "What a study printed for a case, by the names of the figures; what it did not print is absent.",
            "type": "object",
            "properties": properties,
            "required": [CASE],
            "additionalProperties": false,
        })
    }
}

impl<'de> Deserialize<'de> for Published {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Published;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("the name of a case with its published figures")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Published, A::Error> {
                let mut published = Published::default();
                let mut has_case = false;
                while let Some(key) = map.next_key::<String>()? {
                    match key.as_str() {
                        CASE => {
                            published.case = map.next_value()?;
                            has_case = true;
                        }
                        SOURCE => published.source = Some(map.next_value()?),
                        name => {
                            let value_of = ValueOf::named(name);
                            let value_of = value_of.ok_or_else(|| de::Error::unknown_field(name, &KEYS))?;
                            let (figure, value) = (value_of.figure, map.next_value_seed(value_of)?);
                            if published.figures.insert(figure, value).is_some() {
                                return Err(de::Error::custom(format_args!("`{name}` is given twice")));
                            }
                        }
                    }
                }
                match has_case {
                    true => Ok(published),
                    false => Err(de::Error::missing_field(CASE)),
                }
            }
        }

        deserializer.deserialize_map(Visitor)
    }
}

/// Reads the value of a figure: a number in the unit of its key, or a text that says the unit.
#[derive(Clone, Copy)]
struct ValueOf {
    figure: Figure,
    /// How many units of the figure are one of the key.
    unit: f64,
}

impl ValueOf {
    /// The figure that a key of a scenario means.
    fn named(key: &str) -> Option<Self> {
        if let Some((_, figure)) = AS_PRINTED.iter().find(|(name, _)| *name == key) {
            let is_time = figure.definition().quantity == Quantity::Microseconds;
            return Some(Self { figure: *figure, unit: if is_time { 1_000.0 } else { 1.0 } });
        }
        let figure = match MEMORY.contains(&key) {
            true => Figure::MemoryPeakBytes,
            false => Figure::named(key)?,
        };
        Some(Self { figure, unit: 1.0 })
    }

    /// A number under the key in the unit of the figure, without the noise of a product of decimals.
    fn in_unit(self, value: f64) -> f64 {
        match self.unit > 1.0 {
            true => (value * self.unit * 1e3).round() / 1e3,
            false => value,
        }
    }
}

impl<'de> DeserializeSeed<'de> for ValueOf {
    type Value = f64;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<f64, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl de::Visitor<'_> for ValueOf {
    type Value = f64;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let example = match self.figure.definition().quantity {
            Quantity::PerSecond => ", or a rate such as `300/s`",
            Quantity::Bytes => ", or a size such as `1 GB`",
            Quantity::Microseconds if self.unit > 1.0 => " of milliseconds, or a time such as `51 ms`",
            Quantity::Microseconds | Quantity::MicrosecondsEach => {
                " of microseconds, or a time such as `51 ms`"
            }
            Quantity::Percent | Quantity::Count | Quantity::CountEach => "",
        };
        write!(formatter, "a number that is not negative{example}")
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<f64, E> {
        match value.is_finite() && value >= 0.0 {
            true => Ok(self.in_unit(value)),
            false => Err(E::invalid_value(de::Unexpected::Float(value), &self)),
        }
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<f64, E> {
        Ok(self.in_unit(value as f64))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<f64, E> {
        self.visit_f64(value as f64)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<f64, E> {
        let microseconds = |time: Duration| time.as_secs_f64() * 1e6;
        let value = match self.figure.definition().quantity {
            Quantity::PerSecond => text.parse::<Rate>().ok().map(Rate::events_per_second),
            Quantity::Bytes => text.parse::<ByteSize>().ok().map(|size| size.bytes() as f64),
            Quantity::Microseconds | Quantity::MicrosecondsEach => {
                units::duration::parse(text).ok().map(microseconds)
            }
            Quantity::Percent | Quantity::Count | Quantity::CountEach => None,
        };
        value.ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
    }
}

const CASE: &str = "case";
const SOURCE: &str = "source";

/// What a published memory is called in results, and what scenarios may call it.
const MEMORY: [&str; 2] = ["memory_bytes", "memory"];

/// What a scenario may call the figures of a table of latencies, whose times are milliseconds.
const AS_PRINTED: [(&str, Figure); 8] = [
    ("min_ms", Figure::LatencyMin),
    ("mean_ms", Figure::LatencyMean),
    ("p50_ms", Figure::LatencyP50),
    ("p75_ms", Figure::LatencyP75),
    ("p95_ms", Figure::LatencyP95),
    ("p99_ms", Figure::LatencyP99),
    ("max_ms", Figure::LatencyMax),
    ("per_s", Figure::OfferedPerS),
];

/// Every key, for messages.
const KEYS: [&str; NAMES.len() + AS_PRINTED.len() + 4] = {
    let mut keys = [CASE; NAMES.len() + AS_PRINTED.len() + 4];
    let mut index = 0;
    while index < NAMES.len() {
        keys[index] = NAMES[index];
        index += 1;
    }
    keys[index] = SOURCE;
    keys[index + 1] = MEMORY[0];
    keys[index + 2] = MEMORY[1];
    let mut printed = 0;
    while printed < AS_PRINTED.len() {
        keys[index + 3 + printed] = AS_PRINTED[printed].0;
        printed += 1;
    }
    keys
};

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn figures_are_read_in_their_units_and_written_as_numbers() {
        let text =
            json!({"case": "linger=0", "latency_us.p99": "51 ms", "produced_per_s": 300, "memory": "1 GB"});
        let published: Published = serde_json::from_value(text).unwrap();
        assert_eq!(published.get(Figure::LatencyP99), Some(51_000.0));
        assert_eq!(published.get(Figure::ProducedPerS), Some(300.0));
        let written = serde_json::to_value(&published).unwrap();
        assert_eq!(
            written,
            json!({"case": "linger=0", "latency_us.p99": 51_000.0, "produced_per_s": 300.0, "memory_bytes": 1_000_000_000_u64})
        );
        assert_eq!(serde_json::from_value::<Published>(written).unwrap(), published);
    }

    #[test]
    fn a_table_of_latencies_is_read_as_it_was_printed_and_written_by_the_names_of_the_figures() {
        let text =
            json!({"case": "row=1", "min_ms": 9.0892, "mean_ms": 20, "p99_ms": "45.3 ms", "per_s": 100});
        let published: Published = serde_json::from_value(text).unwrap();
        assert_eq!(
            serde_json::to_value(&published).unwrap(),
            json!({"case": "row=1", "offered_per_s": 100.0, "latency_us.min": 9089.2, "latency_us.mean": 20_000.0,
                   "latency_us.p99": 45_300.0})
        );
        let twice = json!({"case": "a", "p99_ms": 1, "latency_us.p99": 1_000});
        assert!(serde_json::from_value::<Published>(twice).unwrap_err().to_string().contains("given twice"));
    }

    #[test]
    fn what_is_no_figure_or_no_value_of_it_is_refused() {
        for (text, message) in [
            (json!({"case": "a", "forwarded": 1}), "unknown field `forwarded`"),
            (json!({"case": "a", "latency_us.p99": "fast"}), "or a time such as `51 ms`"),
            (json!({"case": "a", "received_per_s": -1}), "not negative"),
            (json!({"case": "a", "memory": 1, "memory_bytes": 1}), "given twice"),
            (json!({"received_per_s": 1}), "missing field `case`"),
        ] {
            let error = serde_json::from_value::<Published>(text).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }
}
