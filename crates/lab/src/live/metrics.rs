//! A run as its operator's monitoring sees it: `/metrics`, `/live` and `/ready` of the lab.
//!
//! What the lab itself knows has names of its own, `parshall_lab_…`. Beside it stand the metrics of the relays that are being
//! measured, under the names that every relay has, each with the number of its instance as the label `relay`; so dashboards
//! for a relay in operation show one under measurement as well. They come over the pipes that roles report through, from
//! wherever a role runs. Counters begin anew with each trial, whose roles are new.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hyper::StatusCode;
use hyper::http::request::Parts;
use listen::http::{Page, serve_pages_beside};
use listen::{Exposition, MetricsWriter, merged, open_metrics};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Registry;
use telemetry::MetricsPage;

use super::CONNECTIONS_MAX;
use crate::progress::{Observer, Phase, Progress};

/// An observer that serves what it sees. Clones share it.
#[derive(Clone, Debug)]
pub struct LiveMetrics {
    scenario: Arc<str>,
    seen: Arc<Mutex<Seen>>,
}

/// What is exported is what the page has.
impl MetricsPage for LiveMetrics {
    async fn page(&self) -> Option<String> {
        Some(self.exposition().open_metrics().to_owned())
    }
}

/// What was seen last.
#[derive(Clone, Debug, Default)]
struct Seen {
    progress: Option<Progress>,
    /// The metrics of each relay that has told any, by its number.
    relays: Vec<(u32, String)>,
}

impl LiveMetrics {
    /// An observer of a run of `scenario`.
    #[must_use]
    pub fn of(scenario: &str) -> Self {
        Self { scenario: scenario.into(), seen: Arc::default() }
    }

    /// Serves what is seen, for as long as the process lives, and says where.
    ///
    /// # Errors
    /// The address can't be listened on, or the system gives no thread.
    pub fn serve(&self, address: SocketAddr) -> io::Result<SocketAddr> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let pages = self.clone();
        let page = move |head: Parts| {
            let pages = pages.clone();
            async move { pages.page(&head) }
        };
        serve_pages_beside(listener, "metrics", page, CONNECTIONS_MAX)?;
        Ok(address)
    }

    fn page(&self, head: &Parts) -> Option<Page> {
        match head.uri.path() {
            "/metrics" => Some(self.exposition().page(&head.headers)),
            "/live" => Some(Page::plain("ok\n")),
            "/ready" => Some(self.ready()),
            _ => None,
        }
    }

    /// A run is ready while its roles are there and carry events.
    fn ready(&self) -> Page {
        let seen = self.seen();
        match &seen.progress {
            Some(progress) if is_carrying(progress.phase) => Page::plain("ready\n"),
            Some(Progress { phase, case, trial, .. }) => {
                let reason = format!("not ready\nroles: {phase} (case {case}, trial {trial})\n");
                Page::plain(reason).with_status(StatusCode::SERVICE_UNAVAILABLE)
            }
            None => Page::plain("not ready\nroles: no trial has begun\n")
                .with_status(StatusCode::SERVICE_UNAVAILABLE),
        }
    }

    fn exposition(&self) -> Exposition {
        Exposition::with_process(self.text())
    }

    fn text(&self) -> String {
        let Seen { progress, relays } = self.seen().clone();
        let mut registry = Registry::default();
        if let Some(progress) = progress {
            registry.register_collector(Box::new(Shown { scenario: Arc::clone(&self.scenario), progress }));
        }
        let mut text = open_metrics(&registry);
        if !relays.is_empty() {
            text.truncate(text.len() - END.len());
            let numbered: Vec<_> =
                relays.iter().map(|(number, text)| (number.to_string(), text.as_str())).collect();
            text.push_str(&merged("relay", numbered.iter().map(|(number, text)| (number.as_str(), *text))));
        }
        text
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for LiveMetrics {
    fn progress(&self, progress: &Progress) {
        self.seen().progress = Some(progress.clone());
    }

    fn wants_metrics(&self) -> bool {
        true
    }

    fn relays(&self, metrics: &[(u32, &str)]) {
        self.seen().relays = metrics.iter().map(|(number, text)| (*number, (*text).to_owned())).collect();
    }
}

/// Whether events pass in this phase.
const fn is_carrying(phase: Phase) -> bool {
    match phase {
        Phase::Filling | Phase::Leading | Phase::WarmUp | Phase::Measuring | Phase::Draining => true,
        Phase::Starting | Phase::Verifying | Phase::Stopping => false,
    }
}

/// A snapshot of a run of a scenario.
#[derive(Debug)]
struct Shown {
    scenario: Arc<str>,
    progress: Progress,
}

impl Collector for Shown {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Self { scenario, progress } = self;
        let mut metrics = MetricsWriter::new(encoder);
        let labels = [("scenario", &**scenario), ("case", &progress.case), ("phase", progress.phase.name())];
        metrics.gauges(
            "parshall_lab_run_info",
            "Which case of which scenario is in which phase; always 1",
            [(labels, 1)],
        )?;
        let case = progress.case_number as u64;
        metrics.gauge("parshall_lab_case", "Number of the case, from 1", case)?;
        metrics.gauge("parshall_lab_cases", "Cases of the run", progress.cases as u64)?;
        metrics.gauge("parshall_lab_trial", "Number of the trial of the case, from 1", progress.trial)?;
        let elapsed = progress.phase_elapsed.as_secs_f64();
        metrics.gauge("parshall_lab_phase_seconds", "Time since the phase began", elapsed)?;
        let events = progress.events;
        for (name, help, value) in [
            ("parshall_lab_sent_events", "Events sent by the load in this trial", events.sent),
            (
                "parshall_lab_received_events",
                "Events received by the pipeline in this trial, or by the sink where there is none",
                events.received,
            ),
            (
                "parshall_lab_forwarded_events",
                "Events forwarded by the pipeline in this trial",
                events.forwarded,
            ),
            ("parshall_lab_arrived_events", "Events received by the sink in this trial", events.arrived),
        ] {
            metrics.counter(name, help, value)?;
        }
        let lag = progress.lag_events.unwrap_or(0);
        metrics.gauge(
            "parshall_lab_lag_events",
            "Events acknowledged to the load that are not carried",
            lag,
        )?;
        let roles = progress.roles.iter().map(|(role, used)| ([("role", role.to_string())], used));
        let roles: Vec<_> = roles.collect();
        metrics.gauges(
            "parshall_lab_role_cpu_ratio",
            "CPU that a role uses, of what it may use",
            roles.iter().map(|(labels, used)| (labels.clone(), used.cpu_percent / 100.0)),
        )?;
        metrics.gauges(
            "parshall_lab_role_memory_bytes",
            "Resident memory of a role",
            roles.iter().map(|(labels, used)| (labels.clone(), used.memory_bytes)),
        )
    }
}

