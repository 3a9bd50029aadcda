//! `parshall queue`, `topic`, `subscription` and `rule`: what a namespace consists of, created, listed, shown, changed and deleted.
//!
//! * `queue`, `topic`, `subscription` and `rule` are the commands.
//! * `options` is what can be chosen of an entity, `listing` what is printed.
//! * `target` says which service is meant. The embedded service and Azure's own are the same to all of this.

mod listing;
mod options;
pub(crate) mod queue;
pub(crate) mod rule;
pub(crate) mod subscription;
mod target;
pub(crate) mod topic;

use clap::Args;
use connect::service::ServiceError;
use connect::service_bus::AdministrationClient;
use connect::service_bus::administration::Put;
use connect::service_bus::administration::documents::ReadEntry;
use connect::service_bus::administration::entity::{EntityDescription, EntityKind};

use crate::exit::{CommandError, Exit};
use crate::output;
use crate::printed::Format;
use listing::{Deleted, ShownEntity};
use target::{Target, TargetArguments};

/// What every action takes.
#[derive(Debug, Args)]
struct CommonArguments {
    #[command(flatten)]
    target: TargetArguments,

    /// How the result is printed
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

/// A client with the form of its results.
struct Session {
    client: AdministrationClient,
    format: Format,
}

/// What an action came to: the text to print, or what the service has against it.
type Outcome = Result<String, ServiceError>;

/// Connects, does it, and prints what came of it.
fn execute(
    common: &CommonArguments,
    action: impl AsyncFnOnce(&mut Session) -> Outcome,
) -> Result<Exit, CommandError> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(CommandError::System)?;
    let target = Target::of(&common.target)?;
    let result = runtime.block_on(async {
        let mut session = Session { client: target.connect().await?, format: common.format };
        action(&mut session).await.map_err(|error| target.refusal(&error))
    });
    // A name that is still being looked up must not hold up the end.
    runtime.shutdown_background();
    output::print(&result?)
}

impl Session {
    /// What there is at a path.
    async fn get(&mut self, kind: EntityKind, path: &str) -> Result<ShownEntity, ServiceError> {
        let entry = self.client.get(path).await?;
        shown(kind, &entry, path)
    }

    /// All there is in a list.
    async fn list(&mut self, kind: EntityKind, path: &str) -> Result<Vec<ShownEntity>, ServiceError> {
        let entries = self.client.list(path).await?;
        entries.iter().map(|entry| shown(kind, entry, &entry.title)).collect()
    }

    /// Makes or changes something, and tells what is there then.
    async fn put(
        &mut self,
        kind: EntityKind,
        path: &str,
        description: &EntityDescription,
        put: Put,
    ) -> Outcome {
        self.client.put(path, &description.requested(kind), put).await?;
        // What the service answers is what it was told; what it made of it is another question.
        self.show(kind, path).await
    }

    async fn show(&mut self, kind: EntityKind, path: &str) -> Outcome {
        let found = self.get(kind, path).await?;
        Ok(self.format.text(&found))
    }

    async fn delete(&mut self, path: &str) -> Outcome {
        self.client.delete(path).await?;
        Ok(self.format.text(&Deleted { path }))
    }
}

fn shown(kind: EntityKind, entry: &ReadEntry, path: &str) -> Result<ShownEntity, ServiceError> {
    ShownEntity::read(kind, entry).ok_or_else(|| ServiceError {
        class: connect::sink::ErrorClass::Fatal,
        condition: "amqp:not-found".to_owned(),
        description: format!("what '{path}' is, is described as '{}'", entry.description.name),
    })
}
