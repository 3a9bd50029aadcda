//! Where telemetry goes: the environment variables of OpenTelemetry, and what a file says instead of them.
//!
//! Nothing is exported unless an endpoint is given. The variables are often those of a whole host or pod, so a mistake in one is no reason
//! not to carry events: it is told, and the variable counts as not set, as the specification has it. What a file says comes
//! before them; only `OTEL_SDK_DISABLED` is above everything.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::uri::{PathAndQuery, Uri};
use percent_encoding::percent_decode_str;

use crate::sampler::Sampler;

/// What a file, or another place that is not the environment, says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// The collector; what is exported goes to `/v1/traces` and `/v1/metrics` below it.
    pub endpoint: Option<String>,
    /// The part of batches that is traced, from 0 to 1; 0 for no traces.
    pub traces: Option<f64>,
    /// How often metrics are exported; zero for never.
    pub metrics: Option<Duration>,
}

/// What is exported, and where to.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Traces, if they are.
    pub traces: Option<TraceOptions>,
    /// Metrics, if they are.
    pub metrics: Option<MetricsOptions>,
    /// What is said of this process, by name.
    pub resource: Vec<(String, String)>,
}

/// How traces are exported.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceOptions {
    pub(crate) collector: Collector,
    pub(crate) sampler: Sampler,
    /// No more spans than these wait.
    pub(crate) queue_maximum: usize,
    /// Nor are more in one request.
    pub(crate) batch_maximum: usize,
    /// How long spans wait for others.
    pub(crate) delay: Duration,
    pub(crate) links_maximum: usize,
}

/// How metrics are exported.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricsOptions {
    pub(crate) collector: Collector,
    pub(crate) every: Duration,
}

/// Where something is exported to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Collector {
    pub(crate) url: Uri,
    /// Credentials are here. They are never shown.
    pub(crate) headers: HeaderMap,
    /// How long a request may take.
    pub(crate) timeout: Duration,
    pub(crate) gzip: bool,
    pub(crate) certificate_authority: Option<PathBuf>,
}

impl Default for Collector {
    fn default() -> Self {
        Self {
            url: Uri::from_static("http://localhost:4318"),
            headers: HeaderMap::new(),
            timeout: Duration::from_secs(10),
            gzip: false,
            certificate_authority: None,
        }
    }
}

impl Default for TraceOptions {
    fn default() -> Self {
        Self {
            collector: Collector::default(),
            sampler: Sampler { respects_parent: true, ratio: USUAL_RATIO },
            queue_maximum: 2_048,
            batch_maximum: 512,
            delay: Duration::from_secs(5),
            links_maximum: 128,
        }
    }
}

impl Settings {
    /// Whether `endpoint` is one that can be exported to.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check_endpoint(endpoint: &str) -> Result<(), String> {
        endpoint_of(endpoint).map(drop)
    }
}

impl Options {
    /// What `settings` and the environment of this process say for a process that is known as `service`: nothing if nothing is
    /// exported. Mistakes in variables are in the log.
    #[must_use]
    pub fn of_this_process(service: &str, settings: &Settings) -> Option<Self> {
        let (options, mistakes) = Self::new(service, settings, |name| std::env::var(name).ok());
        for mistake in mistakes {
            tracing::warn!("{mistake}");
        }
        options
    }

    /// The same with variables from elsewhere, and the mistakes in them.
    pub(crate) fn new(
        service: &str,
        settings: &Settings,
        variable: impl Fn(&str) -> Option<String>,
    ) -> (Option<Self>, Vec<String>) {
        let mut read = Variables { variable: &variable, mistakes: Vec::new() };
        let is_disabled =
            read.text("OTEL_SDK_DISABLED").is_some_and(|text| text.eq_ignore_ascii_case("true"));
        let options = (!is_disabled).then(|| Self {
            traces: read.traces(settings),
            metrics: read.metrics(settings),
            resource: read.resource(service),
        });
        let options = options.filter(|options| options.traces.is_some() || options.metrics.is_some());
        (options, read.mistakes)
    }
}

