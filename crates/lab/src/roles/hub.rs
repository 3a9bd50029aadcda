//! The hub role: the embedded service, reporting its own counters.

use super::{
    RoleError,
    channel::RoleChannel,
    fabric::{Fabric, HubService as _, REPORT_EVERY},
    protocol::{Command, Counted, Counters, HubConfig, Outcome, Ready, Report},
};

/// Serves until it is told to stop.
pub(super) async fn run<F: Fabric>(
    fabric: F,
    config: HubConfig,
    channel: &mut RoleChannel,
) -> Result<Report, RoleError> {
    let hub = fabric.start_hub(&config).await.map_err(RoleError::connect("starting the service"))?;
    channel.reporter.send(&Report::Ready(Ready {
        connection_string: Some(hub.connection_string()),
        tls: hub.tls(),
        storage_connection_string: hub.storage_connection_string(),
    }));
    let counted = || Counted::new(config.clock.now(), Counters::Hub(hub.counters()));
    let mut ticks = tokio::time::interval(REPORT_EVERY);
    loop {
        tokio::select! {
            command = channel.next() => match command {
                Some(Command::Mark { edge }) => {
                    channel.reporter.send(&Report::Marked { edge, counted: counted() });
                }
                Some(Command::Stop) => break,
                // A service works from the moment that it is there.
                Some(Command::Start | Command::Allow { .. } | Command::Expect { .. }) => {}
                None => return Err(RoleError::Abandoned),
            },
            _ = ticks.tick() => channel.reporter.send(&Report::Progress(counted())),
        }
    }
    let counted = counted();
    hub.stop().await;
    Ok(Report::Finished { counted, outcome: Box::new(Outcome::Hub) })
}
