//! `parshall compare`: whether one run, or one build, is better than another.
//!
//! * Two folders of results are compared as they are.
//! * With `--binaries`, `interleaved` runs a scenario with two programs in turn until the difference is decided.

mod interleaved;

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use lab::comparison::{self, Comparison, Difference, Side};
use lab::report::{FolderError, results_file};
use lab::results::{Figure, Results};
use lab::scenario::{LoadMode, Scenario};
use lab::statistics::Design;

use crate::exit::{CommandError, Exit};
use crate::run::Format;
use crate::selection::Selection;
use crate::{logging, output};
use interleaved::{Interleaved, Plan};

/// The arguments of `compare`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  parshall compare results/monday results/fan-out/latest
  parshall compare results/monday results/tuesday --fail-on forwarded-per-s
  parshall compare --binaries ./parshall-0.1 ./parshall-0.2 --scenario fan-out --quick --only 'fan_out=32'
  parshall compare --binaries ./parshall-0.1 ./parshall-0.2 --scenario fan-out --scenario queue-forward --quick

The difference is that of a typical trial of B to a typical trial of A (Hodges-Lehmann), the interval
that of an exact rank test at 95 %. `no difference` means that any difference is below 2 %.
A proof needs at least four trials of each in folders, or six pairs with --binaries.

Exit status:
  0  they were compared, whatever the verdict; with --fail-on, a line says where there is none
  1  --fail-on: B is proven to be worse, or failed a case
     --require-verdict: a case has no verdict
  2  the command line is wrong, a file is not a result, or the conditions differ
  3  a program or folder can't be used")]
pub(crate) struct CompareArguments {
    /// The baseline: a folder with results.json, a scenario's folder (its latest run) or such a file; with --binaries a
    /// program
    a: PathBuf,

    /// The candidate, likewise
    b: PathBuf,

    /// A and B are parshall binaries: run the scenario with both alternately (A B B A …), one trial at a time
    ///
    /// A drift of the machine then affects both alike.
    #[arg(long, requires = "scenario", help_heading = "Builds")]
    binaries: bool,

    /// The scenario that both run: a name or a file. May be repeated; each is compared by itself, in this order
    ///
    /// Options for cases and trials apply to each of them. With --format json, several are an array.
    ///
    /// Example: --scenario fan-out
    #[arg(long, value_name = "SCENARIO", requires = "binaries", help_heading = "Builds")]
    scenario: Vec<String>,

    /// Maximum number of trials of each, from 6 to 100
    ///
    /// At least --trials (default 6) are run, more only while a case is undecided.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 20,
        value_parser = clap::value_parser!(u32).range(6..=100),
        help_heading = "Builds"
    )]
    max_trials: u32,

    /// Where the results of each trial go [default: a temporary folder, removed at the end]. Several scenarios have a
    /// folder each in it
    ///
    /// Example: --out results/compared
    #[arg(long, value_name = "DIR", requires = "binaries", help_heading = "Builds")]
    out: Option<PathBuf>,

    #[command(flatten)]
    selection: Selection,

    /// Compare even if machine, parameters or limits differ; the differences are printed
    #[arg(long, help_heading = "Verdict")]
    despite_differences: bool,

    /// Exit with status 1 if B is proven to be worse in this figure, in any case. May be repeated
    ///
    /// A case that B failed (it lost events, say) is worse in every figure. Undecided and invalid cases prove
    /// nothing: they are named, and with --require-verdict they fail as well.
    ///
    /// Example: --fail-on forwarded-per-s
    #[arg(long, value_name = "FIGURE", value_enum, help_heading = "Verdict")]
    fail_on: Vec<ComparedFigure>,

    /// Exit with status 1 if a case has no verdict in the figures of --fail-on, or in its main figure without it
    ///
    /// There is none if the trials are too few, a side did not pass, or a side shared the machine.
    #[arg(long, help_heading = "Verdict")]
    require_verdict: bool,

    /// What is printed on standard output
    #[arg(long, value_enum, default_value_t = Format::Table, help_heading = "Verdict")]
    format: Format,
}

/// The names of figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ComparedFigure {
    /// Events forwarded per second
    ForwardedPerS,
    /// CPU time per forwarded event
    CpuPerEvent,
    /// Peak memory
    MemoryPeak,
    /// Median of the latency
    LatencyP50,
    /// 99th percentile of the latency
    LatencyP99,
}