/// What is exported and where to, for a person.
impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(TraceOptions { collector, sampler, .. }) = &self.traces {
            write!(f, "{} of the batches traced to {}", Percent(sampler.ratio), collector.place())?;
        }
        if let Some(MetricsOptions { collector, every }) = &self.metrics {
            let and = if self.traces.is_some() { ", " } else { "" };
            write!(f, "{and}metrics to {} every {}", collector.place(), units::duration::text(*every))?;
        }
        Ok(())
    }
}

/// A ratio in percent.
struct Percent(f64);

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // No more digits than it was given with.
        let percent = (self.0 * 1e8).round() / 1e6;
        write!(f, "{percent} %")
    }
}

impl Collector {
    /// The place without what may be secret in it.
    pub(crate) fn place(&self) -> String {
        // A query may have a key in it.
        let (scheme, authority) = (self.url.scheme_str().unwrap_or_default(), self.url.authority());
        format!("{scheme}://{}{}", authority.map_or("", |authority| authority.as_str()), self.url.path())
    }
}

/// Reads variables, and keeps what is wrong with them.
struct Variables<'a> {
    variable: &'a dyn Fn(&str) -> Option<String>,
    mistakes: Vec<String>,
}

impl Variables<'_> {
    /// The value of a variable; an empty one counts as not set.
    fn text(&self, name: &str) -> Option<String> {
        let value = (self.variable)(name)?;
        let value = value.trim();
        (!value.is_empty()).then(|| value.to_owned())
    }

    /// Reports a mistake; values may be secret, so only names and reasons are told.
    fn mistaken(&mut self, name: &str, reason: &str) {
        self.mistakes.push(format!("the environment variable {name} is ignored: {reason}"));
    }

    fn parsed<T: FromStr>(&mut self, name: &str, what: &str) -> Option<T> {
        let parsed = self.text(name)?.parse().ok();
        if parsed.is_none() {
            self.mistaken(name, &format!("it is not {what}"));
        }
        parsed
    }

    fn milliseconds(&mut self, name: &str) -> Option<Duration> {
        self.parsed(name, "a number of milliseconds").map(Duration::from_millis)
    }

    /// The variable of a signal, or of all signals: its name and its value.
    fn of_signal(&self, signal: &str, rest: &str) -> Option<(String, String)> {
        [format!("OTEL_EXPORTER_OTLP_{signal}_{rest}"), format!("OTEL_EXPORTER_OTLP_{rest}")]
            .into_iter()
            .find_map(|name| Some((name.clone(), self.text(&name)?)))
    }

    fn traces(&mut self, settings: &Settings) -> Option<TraceOptions> {
        if settings.traces == Some(0.0) || !self.wants("OTEL_TRACES_EXPORTER") {
            return None;
        }
        let collector = self.collector("TRACES", "/v1/traces", settings)?;
        let usual = TraceOptions::default();
        let sampler = match settings.traces {
            Some(ratio) => Sampler { respects_parent: true, ratio },
            None => self.sampler(),
        };
        let number = "a number of spans above 0";
        let positive = |number: &usize| *number > 0;
        Some(TraceOptions {
            collector,
            sampler,
            queue_maximum: self
                .parsed("OTEL_BSP_MAX_QUEUE_SIZE", number)
                .filter(positive)
                .unwrap_or(usual.queue_maximum),
            batch_maximum: self
                .parsed("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", number)
                .filter(positive)
                .unwrap_or(usual.batch_maximum),
            delay: self.milliseconds("OTEL_BSP_SCHEDULE_DELAY").unwrap_or(usual.delay),
            links_maximum: self
                .parsed("OTEL_SPAN_LINK_COUNT_LIMIT", "a number of links")
                .unwrap_or(usual.links_maximum),
        })
    }

    fn metrics(&mut self, settings: &Settings) -> Option<MetricsOptions> {
        if settings.metrics == Some(Duration::ZERO) || !self.wants("OTEL_METRICS_EXPORTER") {
            return None;
        }
        let collector = self.collector("METRICS", "/v1/metrics", settings)?;
        let every = settings.metrics.or_else(|| self.milliseconds("OTEL_METRIC_EXPORT_INTERVAL"));
        // Never in zero time.
        let every = every.unwrap_or(Duration::from_secs(60)).max(Duration::from_millis(100));
        Some(MetricsOptions { collector, every })
    }

    /// Whether the variable that chooses an exporter leaves it at OTLP.
    fn wants(&mut self, name: &str) -> bool {
        match self.text(name).as_deref() {
            None | Some("otlp") => true,
            Some("none") => false,
            Some(_) => {
                self.mistaken(name, "`otlp` and `none` are all that there is");
                true
            }
        }
    }

    /// Where a signal goes; nothing if no endpoint is given, or one that can't be.
    fn collector(&mut self, signal: &str, path: &str, settings: &Settings) -> Option<Collector> {
        let (name, url) = match (&settings.endpoint, self.of_signal(signal, "ENDPOINT")) {
            (Some(endpoint), _) => {
                ("endpoint".to_owned(), endpoint_of(endpoint).map(|base| below(base, path)))
            }
            // The endpoint of one signal is taken as it is.
            (None, Some((name, endpoint))) if name.contains(signal) => (name, endpoint_of(&endpoint)),
            (None, Some((name, endpoint))) => (name, endpoint_of(&endpoint).map(|base| below(base, path))),
            (None, None) => return None,
        };
        let url = match url {
            Ok(url) => url,
            Err(reason) => {
                self.mistaken(&name, &reason);
                return None;
            }
        };
        if let Some((name, protocol)) = self.of_signal(signal, "PROTOCOL")
            && protocol != "http/protobuf"
        {
            self.mistaken(
                &name,
                &format!("OTLP goes over http/protobuf here, not {protocol}; it has another port"),
            );
        }
        let usual = Collector::default();
        let headers = self.of_signal(signal, "HEADERS").map(|(name, text)| self.headers(&name, &text));
        let timeout = self.of_signal(signal, "TIMEOUT").and_then(|(name, _)| self.milliseconds(&name));
        let compression = self.of_signal(signal, "COMPRESSION");
        let gzip = compression.is_some_and(|(name, compression)| match compression.as_str() {
            "gzip" => true,
            "none" => false,
            _ => {
                self.mistaken(&name, "`gzip` and `none` are all that there is");
                false
            }
        });
        Some(Collector {
            url,
            headers: headers.unwrap_or_default(),
            timeout: timeout.filter(|timeout| !timeout.is_zero()).unwrap_or(usual.timeout),
            gzip,
            certificate_authority: self.of_signal(signal, "CERTIFICATE").map(|(_, path)| path.into()),
        })
    }

    /// `name=value,name=value`, with values in percent-encoding.
    fn headers(&mut self, variable: &str, text: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (index, pair) in pairs(text).enumerate() {
            let header = pair.and_then(|(name, value)| {
                let mut value = HeaderValue::from_str(&value).ok()?;
                value.set_sensitive(true);
                Some((HeaderName::from_str(&name).ok()?, value))
            });
            match header {
                Some((name, value)) => drop(headers.append(name, value)),
                None => self.mistakes.push(format!(
                    "the {}th entry of the environment variable {variable} is ignored: it is not NAME=VALUE",
                    index + 1
                )),
            }
        }
        headers
    }

    fn sampler(&mut self) -> Sampler {
        const RATIO: &str = "OTEL_TRACES_SAMPLER_ARG";
        const NAME: &str = "OTEL_TRACES_SAMPLER";
        let ratio = |read: &mut Self, otherwise: f64| {
            let ratio = read.parsed::<f64>(RATIO, "a number from 0 to 1");
            let is_one = |ratio: &f64| (0.0..=1.0).contains(ratio);
            if ratio.as_ref().is_some_and(|ratio| !is_one(ratio)) {
                read.mistaken(RATIO, "it is not a number from 0 to 1");
            }
            ratio.filter(is_one).unwrap_or(otherwise)
        };
        let name = self.text(NAME);
        let (name, respects_parent) = match name.as_deref() {
            Some(name) => name.strip_prefix("parentbased_").map_or((name, false), |rest| (rest, true)),
            None => return Sampler { respects_parent: true, ratio: ratio(self, USUAL_RATIO) },
        };
        let ratio = match name {
            "always_on" => 1.0,
            "always_off" => 0.0,
            "traceidratio" => ratio(self, 1.0),
            _ => {
                self.mistaken(NAME, "there is no such sampler");
                return TraceOptions::default().sampler;
            }
        };
        Sampler { respects_parent, ratio }
    }

    /// What is said of this process: what the variables say, and what only the process knows.
    fn resource(&mut self, service: &str) -> Vec<(String, String)> {
        let mut resource: Vec<(String, String)> = Vec::new();
        let mut set = |name: &str, value: String| {
            resource.retain(|(other, _)| other != name);
            resource.push((name.to_owned(), value));
        };
        set("service.name", service.to_owned());
        set("service.version", env!("CARGO_PKG_VERSION").to_owned());
        set("service.instance.id", instance());
        set("process.pid", std::process::id().to_string());
        set("host.name", rustix::system::uname().nodename().to_string_lossy().into_owned());
        set("telemetry.sdk.name", "parshall".to_owned());
        set("telemetry.sdk.language", "rust".to_owned());
        set("telemetry.sdk.version", env!("CARGO_PKG_VERSION").to_owned());
        const NAME: &str = "OTEL_RESOURCE_ATTRIBUTES";
        let text = self.text(NAME).unwrap_or_default();
        // As the specification has it: one mistake, and the whole variable is of no account.
        match pairs(&text).collect::<Option<Vec<_>>>() {
            Some(attributes) => attributes.into_iter().for_each(|(name, value)| set(&name, value)),
            None => self.mistaken(NAME, "an entry is not NAME=VALUE"),
        }
        if let Some(name) = self.text("OTEL_SERVICE_NAME") {
            set("service.name", name);
        }
        resource
    }
}

