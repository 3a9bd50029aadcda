//! `parshall run`: measures the cases of a scenario.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use clap::{Args, ValueEnum};
use lab::limits::Limiter;
use lab::live::{LiveMetrics, LivePage, LivePageParts};
use lab::progress::{Observer, Observers};
use lab::report::{
    Colour, FolderError, JsonReport, MarkdownReport, Report as _, ReportError, ResultsFolder, TableReport,
};
use lab::results::{Noun, RunIdentity};
use lab::roles::process::ProcessLauncher;
use lab::run::{RunOptions, RunOutcome};
use lab::scenario::{Case, Prices, Scenario};
use settings::Document;
use telemetry::MetricsPage as _;

use crate::exit::{CommandError, Exit};
use crate::file_kind;
use crate::open_telemetry::{METRICS_ALONE, OpenTelemetry};
use crate::progress::ProgressDisplay;
use crate::selection::Selection;
use crate::terminal::Terminal;
use crate::{listening, logging, output, signals, target};

/// The arguments of `run`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  parshall run fan-out --quick
  parshall run fan-out --only 'fan_out=32' --set load.mode=backlog --set relay.batch.events=256
  parshall run fan-out --sweep cores_memory --sweep batch --trials 6
  EVENT_HUBS_CONNECTION_STRING='Endpoint=sb://…' parshall run ./mine.yaml --target namespace")]
pub(crate) struct RunArguments {
    /// The name of a scenario (see `parshall list`) or the path of a file, such as `fan-out` or `./mine.yaml`
    pub(crate) scenario: String,

    #[command(flatten)]
    pub(crate) selection: Selection,

    /// The folder for results.json, results.csv, the latency logs and the HTML report; created if missing [default:
    /// results/SCENARIO/DATE, with a link `latest` beside it]
    ///
    /// It must not contain the results of another run. Example: --out results/monday
    #[arg(long, value_name = "DIR", help_heading = "Results")]
    pub(crate) out: Option<PathBuf>,

    /// A YAML file with prices, for the cost of a million events: currency, core_hour, gib_hour, throughput_unit_hour,
    /// million_operations [default: the section `prices` of the scenario]
    ///
    /// Example: --prices prices.yaml
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub(crate) prices: Option<PathBuf>,

    /// The address for /metrics, /live and /ready of the run while it goes on; port 0 picks a free port [default: none]
    ///
    /// Example: --metrics 127.0.0.1:9465
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = settings::address::parse, help_heading = "Monitoring")]
    pub(crate) metrics: Option<SocketAddr>,

    /// The address for a page with the charts of the run while it goes on; port 0 picks a free port [default: none]
    ///
    /// Example: --live 127.0.0.1:5401
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = settings::address::parse, help_heading = "Monitoring")]
    pub(crate) live: Option<SocketAddr>,

    /// What is printed on standard output
    ///
    /// Example: --format json > results.json
    #[arg(long, value_enum, default_value_t = Format::Table, help_heading = "Results")]
    pub(crate) format: Format,
}

/// Forms of the results on standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A table for a terminal, verdict first
    Table,
    /// Exactly the content of results.json
    Json,
    /// A table for a document
    Markdown,
}

/// Runs the cases, shows how it goes, and prints what came out.
pub(crate) fn execute(arguments: RunArguments, quiet: bool) -> Result<Exit, CommandError> {
    logging::start(quiet)?;
    let scenario = file_kind::scenario(&arguments.scenario)?;
    let prices = match &arguments.prices {
        Some(path) => Some(Document::read(path)?.typed()?),
        None => scenario.prices().cloned(),
    };
    let mut options = arguments.selection.case_options();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(CommandError::System)?;
    let outcome = runtime.block_on(async {
        // Queues have nothing that must fit. If one is missing, the roles report it.
        options.found = target::find(scenario.hubs(&options)?).await?;
        let cases = scenario.cases(&options)?;
        target::announce(&cases);
        measure(&arguments, &scenario, &cases, prices, quiet).await
    })?;
    let text = match arguments.format {
        Format::Table => table(&outcome),
        Format::Json => JsonReport.render(&outcome.results),
        Format::Markdown => MarkdownReport.render(&outcome.results),
    };
    let text = text.map_err(|error| CommandError::Unavailable { message: error.to_string() })?;
    output::print(&text)?;
    if let Some(error) = outcome.unwritten {
        return Err(error.into());
    }
    Ok(if outcome.was_cancelled {
        Exit::Interrupted
    } else if outcome.results.passed() {
        Exit::Passed
    } else {
        Exit::Failed
    })
}

