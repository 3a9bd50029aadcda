//! Leases on blobs and containers.

use access::storage::{StorageLevel, StorageRight};
use hyper::StatusCode;

use super::BlobFront;
use super::authorize::Granted;
use super::http_error::HttpError;
use super::reply::{self, Reply};
use super::request::Request;
use blob_store::{Conditions, LeaseAction, LeaseDuration, LeaseId, LeaseOutcome, Now, Version};

impl BlobFront {
    pub(super) async fn lease_blob(
        &self,
        request: &Request,
        granted: &Granted,
        now: Now,
    ) -> Result<Reply, HttpError> {
        let asked = Asked::of(request)?;
        granted.need(StorageLevel::Object, asked.rights())?;
        let (container, name) = (request.container()?, request.blob()?.to_owned());
        let Asked { action, conditions } = asked.clone();
        let done = self
            .run_in(container, 0, move |container| container.lease_blob(&name, action, &conditions, now))
            .await?;
        Ok(asked.reply(done))
    }

    pub(super) async fn lease_container(
        &self,
        request: &Request,
        granted: &Granted,
        now: Now,
    ) -> Result<Reply, HttpError> {
        let asked = Asked::of(request)?;
        granted.need(StorageLevel::Container, asked.rights())?;
        let container = request.container()?;
        let Asked { action, conditions } = asked.clone();
        let done =
            self.run_in(container, 0, move |container| container.lease(action, &conditions, now)).await?;
        Ok(asked.reply(done))
    }
}

/// What a request asks for.
#[derive(Clone, Debug)]
struct Asked {
    action: LeaseAction,
    conditions: Conditions,
}

impl Asked {
    fn of(request: &Request) -> Result<Self, HttpError> {
        let mut conditions = request.conditions()?;
        // The id is what the action is about, and no condition.
        let id = conditions.lease.take();
        let proposed = request.lease_id(PROPOSED)?;
        let needed = |id: Option<LeaseId>, name| id.ok_or(HttpError::MissingHeader { name });
        let action = request.header(ACTION).map(str::to_ascii_lowercase);
        let action = match action.as_deref() {
            Some("acquire") => LeaseAction::Acquire { duration: duration(request)?, proposed },
            Some("renew") => LeaseAction::Renew(needed(id, ID)?),
            Some("change") => {
                LeaseAction::Change { id: needed(id, ID)?, proposed: needed(proposed, PROPOSED)? }
            }
            Some("release") => LeaseAction::Release(needed(id, ID)?),
            Some("break") => LeaseAction::Break { period: break_period(request)? },
            Some(_) => return Err(HttpError::header(ACTION)),
            None => return Err(HttpError::MissingHeader { name: ACTION }),
        };
        Ok(Self { action, conditions })
    }

    /// Of these rights one is needed. Who may delete something may break what keeps it from being deleted.
    const fn rights(&self) -> &'static [StorageRight] {
        match self.action {
            LeaseAction::Break { .. } => &[StorageRight::Write, StorageRight::Delete],
            _ => &[StorageRight::Write],
        }
    }

    fn reply(&self, (version, outcome): (Version, LeaseOutcome)) -> Reply {
        let mut reply = reply::empty(match self.action {
            LeaseAction::Acquire { .. } => StatusCode::CREATED,
            LeaseAction::Break { .. } => StatusCode::ACCEPTED,
            LeaseAction::Renew(_) | LeaseAction::Change { .. } | LeaseAction::Release(_) => StatusCode::OK,
        });
        let headers = reply.headers_mut();
        reply::set_version(headers, version);
        if let Some(id) = outcome.id {
            reply::set(headers, ID, &id.to_string());
        }
        if let Some(remaining) = outcome.remaining_s {
            reply::set(headers, "x-ms-lease-time", &remaining.to_string());
        }
        reply
    }
}

fn duration(request: &Request) -> Result<LeaseDuration, HttpError> {
    match request.header(DURATION) {
        None => Err(HttpError::MissingHeader { name: DURATION }),
        Some("-1") => Ok(LeaseDuration::Infinite),
        Some(_) => match seconds(request, DURATION)? {
            Some(seconds) if seconds >= 15 => Ok(LeaseDuration::Fixed(seconds)),
            _ => Err(HttpError::header(DURATION)),
        },
    }
}

fn break_period(request: &Request) -> Result<Option<u8>, HttpError> {
    seconds(request, "x-ms-lease-break-period")
}

/// A header that is a number of seconds, up to 60.
fn seconds(request: &Request, name: &'static str) -> Result<Option<u8>, HttpError> {
    let Some(number) = request.number(name)? else {
        return Ok(None);
    };
    let seconds = u8::try_from(number).ok().filter(|seconds| *seconds <= 60);
    seconds.map(Some).ok_or_else(|| HttpError::header(name))
}

const ACTION: &str = "x-ms-lease-action";
const ID: &str = "x-ms-lease-id";
const PROPOSED: &str = "x-ms-proposed-lease-id";
const DURATION: &str = "x-ms-lease-duration";
