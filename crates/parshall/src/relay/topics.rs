//! All topics that match a pattern: a relay for each of them, on one thread.
//!
//! ```text
//!   the topics that there are ──▶ connect all, or none and say why ──▶ carry
//!   every `refresh`           ──▶ connect those that are new; one that can't be connected is tried again at the next
//!   a relay fails, a signal   ──▶ all stop
//! ```

use std::collections::BTreeSet;
use std::pin::Pin;

use connect::service::ServiceError;
use pipeline::topics::TopicPattern;
use pipeline::{EndError, KafkaSourceConfig, PipelineConfig, SourceConfig};
use relay::metrics::endpoint::Relays;
use relay::{Relay, RelayError, Summary};
use settings::Document;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;

use super::plan::Plan;
use super::refusal::{self, End};
use super::{connect, summary, tell, watch_lag};
use crate::exit::{CommandError, Exit};
use crate::open_telemetry::OpenTelemetry;
use crate::output;
use crate::signals::StopSignals;

/// What the file says, and which of its topics have relays.
struct Topics<'a> {
    document: &'a Document,
    config: &'a PipelineConfig,
    source: &'a KafkaSourceConfig,
    pattern: &'a TopicPattern,
    /// Those that are carried.
    carried: BTreeSet<String>,
    /// How many the memory is divided among.
    share: usize,
    relays: Relays,
    telemetry: OpenTelemetry,
    running: JoinSet<Carried>,
    stop: watch::Sender<bool>,
}

/// How the relay of a topic has ended.
struct Carried {
    topic: String,
    config: PipelineConfig,
    ended: Result<Summary, RelayError>,
}

/// The relay of a topic, ready to run.
struct Connected {
    topic: String,
    config: PipelineConfig,
    relay: Relay,
}

/// New topics that are being looked for and connected.
type Refresh<'a> = Pin<Box<dyn Future<Output = Result<Found, ServiceError>> + 'a>>;

/// What there is at a refresh.
struct Found {
    /// All topics that match.
    matching: Vec<String>,
    /// The new ones among them, and why each could not be connected, if it could not.
    new: Vec<(String, Result<Box<Connected>, CommandError>)>,
}

/// Carries all topics until a signal ends it.
pub(super) async fn run(
    document: &Document,
    config: &PipelineConfig,
    pattern: &TopicPattern,
    metrics: Option<TcpListener>,
    mut signals: StopSignals,
) -> Result<Exit, CommandError> {
    let SourceConfig::Kafka(source) = &config.source else {
        unreachable!("the pattern is of a source of Kafka");
    };
    let relays = Relays::default();
    let mut topics = Topics {
        document,
        config,
        source,
        pattern,
        carried: BTreeSet::new(),
        share: 1,
        telemetry: super::export(config, relays.clone())?,
        relays,
        running: JoinSet::new(),
        stop: watch::Sender::new(false),
    };
    let connected = tokio::select! {
        biased;
        _ = signals.next() => {
            tell(super::STOPPED_WHILE_CONNECTING);
            return Ok(Exit::Passed);
        }
        connected = topics.connect_all() => connected?,
    };
    topics.announce(metrics, &connected)?;
    for connected in connected {
        topics.begin(connected);
    }
    let ended = topics.carry(&mut signals).await;
    topics.telemetry.shut_down_patiently(None, &mut signals).await;
    ended
}

impl<'a> Topics<'a> {
    /// Connects a relay for each topic that there is.
    async fn connect_all(&mut self) -> Result<Vec<Connected>, CommandError> {
        let found = self.source.matching_topics().await;
        let end = End::Source(&self.config.source);
        let found = found.map_err(|error| refusal::of_end(end, &EndError::from(error)))?;
        if found.is_empty() {
            return Err(CommandError::Refused {
                message: format!("no topic matches {}", self.pattern),
                advice: Some("create one, or correct source.kafka.topics".to_owned()),
            });
        }
        self.share = found.len();
        let mut connected = Vec::with_capacity(found.len());
        for topic in found {
            connected.push(connect_topic(self.document, self.config, topic, self.share).await?);
        }
        Ok(connected)
    }

    fn announce(&self, metrics: Option<TcpListener>, connected: &[Connected]) -> Result<(), CommandError> {
        let mut plan = Plan::new(self.config).to_string();
        let names: Vec<_> = connected.iter().map(|connected| connected.topic.as_str()).collect();
        plan.push_str(&format!("topics       {}: {}\n", names.len(), names.join(", ")));
        plan.push_str(&self.telemetry.line());
        if let Some(listener) = metrics {
            let address = listener.local_addr().map_err(CommandError::System)?;
            plan.push_str(&format!("metrics      http://{address}/metrics\n"));
            super::serve(listener, self.relays.clone())?;
        }
        output::print(&plan).map(drop)
    }