/// The end of a text of OpenMetrics.
const END: &str = "# EOF\n";

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use super::*;
    use crate::progress::{EventTotals, RoleProgress};
    use crate::results::Role;

    fn live() -> LiveMetrics {
        LiveMetrics { scenario: "fan-out".into(), seen: Arc::default() }
    }

    fn measuring() -> Progress {
        Progress {
            case: "fan_out=\"32\"".to_owned(),
            case_number: 2,
            cases: 4,
            trial: 1,
            trials: 3,
            tried_per_s: None,
            least_remaining: None,
            phase: Phase::Measuring,
            phase_elapsed: Duration::from_millis(1_500),
            phase_length: None,
            offered_per_s: Some(100.0),
            received_per_s: Some(99.0),
            forwarded_per_s: Some(98.0),
            lag_events: Some(7),
            events: EventTotals { sent: 100, received: 99, forwarded: 98, arrived: 97 },
            roles: BTreeMap::from([(Role::Relay, RoleProgress { cpu_percent: 50.0, memory_bytes: 1024 })]),
        }
    }

    #[test]
    fn a_run_and_its_relays_are_one_text() {
        let live = live();
        assert_eq!(live.text(), "# EOF\n");
        live.progress(&measuring());
        let relay = "# HELP parshall_relay_sends Sends\n# TYPE parshall_relay_sends counter\nparshall_relay_sends_total 5\n# EOF\n";
        live.relays(&[(0, relay), (1, relay)]);
        let text = live.text();
        for line in [
            r#"parshall_lab_run_info{scenario="fan-out",case="fan_out=\"32\"",phase="measuring"} 1"#,
            "parshall_lab_phase_seconds 1.5",
            "parshall_lab_arrived_events_total 97",
            r#"parshall_lab_role_cpu_ratio{role="relay"} 0.5"#,
            r#"parshall_relay_sends_total{relay="0"} 5"#,
            r#"parshall_relay_sends_total{relay="1"} 5"#,
        ] {
            assert!(text.lines().any(|have| have == line), "{line} is not in:\n{text}");
        }
        assert!(text.ends_with(END) && text.matches(END).count() == 1, "{text}");
        assert_eq!(text.matches("# TYPE parshall_relay_sends counter").count(), 1, "{text}");
    }

    #[test]
    fn a_run_is_ready_while_its_roles_carry_events() {
        let live = live();
        assert_eq!(live.ready().status, StatusCode::SERVICE_UNAVAILABLE);
        live.progress(&measuring());
        assert_eq!(live.ready(), Page::plain("ready\n"));
        live.progress(&Progress { phase: Phase::Starting, ..measuring() });
        assert!(String::from_utf8_lossy(&live.ready().text).starts_with("not ready\nroles: starting (case "));
    }

    /// The rows of the lab in the document of metrics.
    #[test]
    fn every_metric_of_a_run_is_documented_and_nothing_else_is() {
        let document = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md"));
        let rows = document
            .lines()
            .filter_map(|line| line.strip_prefix("| `parshall_lab_")?.split(['`', '{']).next());
        let mut documented: Vec<_> = rows.map(|name| format!("parshall_lab_{name}")).collect();
        let live = live();
        live.progress(&measuring());
        let text = live.text();
        let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
        let mut names: Vec<_> = types
            .map(|(name, kind)| if kind == "counter" { format!("{name}_total") } else { name.to_owned() })
            .collect();
        documented.sort();
        names.sort();
        assert_eq!(documented, names);
    }
}
