//! `parshall health`: asks a running service, relay or run for its readiness, for probes of containers without a shell.

use std::time::Duration;

use clap::{Args, ValueEnum};
use http_body_util::Full;
use hyper::{Request, StatusCode, Uri};
use units::duration;

use crate::exit::{CommandError, Exit, with_causes};
use crate::operations::{self, AskError, SERVICE_URL};
use crate::output;

/// The arguments of `health`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  parshall health                                    the service on this machine
  parshall health relay                              a relay with `metrics: 127.0.0.1:9464`
  parshall health --port 9091 --live --timeout 1s

The answer is printed as it came: if it is not ready, with the reasons, one per line.

Exit status:
  0  it is ready; with --live, it is alive
  1  it is not
  2  the command line is wrong
  3  it can't be reached, does not answer in time, or is something else")]
pub(crate) struct HealthArguments {
    /// What to ask, by its usual port: 5300 for a service, 9464 for a relay
    #[arg(value_enum, default_value_t = Role::Service)]
    role: Role,

    /// The address of `serve --http`, of `metrics:` of a pipeline, or of `run --metrics`
    ///
    /// A path replaces /ready and /live. Example: --url http://127.0.0.1:9091
    #[arg(long, value_name = "URL", value_parser = url, conflicts_with = "port")]
    url: Option<Uri>,

    /// The port, if it is on 127.0.0.1
    ///
    /// Example: --port 9091
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,

    /// Ask whether it is alive (/live) instead of ready (/ready): whether a restart would help
    #[arg(long)]
    live: bool,

    /// The time until the whole answer must have arrived. Units: ms, s, min
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "5s")]
    timeout: Duration,
}

/// What can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Role {
    /// `parshall serve`
    Service,
    /// `parshall relay`
    Relay,
}

/// Asks, and prints the answer.
pub(crate) fn execute(arguments: HealthArguments) -> Result<Exit, CommandError> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(CommandError::System)?;
    let url = target(&arguments);
    let answer = runtime.block_on(ask(&url, arguments.timeout));
    // A name that is still being looked up must not delay the end.
    runtime.shutdown_background();
    let (exit, text) = answer?;
    output::print(&text)?;
    Ok(exit)
}

/// Returns the URL of the page that is asked for.
fn target(arguments: &HealthArguments) -> String {
    let page = if arguments.live { "/live" } else { "/ready" };
    let base = match (&arguments.url, arguments.port, arguments.role) {
        (Some(url), _, _) if !matches!(url.path(), "" | "/") => return url.to_string(),
        (Some(url), _, _) => url.to_string(),
        (None, Some(port), _) => format!("http://127.0.0.1:{port}"),
        (None, None, Role::Service) => SERVICE_URL.to_owned(),
        (None, None, Role::Relay) => RELAY_URL.to_owned(),
    };
    format!("{}{page}", base.trim_end_matches('/'))
}

async fn ask(url: &str, timeout: Duration) -> Result<(Exit, String), CommandError> {
    let refused = |message: String| CommandError::Refused { message, advice: Some(ADVICE.to_owned()) };
    let unreachable = |reason: &str| refused(format!("{url} can't be reached: {reason}"));
    let request =
        Request::get(url).body(Full::default()).map_err(|error| unreachable(&with_causes(&error)))?;
    let Ok(answer) = tokio::time::timeout(timeout, operations::ask(request, timeout)).await else {
        return Err(refused(format!("{url} has not answered within {}", duration::text(timeout))));
    };
    match answer {
        Ok((StatusCode::OK, text)) => Ok((Exit::Passed, ended_line(text))),
        Ok((StatusCode::SERVICE_UNAVAILABLE, text)) => Ok((Exit::Failed, ended_line(text))),
        Ok((status, _)) => Err(refused(format!("{url} answers with status {status}, expected 200 or 503"))),
        Err(AskError::Unreachable(reason)) => Err(unreachable(&reason)),
        Err(error @ AskError::Unreadable(_)) => Err(refused(format!("{url}: {error}"))),
    }
}

/// Ends a text with a line feed.
fn ended_line(mut text: String) -> String {
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

fn url(text: &str) -> Result<Uri, String> {
    operations::parse_url(text).ok_or_else(|| format!("this is not a URL such as {SERVICE_URL}"))
}

/// Address of `metrics:` in the pipeline files of the documentation.
const RELAY_URL: &str = "http://127.0.0.1:9464";

const ADVICE: &str =
    "name the address of `serve --http`, or of `metrics:` in the relay's pipeline file, by --url or --port";

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments() -> HealthArguments {
        HealthArguments {
            role: Role::Service,
            url: None,
            port: None,
            live: false,
            timeout: Duration::from_secs(1),
        }
    }

    #[test]
    fn target_follows_url_port_and_role() {
        assert_eq!(target(&arguments()), "http://127.0.0.1:5300/ready");
        assert_eq!(target(&HealthArguments { live: true, ..arguments() }), "http://127.0.0.1:5300/live");
        let relay = HealthArguments { role: Role::Relay, ..arguments() };
        assert_eq!(target(&relay), "http://127.0.0.1:9464/ready");
        assert_eq!(target(&HealthArguments { port: Some(81), ..relay }), "http://127.0.0.1:81/ready");
        for (given, asked) in [
            ("http://relay:81", "http://relay:81/ready"),
            ("http://relay:81/", "http://relay:81/ready"),
            ("http://relay/health", "http://relay/health"),
        ] {
            let url = Some(url(given).unwrap());
            assert_eq!(target(&HealthArguments { url, ..arguments() }), asked);
        }
        for wrong in ["", "localhost:81", "https://localhost", "http://"] {
            assert!(url(wrong).is_err(), "{wrong}");
        }
    }
}