    /// Lets a relay run until all stop.
    fn begin(&mut self, connected: Connected) {
        let Connected { topic, config, relay } = connected;
        self.carried.insert(topic.clone());
        let handle = relay.metrics_handle();
        self.relays.add(&topic, handle.clone());
        if self.config.metrics.is_some() || self.telemetry.exports_metrics() {
            watch_lag(&config, handle);
        }
        let relay = super::traced(&config, relay, &self.telemetry);
        let mut stop = self.stop.subscribe();
        self.running.spawn(async move {
            let stopped = async move {
                // A sender that is gone is a stop, too.
                let _ = stop.wait_for(|stop| *stop).await;
            };
            let ended = relay.run(stopped).await;
            Carried { topic, config, ended }
        });
    }

    /// Waits for whatever comes: signals, ends of relays, new topics.
    async fn carry(&mut self, signals: &mut StopSignals) -> Result<Exit, CommandError> {
        // Events are carried whether or not standard output can be written.
        let _ = output::print("\nRunning.\n");
        let mut failure = None;
        // Whether a signal has come: the next one does not wait.
        let mut is_asked = false;
        let mut refresh: Option<Refresh<'a>> = None;
        let mut next_refresh = Instant::now() + self.pattern.refresh();
        loop {
            let is_stopping = *self.stop.borrow();
            tokio::select! {
                biased;
                _ = signals.next() => {
                    if std::mem::replace(&mut is_asked, true) {
                        return Ok(Exit::Interrupted);
                    }
                    tracing::info!("stopping; another signal exits immediately");
                    self.stop.send_replace(true);
                }
                ended = self.running.join_next() => match ended {
                    None => return failure.map_or(Ok(Exit::Passed), Err),
                    Some(ended) => if let Err(error) = self.ended(ended) {
                        self.stop.send_replace(true);
                        failure.get_or_insert(error);
                    }
                },
                found = async { refresh.as_mut().expect("it is under way").as_mut().await }, if refresh.is_some() && !is_stopping => {
                    refresh = None;
                    next_refresh = Instant::now() + self.pattern.refresh();
                    self.take(found);
                }
                () = tokio::time::sleep_until(next_refresh), if refresh.is_none() && !is_stopping => {
                    refresh = Some(self.refresh());
                }
            }
        }
    }

    /// A relay has ended: says how.
    fn ended(&self, ended: Result<Carried, JoinError>) -> Result<(), CommandError> {
        let Carried { topic, config, ended } = match ended {
            Ok(carried) => carried,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        };
        let summary = ended.map_err(|error| of_topic(&topic, refusal::of_relay(&config, &error)))?;
        tell(&format!("Topic {topic}\n{}", summary::render(&summary, false)));
        Ok(())
    }

    /// Looks for topics that are not carried yet.
    fn refresh(&self) -> Refresh<'a> {
        let (document, config, source, share) = (self.document, self.config, self.source, self.share);
        let carried = self.carried.clone();
        Box::pin(async move {
            let matching = source.matching_topics().await?;
            let mut new = Vec::new();
            for topic in matching.iter().filter(|topic| !carried.contains(*topic)) {
                let connected = connect_topic(document, config, topic.clone(), share).await;
                new.push((topic.clone(), connected.map(Box::new)));
            }
            Ok(Found { matching, new })
        })
    }

    fn take(&mut self, found: Result<Found, ServiceError>) {
        match found {
            Ok(Found { matching, new }) => {
                // Nobody waits for a topic that was deleted before it could be carried.
                self.relays.retain_waiting(|topic| matching.iter().any(|found| found == topic));
                for (topic, connected) in new {
                    match connected {
                        Ok(connected) => {
                            tracing::info!(topic, "a new topic is carried");
                            self.begin(*connected);
                        }
                        Err(error) => {
                            tracing::warn!(topic, %error, "a new topic can't be carried yet");
                            self.relays.add_waiting(&topic, error.to_string());
                        }
                    }
                }
            }
            Err(error) => tracing::warn!(%error, "new topics can't be looked for at the moment"),
        }
    }
}

async fn connect_topic(
    document: &Document,
    config: &PipelineConfig,
    topic: String,
    share: usize,
) -> Result<Connected, CommandError> {
    let config = config.of_topic(&topic, share).map_err(|error| {
        let advice = "leave copies out with `except`, or write to another cluster";
        document.mistake("source.kafka.topics", error.to_string(), advice)
    })?;
    match connect(&config).await {
        Ok(relay) => Ok(Connected { topic, config, relay }),
        Err(error) => Err(of_topic(&topic, refusal::of_connecting(document, &config, &error))),
    }
}

/// An error with the topic that it is about.
fn of_topic(topic: &str, error: CommandError) -> CommandError {
    match error {
        CommandError::Refused { message, advice } => {
            CommandError::Refused { message: format!("topic {topic}: {message}"), advice }
        }
        CommandError::Unavailable { message } => {
            CommandError::Unavailable { message: format!("topic {topic}: {message}") }
        }
        error => error,
    }
}