/// The entries of `name=value,name=value`; nothing for one that is none.
fn pairs(text: &str) -> impl Iterator<Item = Option<(String, String)>> {
    let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
    entries.map(|entry| {
        let (name, value) = entry.split_once('=')?;
        let (name, value) = (name.trim(), value.trim());
        let decoded = |text: &str| Some(percent_decode_str(text).decode_utf8().ok()?.into_owned());
        Some((decoded(name).filter(|name| !name.is_empty())?, decoded(value)?))
    })
}

fn endpoint_of(text: &str) -> Result<Uri, String> {
    const EXAMPLE: &str = "such as http://localhost:4318";
    let url: Uri = text.parse().map_err(|_malformed| format!("it is no URL, {EXAMPLE}"))?;
    match (url.scheme_str(), url.authority()) {
        (Some("http" | "https"), Some(authority)) if authority.as_str().contains('@') => {
            Err("it has a user in it; credentials go into OTEL_EXPORTER_OTLP_HEADERS".to_owned())
        }
        (Some("http" | "https"), Some(_)) => Ok(url),
        _ => Err(format!("it is no URL of http or https, {EXAMPLE}")),
    }
}

/// The place `path` below a URL.
fn below(base: Uri, path: &str) -> Uri {
    let mut parts = base.into_parts();
    let at = parts.path_and_query.as_ref().map_or("", |path| path.path()).trim_end_matches('/');
    // A path and another behind it are one.
    parts.path_and_query = PathAndQuery::from_maybe_shared(format!("{at}{path}")).ok();
    Uri::from_parts(parts).expect("it has a scheme, an authority and a path")
}

/// A name for this process among all that there ever were: a random UUID.
fn instance() -> String {
    use std::hash::{BuildHasher as _, Hasher as _};
    let random = || std::collections::hash_map::RandomState::new().build_hasher().finish();
    let bits = (u128::from(random()) << 64) | u128::from(random());
    // Version 4, variant 1.
    let bits = bits & !(0xf << 76) & !(0x3 << 62) | (0x4 << 76) | (0x2 << 62);
    let text = format!("{bits:032x}");
    [&text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..]].join("-")
}

/// One batch of a hundred.
const USUAL_RATIO: f64 = 0.01;

#[cfg(test)]
mod tests;
