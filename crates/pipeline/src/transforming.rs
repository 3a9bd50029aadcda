//! Transforms of a pipeline: the steps, and the conditions of its sinks, compiled when the file is read.
//!
//! ```yaml
//! transform:
//! - filter: 'properties.region == "eu" && key != "test"'
//! - rename: {device_id: device}
//! - set: {pipeline: '"orders"'}        # values are expressions
//! - drop: [debug]
//! sinks:
//! - service_bus: {connection_string: "${SINK}", topic: orders, when: 'properties.kind == "order"'}
//! ```

use std::sync::Arc;

use settings::{Document, SettingsError};
use transform::{Condition, Program, Step};

use super::file::Pipeline;

pub use transform::Mistake;

/// Compiles the steps that stand at `path` of a document, and the conditions of all sinks, each with its path. `None` if there is
/// nothing to do.
///
/// # Errors
/// The first mistake, with its place in the document.
pub fn compile(
    document: &Document,
    path: &str,
    steps: &[Step],
    conditions: &[Option<(String, &str)>],
) -> Result<Option<Arc<Program>>, SettingsError> {
    let conditions: Vec<_> = conditions
        .iter()
        .map(|condition| condition.as_ref().map(|(path, text)| Condition { path, text }))
        .collect();
    let compiled = Program::compile(path, steps, &conditions).map_err(|mistake| {
        let part = (&*mistake.text, mistake.part);
        document.mistake_within(&mistake.path, part, mistake.reason, mistake.advice)
    });
    Ok(compiled?.map(Arc::new))
}

/// Compiles steps that belong to no document.
///
/// # Errors
/// The first mistake.
pub fn program(steps: &[Step]) -> Result<Option<Arc<Program>>, Mistake> {
    Ok(Program::compile("transform", steps, &[])?.map(Arc::new))
}

impl Pipeline {
    /// What its events go through.
    pub(super) fn program(&self, document: &Document) -> Result<Option<Arc<Program>>, SettingsError> {
        if let Some((section, sink)) = self.poison_events.sink()
            && sink.when().is_some()
        {
            let key = format!("{section}.{}.when", sink.kind());
            let reason = "dead letters have nowhere else to go";
            return Err(document.mistake(&key, reason, "leave it out"));
        }
        let mut conditions = Vec::new();
        for (section, sink) in self.sinks() {
            let path = || format!("{section}.{}.when", sink.kind());
            conditions.push(sink.when().map(|when| (path(), when)));
        }
        compile(document, "transform", &self.transform, &conditions)
    }
}

#[cfg(test)]
mod tests {
    use crate::PipelineConfig;
    use settings::Document;

    /// What is said of a pipeline with these lines, or its steps and the condition of its first sink.
    fn read(transform: &str, when: &str) -> Result<(usize, Option<String>), String> {
        let text = format!(
            "source:\n  event_hubs: {{connection_string: '{HUB}', hub: orders}}\n\
             sinks:\n- event_hubs:\n    connection_string: '{HUB}'\n    hub: copy\n{when}\
             checkpoint: {{store: {{files: ./checkpoints}}}}\n{transform}"
        );
        let document = Document::parse("pipeline.yaml", &text).map_err(|error| error.to_string())?;
        let config = PipelineConfig::from_document(&document).map_err(|error| error.to_string())?;
        let program = config.transform.ok_or("none")?;
        Ok((program.steps(), program.condition(0).map(str::to_owned)))
    }

    #[test]
    fn steps_and_conditions_are_compiled_when_the_file_is_read() {
        let transform = "transform:\n- filter: 'properties.region == \"eu\" && key != \"test\"'\n\
                         - rename: {device_id: device, x-1: y}\n- set: {pipeline: '\"orders\"'}\n- drop: [debug]\n";
        let when = "    when: properties.kind == \"order\"\n";
        assert_eq!(read(transform, when), Ok((4, Some("properties.kind == \"order\"".to_owned()))));
        assert_eq!(read("", when).map(|(steps, _)| steps), Ok(0));
        assert_eq!(read("", ""), Err("none".to_owned()));
    }

    #[test]
    fn a_mistake_in_an_expression_has_its_line_and_column_in_the_file() {
        for (transform, when, told) in [
            (
                "transform:\n- filter: 'kee == \"x\"'\n",
                "",
                "pipeline.yaml:9:12: `transform[0].filter`: `kee` is nothing of an event",
            ),
            (
                "transform:\n- drop: [a]\n- filter: properties.a == \"b\" && kee == 1\n",
                "",
                "pipeline.yaml:10:34: `transform[1].filter`: `kee` is nothing of an event",
            ),
            (
                "transform:\n- filter: |\n    properties.a == \"b\" &&\n    kee == 1\n",
                "",
                "pipeline.yaml:11:5: `transform[0].filter`: `kee` is nothing of an event",
            ),
            (
                "transform:\n- set: {a.b: '[1]'}\n",
                "",
                "pipeline.yaml:9:15: `transform[0].set.a.b`: a property can't be of type list",
            ),
            (
                "transform:\n- rename: {a: a}\n",
                "",
                "pipeline.yaml:9:15: `transform[0].rename.a`: `a` is the name that it has",
            ),
            (
                "",
                "    when: \"'eu'\"\n",
                "pipeline.yaml:7:12: `sinks[0].event_hubs.when`: this is of type string, and a condition",
            ),
            ("transform:\n- filtre: x\n", "", "`filtre`"),
            ("transform:\n- set: {a: 5}\n", "", "transform[0].set.a"),
            (
                "poison_events: {dead_letter: {event_hubs: {connection_string: 'Endpoint=sb://other;SharedAccessKeyName=a;\
                 SharedAccessKey=b', hub: letters, when: 'true'}}}\n",
                "",
                "dead letters have nowhere else to go",
            ),
        ] {
            let mistake = read(transform, when).unwrap_err();
            assert!(mistake.contains(told), "{transform}{when} gave: {mistake}");
        }
    }

    const HUB: &str =
        "Endpoint=sb://localhost;SharedAccessKeyName=a;SharedAccessKey=b;UseDevelopmentEmulator=true";
}