async fn measure(
    arguments: &RunArguments,
    scenario: &Scenario,
    cases: &[Case],
    prices: Option<Prices>,
    quiet: bool,
) -> Result<RunOutcome, CommandError> {
    let cancellation = signals::cancellation()?;
    let display = ProgressDisplay::start(Terminal::of_stderr(), quiet || logging::is_json())
        .map_err(CommandError::System)?;
    let launcher = ProcessLauncher::of_this_program()
        .map_err(|error| CommandError::Unavailable { message: error.to_string() })?;
    let options = RunOptions {
        scenario: scenario.name().to_owned(),
        description: Some(scenario.description().to_owned()),
        prices,
        identity: RunIdentity {
            version: env!("PARSHALL_VERSION").to_owned(),
            command: command(),
            target: cases.first().map_or_else(String::new, |case| target::name(&case.parameters.target)),
            seed: cases.first().map_or(0, |case| case.parameters.load.seed),
        },
        // A bad folder must not cost the time of a measurement.
        folder: results_folder(arguments, scenario)?,
    };
    let live = LiveMetrics::of(scenario.name());
    let telemetry = OpenTelemetry::start("parshall-lab", &METRICS_ALONE, live.clone())?;
    if let Some(address) = arguments.metrics {
        serve_metrics(&live, address)?;
    }
    let page = LivePage::of(LivePageParts {
        scenario: scenario.name().to_owned(),
        description: scenario.description().to_owned(),
        noun: cases.first().map_or(Noun::Events, |case| case.parameters.topology().noun()),
        report: options.folder.report_path(),
    });
    if let Some(address) = arguments.live {
        serve_page(&page, address)?;
    }
    let mut observers: Vec<&dyn Observer> = vec![&display];
    if arguments.live.is_some() {
        observers.push(&page);
    }
    // Relays tell their metrics only if somebody wants to see them.
    if arguments.metrics.is_some() || telemetry.exports_metrics() {
        observers.push(&live);
    }
    let observer = &Observers(&observers);
    let outcome = lab::run::run(cases, options, &launcher, &Limiter::detect(), observer, cancellation).await;
    telemetry.shut_down(live.page().await).await;
    Ok(outcome)
}

/// Serves the metrics of the run, and says where.
fn serve_metrics(live: &LiveMetrics, address: SocketAddr) -> Result<(), CommandError> {
    let address = live.serve(address).map_err(|error| CommandError::Listen {
        message: format!("the metrics can't be served on {address}: {error}"),
        advice: listening::advice(&error, address, "--metrics "),
    })?;
    tracing::info!("metrics at http://{address}/metrics");
    Ok(())
}

/// Serves the live page of the run, and says where.
fn serve_page(page: &LivePage, address: SocketAddr) -> Result<(), CommandError> {
    let address = page.serve(address).map_err(|error| CommandError::Listen {
        message: format!("the live page can't be served on {address}: {error}"),
        advice: listening::advice(&error, address, "--live "),
    })?;
    tracing::info!("live page at http://{address}/");
    Ok(())
}

fn results_folder(arguments: &RunArguments, scenario: &Scenario) -> Result<ResultsFolder, FolderError> {
    match &arguments.out {
        Some(folder) => ResultsFolder::create(folder),
        None => ResultsFolder::create_dated(&Path::new(RESULTS).join(scenario.name()), SystemTime::now()),
    }
}

fn table(outcome: &RunOutcome) -> Result<String, ReportError> {
    let terminal = Terminal::of_stdout();
    let colour = if terminal.colours { Colour::Always } else { Colour::Never };
    let mut text = TableReport { width: terminal.width, colour }.render(&outcome.results)?;
    if outcome.unwritten.is_none() {
        let report = outcome.folder.report_path();
        text.push_str(&format!("\nThe report with plots: {}\n", report.display()));
    }
    Ok(text)
}

/// The command that repeats this run.
fn command() -> String {
    let quoted = |argument: String| {
        let is_plain =
            |character: char| character.is_ascii_alphanumeric() || "-_./=:,@%+".contains(character);
        if !argument.is_empty() && argument.chars().all(is_plain) {
            argument
        } else {
            format!("'{}'", argument.replace('\'', r"'\''"))
        }
    };
    let arguments = std::env::args().skip(1).map(quoted);
    std::iter::once("parshall".to_owned()).chain(arguments).collect::<Vec<_>>().join(" ")
}

/// Where results are kept, a folder per scenario.
const RESULTS: &str = "results";
