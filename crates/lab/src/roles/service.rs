//! The service's role: the embedded service, reporting its own counters.

use super::{
    RoleError,
    backend::{Backend, REPORT_EVERY, RunningService as _},
    channel::RoleChannel,
    protocol::{Command, Counted, Counters, Outcome, Ready, Report, ServiceConfig},
};

/// Serves until it is to stop.
pub(super) async fn run<B: Backend>(
    backend: B,
    config: ServiceConfig,
    channel: &mut RoleChannel,
) -> Result<Report, RoleError> {
    let service = backend.start_service(&config).await.map_err(RoleError::connect("starting the service"))?;
    channel.reporter.send(&Report::Ready(Ready {
        entry_points: service.entry_points(),
        storage_connection_string: service.storage_connection_string(),
    }));
    let counted = || Counted::new(config.clock.now(), Counters::Service(service.counters()));
    let mut served = Vec::new();
    let mut ticks = tokio::time::interval(REPORT_EVERY);
    loop {
        tokio::select! {
            command = channel.next() => match command {
                Some(Command::Mark { edge }) => {
                    channel.reporter.send(&Report::Marked { edge, counted: counted() });
                }
                Some(Command::Served { entity, reads }) => {
                    let all: Option<Vec<_>> =
                        reads.iter().map(|read| service.served(config.clock, &entity, read)).collect();
                    served = all.unwrap_or_default();
                }
                Some(Command::Stop) => break,
                // A service works from the moment that it is there.
                Some(
                    Command::Start | Command::Allow { .. } | Command::Expect { .. } | Command::Done { .. },
                ) => {}
                None => return Err(RoleError::Abandoned),
            },
            _ = ticks.tick() => channel.reporter.send(&Report::Progress(counted())),
        }
    }
    let counted = counted();
    service.stop().await;
    Ok(Report::Finished { counted, outcome: Box::new(Outcome::Service { served }) })
}
