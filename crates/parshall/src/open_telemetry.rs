//! Traces and metrics of this process that go to a collector, if that is asked for.

use telemetry::options::{Options, Settings};
use telemetry::{Exporter, MetricsPage, Tracer};

use crate::exit::CommandError;
use crate::signals::StopSignals;

/// For processes that trace nothing.
pub(crate) const METRICS_ALONE: Settings = Settings { endpoint: None, traces: Some(0.0), metrics: None };

/// What exports the telemetry of this process; empty where none is exported.
#[derive(Debug, Default)]
pub(crate) struct OpenTelemetry {
    exporter: Option<Exporter>,
    /// What is exported where, for the plan.
    place: String,
}

impl OpenTelemetry {
    /// Begins to export what `page` tells, and the spans of the tracers, if the settings or the environment name a collector.
    /// The process is known as `service`, unless the environment says otherwise.
    pub(crate) fn start(
        service: &str,
        settings: &Settings,
        page: impl MetricsPage,
    ) -> Result<Self, CommandError> {
        let Some(options) = Options::of_this_process(service, settings) else {
            return Ok(Self::default());
        };
        let place = options.to_string();
        let exporter = Exporter::start(options, page).map_err(|error| CommandError::Refused {
            message: format!("telemetry can't be exported: {error}"),
            advice: Some("correct OTEL_EXPORTER_OTLP_CERTIFICATE".to_owned()),
        })?;
        Ok(Self { exporter: Some(exporter), place })
    }

    /// Makes the spans of a pipeline; nothing if there are no traces.
    pub(crate) fn tracer(&self) -> Option<Tracer> {
        self.exporter.as_ref().and_then(Exporter::tracer)
    }

    /// Whether metrics are exported.
    pub(crate) fn exports_metrics(&self) -> bool {
        self.exporter.as_ref().is_some_and(Exporter::exports_metrics)
    }

    /// A line of the plan; none where nothing is exported.
    pub(crate) fn line(&self) -> String {
        match self.exporter {
            Some(_) => format!("telemetry    {}\n", self.place),
            None => String::new(),
        }
    }

    /// Exports what is left, which takes a few seconds at most.
    pub(crate) async fn shut_down(self, last_page: Option<String>) {
        if let Some(exporter) = self.exporter {
            exporter.shut_down(last_page).await;
        }
    }

    /// The same, unless another signal comes.
    pub(crate) async fn shut_down_patiently(self, last_page: Option<String>, signals: &mut StopSignals) {
        tokio::select! {
            () = self.shut_down(last_page) => {}
            _ = signals.next() => {}
        }
    }
}