/// Compares, and prints the answer.
pub(crate) fn execute(arguments: CompareArguments, quiet: bool) -> Result<Exit, CommandError> {
    logging::start(quiet)?;
    if !arguments.binaries && arguments.selection.is_given() {
        return Err(CommandError::Usage {
            message: "saved results are compared as they are: options for cases and trials do not apply"
                .to_owned(),
            advice: Some("omit these options, or compare programs with --binaries".to_owned()),
        });
    }
    let (comparisons, was_interrupted) = match arguments.binaries {
        true => interleave_all(&arguments, quiet)?,
        false => (vec![compare_folders(&arguments)?], false),
    };
    output::print(&text(&comparisons, arguments.format))?;
    let figures: Vec<Figure> = arguments.fail_on.iter().map(|&name| name.into()).collect();
    let lacks = |figure: &&Figure| comparisons.iter().all(|comparison| comparison.lacks(**figure));
    if let Some(figure) = figures.iter().find(lacks) {
        return Err(CommandError::Usage {
            message: format!("--fail-on: no case can be compared by its {}", figure.title()),
            advice: Some(
                "latency is compared at a rate that both carry: load.mode=open with load.rate".to_owned(),
            ),
        });
    }
    let has_verdict = comparisons.iter().all(|comparison| comparison.undecided(&figures).is_empty());
    if !has_verdict && (arguments.require_verdict || !figures.is_empty()) {
        let line = undecided(&comparisons, &figures, arguments.require_verdict);
        // Standard output may be JSON. A closed standard error is not a failure.
        let _ = writeln!(io::stderr(), "{line}");
    }
    Ok(if was_interrupted {
        Exit::Interrupted
    } else if (arguments.require_verdict && !has_verdict)
        || comparisons.iter().any(|comparison| comparison.is_worse_in(&figures))
    {
        Exit::Failed
    } else {
        Exit::Passed
    })
}

/// Which cases have no verdict, and what that means.
fn undecided(comparisons: &[Comparison], figures: &[Figure], is_required: bool) -> String {
    let names = comparisons.iter().flat_map(|comparison| {
        let several = comparisons.len() > 1;
        let scenario = if several { format!("{}: ", comparison.scenario) } else { String::new() };
        comparison.undecided(figures).into_iter().map(move |name| format!("{scenario}{name}"))
    });
    let names = names.collect::<Vec<_>>().join(", ");
    let titles = match figures {
        [] => "the main figure".to_owned(),
        _ => figures.iter().map(|figure| figure.title()).collect::<Vec<_>>().join(" or "),
    };
    match is_required {
        true => format!("--require-verdict: no verdict on {titles} in {names}"),
        false => format!(
            "--fail-on: no verdict on {titles} in {names}: nothing is proven, so that it does not fail; \
             --require-verdict makes this a failure"
        ),
    }
}

fn text(comparisons: &[Comparison], format: Format) -> String {
    let each = |text: fn(&Comparison) -> String| -> String {
        let texts: Vec<String> = comparisons.iter().map(text).collect();
        texts.join("\n")
    };
    match format {
        Format::Table => each(comparison::table),
        Format::Markdown => each(comparison::markdown),
        Format::Json => {
            let json = match comparisons {
                [only] => serde_json::to_string_pretty(only),
                several => serde_json::to_string_pretty(several),
            };
            json.expect("a comparison has text keys and finite numbers only") + "\n"
        }
    }
}

fn compare_folders(arguments: &CompareArguments) -> Result<Comparison, CommandError> {
    let (a, b) = (read(&arguments.a)?, read(&arguments.b)?);
    compare(arguments, &a, &b, Design::Independent)
}

/// Compares both programs by each scenario. A signal ends that; what was compared until then stands.
fn interleave_all(
    arguments: &CompareArguments,
    quiet: bool,
) -> Result<(Vec<Comparison>, bool), CommandError> {
    for scenario in &arguments.scenario {
        reject_searches(scenario, &arguments.selection)?;
    }
    let temporary;
    let folder = match &arguments.out {
        Some(folder) => {
            reject_occupied(folder)?;
            folder
        }
        None => {
            temporary = tempfile::tempdir().map_err(CommandError::System)?;
            temporary.path()
        }
    };
    let mut comparisons = Vec::new();
    for (index, scenario) in arguments.scenario.iter().enumerate() {
        let own = match arguments.scenario.len() {
            1 => folder.to_owned(),
            // Two files in different places may have one name.
            _ => folder.join(format!("{}-{}", index + 1, stem(scenario))),
        };
        let (comparison, was_interrupted) = interleave(arguments, scenario, &own, quiet)?;
        comparisons.extend(comparison);
        if was_interrupted && comparisons.is_empty() {
            let message = "interrupted before each program had run once".to_owned();
            return Err(CommandError::Unavailable { message });
        }
        if was_interrupted {
            return Ok((comparisons, true));
        }
    }
    Ok((comparisons, false))
}

/// Trials of an earlier comparison are neither overwritten nor mixed with others.
fn reject_occupied(folder: &Path) -> Result<(), FolderError> {
    let entry = fs::read_dir(folder).ok().and_then(|mut entries| entries.next()?.ok());
    match entry {
        None => Ok(()),
        Some(entry) => Err(FolderError::Occupied {
            path: folder.to_owned(),
            entry: entry.file_name().to_string_lossy().into_owned(),
        }),
    }
}

