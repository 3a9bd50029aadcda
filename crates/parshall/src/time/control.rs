//! The service's endpoint for its time, asked over HTTP.

use std::collections::BTreeMap;
use std::env::{self, VarError};
use std::time::{Duration, SystemTime};

use http_body_util::Full;
use hyper::{Method, Request, StatusCode};
use serde::Deserialize;
use units::{date, duration};

use crate::exit::{CommandError, with_causes};
use crate::operations::{self, AskError, SERVICE_URL};

/// The service that is meant.
#[derive(Debug)]
pub(super) struct Control {
    /// Up to the path, without a slash at the end.
    base: String,
}

/// What to advance.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) target: Target,
    pub(super) end_tokens: bool,
}

/// How far to advance.
#[derive(Clone, Copy, Debug)]
pub(super) enum Target {
    By(Duration),
    To(SystemTime),
}

/// What the service says.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) shown: Shown,
    /// The same as it came.
    pub(super) json: String,
}

/// The time, and what happened, by its name.
#[derive(Debug, Deserialize)]
pub(super) struct Shown {
    pub(super) now: String,
    pub(super) offset: String,
    pub(super) happened: Option<BTreeMap<String, u64>>,
}

/// Why the service does not do it.
#[derive(Debug, Deserialize)]
struct Refusal {
    error: String,
}

impl Control {
    /// The service at `url`, or else that of the environment, or else that of this machine.
    ///
    /// # Errors
    /// This is no URL of a service.
    pub(super) fn of(url: Option<String>) -> Result<Self, CommandError> {
        let (origin, url) = match url {
            Some(url) => ("--service", url),
            None => match env::var(VARIABLE) {
                Ok(url) => (VARIABLE, url),
                Err(VarError::NotPresent) => ("the default", SERVICE_URL.to_owned()),
                Err(VarError::NotUnicode(_)) => return Err(unreadable(VARIABLE, "it is not UTF-8 text")),
            },
        };
        let base = url.trim_end_matches('/');
        let base = base.strip_suffix(PATH).unwrap_or(base);
        let is_url = operations::parse_url(base).is_some_and(|url| matches!(url.path(), "" | "/"));
        match is_url {
            true => Ok(Self { base: base.to_owned() }),
            false => Err(unreadable(origin, &format!("`{url}` is not a URL such as {SERVICE_URL}"))),
        }
    }

    /// The service's time.
    ///
    /// # Errors
    /// It can't be reached, or its time is not under control.
    pub(super) async fn show(&self) -> Result<Answer, CommandError> {
        self.ask(Method::GET, PATH, String::new()).await
    }

    /// Advances it.
    ///
    /// # Errors
    /// It can't be reached, its time is not under control, or it can't be advanced so.
    pub(super) async fn advance(&self, step: Step) -> Result<Answer, CommandError> {
        let (name, value) = match step.target {
            Target::By(by) => ("by", duration::text(by)),
            Target::To(to) => ("to", date::iso_instant(to)),
        };
        let body = serde_json::json!({ name: value, "end_tokens": step.end_tokens });
        self.ask(Method::POST, ADVANCE_PATH, body.to_string()).await
    }

    async fn ask(&self, method: Method, path: &str, body: String) -> Result<Answer, CommandError> {
        let Self { base } = self;
        let unreachable = |reason: String| CommandError::Refused {
            message: format!("the service at {base} can't be reached: {reason}"),
            advice: Some(format!(
                "start it with `parshall serve --time-control`, or name it by --service or {VARIABLE}"
            )),
        };
        let strange = |status| CommandError::Refused {
            message: format!("what answers at {base} does not show its time (status {status})"),
            advice: Some(format!("--service and {VARIABLE} take the address of `serve --http`")),
        };
        let request = Request::builder().method(method).uri(format!("{base}{path}"));
        let request = request.body(Full::from(body)).map_err(|error| unreachable(with_causes(&error)))?;
        let answer = operations::ask(request, PATIENCE).await;
        let (status, json) = answer.map_err(|error| match error {
            AskError::Unreachable(reason) => unreachable(reason),
            AskError::Unreadable(status) => strange(status),
        })?;
        let strange = || strange(status);
        if status == StatusCode::OK {
            let shown = serde_json::from_str(&json).map_err(|_error| strange())?;
            return Ok(Answer { shown, json });
        }
        let Refusal { error } = serde_json::from_str(&json).map_err(|_error| strange())?;
        Err(CommandError::Refused {
            message: format!("the service at {base} refuses: {error}"),
            advice: None,
        })
    }
}

fn unreadable(origin: &str, reason: &str) -> CommandError {
    CommandError::Usage { message: format!("{origin}: {reason}"), advice: None }
}

/// What `serve` gives to the command that it runs.
const VARIABLE: &str = "PARSHALL_TIME_URL";

const PATH: &str = "/time";
const ADVANCE_PATH: &str = "/time/advance";

/// A person waits for the connection. What is advanced may take as long as it does.
const PATIENCE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_named_by_its_address_or_by_the_url_of_its_time() {
        for url in ["http://localhost:5300", "http://localhost:5300/", "http://localhost:5300/time"] {
            assert_eq!(Control::of(Some(url.to_owned())).unwrap().base, "http://localhost:5300", "{url}");
        }
        for url in ["", "localhost:5300", "https://localhost:5300", "http://", "http://localhost/metrics"] {
            assert!(Control::of(Some(url.to_owned())).is_err(), "{url}");
        }
    }
}
