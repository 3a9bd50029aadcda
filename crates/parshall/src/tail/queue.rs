//! A queue, subscription or dead-letter queue, looked at without locking or removing anything.
//!
//! Nothing tells who looks when a message comes, so that following is asking again and again, with a pause that begins when there
//! was nothing.

use std::time::Duration;

use connect::service::ServiceError;
use connect::service_bus::Browser;
use connect::sink::ErrorClass;

use super::line::Shown;
use super::output::{Printer, Wanted};
use crate::exit::CommandError;
use crate::service::Service;

/// What is looked at.
#[derive(Debug)]
pub(super) struct Looking<'a> {
    pub(super) entity: &'a str,
    /// The first sequence number.
    pub(super) from: i64,
    /// Whether messages that were enqueued before are left out, in milliseconds since the Unix epoch.
    pub(super) since_unix_ms: Option<i64>,
    /// Only the last so many of those that are there.
    pub(super) last: Option<u64>,
    /// Whether it goes on when it has come to the end.
    pub(super) follow: bool,
}

/// Looks, and prints.
///
/// # Errors
/// When the service can't be reached or refuses, or standard output can't be written.
pub(super) async fn look(
    service: &Service,
    looking: &Looking<'_>,
    printer: &mut Printer,
) -> Result<(), CommandError> {
    let refused = |error: &ServiceError| service.refusal(looking.entity, error);
    let mut browser = connect(service, looking.entity).await.map_err(|error| refused(&error))?;
    let mut next = looking.from;
    let mut held = std::collections::VecDeque::new();
    let mut holds = looking.last.and_then(|last| usize::try_from(last).ok());
    loop {
        let messages = match browser.peek(next, PAGE).await {
            Ok(messages) => messages,
            Err(error) if error.class == ErrorClass::Fatal || !looking.follow => return Err(refused(&error)),
            Err(error) => {
                // The place is known, so nothing is left out.
                tracing::debug!(%error, "the connection is made again");
                browser = again(service, looking.entity).await.map_err(|error| refused(&error))?;
                continue;
            }
        };
        let is_end = messages.is_empty();
        for message in messages {
            next = next.max(message.sequence_number.saturating_add(1));
            let time = message.enqueued_time.map(connect::event::EnqueuedTime::unix_ms);
            if looking.since_unix_ms.is_some_and(|since| time.is_some_and(|time| time < since)) {
                continue;
            }
            held.push_back(message);
            if holds.is_some_and(|most| held.len() > most) {
                held.pop_front();
            }
        }
        if is_end {
            holds = None;
        }
        if holds.is_none() {
            for message in held.drain(..) {
                let shown = Shown {
                    partition: None,
                    sequence_number: message.sequence_number,
                    offset: None,
                    enqueued_time: message.enqueued_time,
                    key: None,
                    sections: &message.sections,
                };
                if printer.print(&shown)? == Wanted::Enough {
                    return Ok(());
                }
            }
            if printer.flush()? == Wanted::Enough {
                return Ok(());
            }
        }
        match (is_end, looking.follow) {
            (true, false) => break,
            (true, true) => tokio::time::sleep(PAUSE).await,
            (false, _) => {}
        }
    }
    browser.close().await;
    Ok(())
}

async fn connect(service: &Service, entity: &str) -> Result<Browser, ServiceError> {
    Browser::connect(service.client_options(entity)).await
}

/// Connects as often as it takes, unless there is no use in it.
async fn again(service: &Service, entity: &str) -> Result<Browser, ServiceError> {
    loop {
        match connect(service, entity).await {
            Err(error) if error.class != ErrorClass::Fatal => tokio::time::sleep(PAUSE).await,
            connected => return connected,
        }
    }
}

/// Messages that are asked for at once.
const PAGE: u32 = 250;

/// Until it is asked again whether there is something.
const PAUSE: Duration = Duration::from_millis(250);