/// What a scenario is called in the names of folders.
fn stem(scenario: &str) -> String {
    Path::new(scenario).file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// Compares both programs by one scenario; `None` if a signal ended that before the first pair was complete.
fn interleave(
    arguments: &CompareArguments,
    scenario: &str,
    folder: &Path,
    quiet: bool,
) -> Result<(Option<Comparison>, bool), CommandError> {
    let mut interleaved = Interleaved::new(Plan {
        programs: [&arguments.a, &arguments.b],
        scenario,
        selection: &arguments.selection,
        folder,
        quiet,
    });
    let trials = arguments.selection.trials().unwrap_or(LEAST_TRIALS);
    // One pair first: whether the two can be compared at all is better told now than after all trials.
    let mut wanted = 1;
    loop {
        let was_interrupted = interleaved.run_until(wanted)?;
        let Some((a, b)) = interleaved.results() else {
            return Ok((None, true));
        };
        let comparison = compare(arguments, &a, &b, Design::Paired)?;
        let most = arguments.max_trials.max(trials);
        match comparison.more_trials() {
            _ if wanted < trials && !was_interrupted => wanted = trials,
            Some(more) if wanted < most && !was_interrupted => {
                wanted = wanted.saturating_add(more).min(most);
            }
            _ => return Ok((Some(comparison), was_interrupted)),
        }
    }
}

/// A search takes many trials and is one observation, so there would be nothing to pair. What this program does not know
/// of the scenario, the two that run it will say.
fn reject_searches(scenario: &str, selection: &Selection) -> Result<(), CommandError> {
    let options = selection.case_options();
    let cases = Scenario::load(scenario).and_then(|scenario| scenario.cases(&options));
    let mut cases = cases.unwrap_or_default().into_iter();
    match cases.find(|case| case.parameters.load.mode == LoadMode::Capacity) {
        None => Ok(()),
        Some(case) => Err(CommandError::Usage {
            message: format!(
                "{} searches for a rate, and has no trials to compare",
                case.name
            ),
            advice: Some(
                "compare at a rate that both sustain, with load.mode=open and load.rate, or what they can carry, with \
                 load.mode=saturate"
                    .to_owned(),
            ),
        }),
    }
}

fn compare(
    arguments: &CompareArguments,
    a: &Results,
    b: &Results,
    design: Design,
) -> Result<Comparison, CommandError> {
    let differences = comparison::differences(a, b);
    if !differences.is_empty() && !arguments.despite_differences {
        return Err(refusal(&differences));
    }
    let name = |path: &Path| path.display().to_string();
    let (name_a, name_b) = (name(&arguments.a), name(&arguments.b));
    let side = |name, results| Side { name, results };
    Comparison::of(side(&name_a, a), side(&name_b, b), design, differences)
        .map_err(|error| CommandError::Usage { message: error.to_string(), advice: None })
}

fn refusal(differences: &[Difference]) -> CommandError {
    let list: Vec<String> = differences.iter().map(|difference| format!("\n  {difference}")).collect();
    CommandError::Usage {
        message: format!("the results were not taken under the same conditions:{}", list.concat()),
        advice: Some(
            "run both on one machine with the same parameters, or compare anyway with --despite-differences"
                .to_owned(),
        ),
    }
}

/// The results in a folder or file.
fn read(path: &Path) -> Result<Results, CommandError> {
    let file = match path.is_dir() {
        true => results_file(path),
        false => path.to_owned(),
    };
    let text = std::fs::read_to_string(&file).map_err(|error| CommandError::Unavailable {
        message: format!("{} can't be read: {error}", file.display()),
    })?;
    parse(&text, &file.display().to_string())
}

fn parse(text: &str, place: &str) -> Result<Results, CommandError> {
    serde_json::from_str(text).map_err(|error| CommandError::Usage {
        message: format!("{place} contains no results of this version: {error}"),
        advice: Some(
            "give a folder of results that `parshall run` has written, or its results.json".to_owned(),
        ),
    })
}

impl From<ComparedFigure> for Figure {
    fn from(name: ComparedFigure) -> Self {
        match name {
            ComparedFigure::ForwardedPerS => Self::ForwardedPerS,
            ComparedFigure::CpuPerEvent => Self::CpuUsPerEvent,
            ComparedFigure::MemoryPeak => Self::MemoryPeakBytes,
            ComparedFigure::LatencyP50 => Self::LatencyP50,
            ComparedFigure::LatencyP99 => Self::LatencyP99,
        }
    }
}

/// Fewer pairs have no interval at 95 %.
const LEAST_TRIALS: u32 = 6;
