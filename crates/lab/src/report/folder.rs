//! The folder that a run leaves behind.
//!
//! ```text
//! results/SCENARIO/2026-11-22T201530Z/   one run; `--out` names another folder
//!   results.json    everything, for programs
//!   results.csv     a row per case and trial
//!   report.html     everything, for people
//!   latency.hlog    latencies per interval, for HdrHistogram's tools
//!   logs/           what the roles wrote, a folder per trial
//! results/SCENARIO/latest                a link to the newest run that has results
//! ```
//!
//! A run has a folder of its own and overwrites no other's. Every file is written beside its place, flushed to the disk
//! and renamed into it, so a reader finds a whole report at any time, even after a crash: the one before or the one
//! after. Only the owner can read what is created here.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use partition_log::durable_file;
use units::date::iso_date;

use super::latency_log::LatencyLog;
use super::{CsvReport, HtmlReport, JsonReport, Report, ReportError};
use crate::results::{Results, TrialRecord};

/// The reports of one run on disk.
#[derive(Debug)]
pub struct ResultsFolder {
    path: PathBuf,
    /// The link that is to lead here, once there are results.
    latest: Option<PathBuf>,
    latency_log: LatencyLog,
}

/// The folder can't take the results.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The folder does not exist and can't be created.
    #[error("the results folder {} can't be created: {source}", path.display())]
    Create {
        /// The folder.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// It holds what another run left there.
    #[error("{} already contains `{entry}` of another run", path.display())]
    Occupied {
        /// The folder.
        path: PathBuf,
        /// What is there.
        entry: String,
    },
    /// Files in it can't be written.
    #[error("{} in {} can't be written: {source}", files.join(", "), path.display())]
    Write {
        /// The folder.
        path: PathBuf,
        /// The names of the files.
        files: Vec<&'static str>,
        /// What the system says about the first of them.
        source: io::Error,
    },
    /// A report can't be made.
    #[error(transparent)]
    Report(#[from] ReportError),
}

impl ResultsFolder {
    /// Creates exactly this folder, if need be with its parents, and proves that files can be written in it, before any
    /// time is spent on measuring.
    ///
    /// # Errors
    /// The folder can't be created, is not writable, or holds the results of another run.
    pub fn create(path: &Path) -> Result<Self, FolderError> {
        make(path, create_directories)?;
        if let Some(entry) = ENTRIES.into_iter().find(|entry| path.join(entry).exists()) {
            return Err(FolderError::Occupied { path: path.to_owned(), entry: entry.to_owned() });
        }
        Self::checked(path.to_owned(), None)
    }

    /// Creates a folder in `parent` that is named after the time, such as `2026-11-22T201530Z`. The link `latest` beside
    /// it leads to it from the first results on.
    ///
    /// # Errors
    /// The folder can't be created or is not writable, or `latest` is something else than a link.
    pub fn create_dated(parent: &Path, now: SystemTime) -> Result<Self, FolderError> {
        make(parent, create_directories)?;
        let latest = parent.join(LATEST);
        if fs::symlink_metadata(&latest).is_ok_and(|latest| !latest.is_symlink()) {
            return Err(FolderError::Occupied { path: parent.to_owned(), entry: LATEST.to_owned() });
        }
        // Names of folders with a colon have to be quoted in shells and can't be copied to every file system.
        let date = iso_date(now).replace(':', "");
        for number in 1_u32.. {
            let path = match number {
                1 => parent.join(&date),
                _ => parent.join(format!("{date}-{number}")),
            };
            match make(&path, |path| DirBuilder::new().mode(OWNER_ONLY).create(path)) {
                Err(FolderError::Create { source, .. }) if source.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
                Ok(()) => return Self::checked(path, Some(latest)),
            }
        }
        unreachable!("a folder has fewer entries than there are numbers")
    }

    fn checked(path: PathBuf, latest: Option<PathBuf>) -> Result<Self, FolderError> {
        let trial = path.join(".writable");
        // Content, because a full disk may still have room for an empty file.
        let written = create_file(&trial).and_then(|mut file| file.write_all(&[0; 4096]));
        let removed = fs::remove_file(&trial);
        match written.and(removed) {
            Ok(()) => Ok(Self { path, latest, latency_log: LatencyLog::starting_at(SystemTime::now()) }),
            Err(source) => {
                // A dated folder is of no use without results. One that holds anything stays.
                let _ = fs::remove_dir(&path);
                Err(FolderError::Write { path, files: vec!["files"], source })
            }
        }
    }

    /// Where the folder is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The page to open in a browser.
    #[must_use]
    pub fn report_path(&self) -> PathBuf {
        self.path.join(REPORT)
    }

    /// Adds a trial's latencies to the interval log. They are on disk after the next [`ResultsFolder::write`].
    pub fn add_trial(&mut self, case: &str, record: &TrialRecord) {
        self.latency_log.add(case, record);
    }

    /// Replaces all reports by those of `results`; to be called after each trial and at the end.
    ///
    /// # Errors
    /// A report can't be made, or files can't be written. They keep their old content; all others are written.
    pub fn write(&mut self, results: &Results) -> Result<(), FolderError> {
        let contents = [
            (RESULTS, JsonReport.render(results)?),
            ("results.csv", CsvReport.render(results)?),
            (REPORT, HtmlReport.render(results)?),
            ("latency.hlog", self.latency_log.text().to_owned()),
        ];
        let mut failures = Vec::new();
        for (name, content) in contents {
            if let Err(error) = durable_file::replace(&self.path.join(name), content.as_bytes()) {
                failures.push((name, error.source));
            }
        }
        if let Some(latest) = &self.latest
            && failures.is_empty()
        {
            match replace_link(latest, &self.path) {
                Ok(()) => self.latest = None,
                Err(error) => failures.push(("the link `latest`", error)),
            }
        }
        let (files, mut sources): (Vec<_>, Vec<io::Error>) = failures.into_iter().unzip();
        match files.is_empty() {
            true => Ok(()),
            false => {
                Err(FolderError::Write { path: self.path.clone(), files, source: sources.swap_remove(0) })
            }
        }
    }
}

/// The file of results in a folder of results, or in the newest in a folder of dated ones.
#[must_use]
pub fn results_file(folder: &Path) -> PathBuf {
    let own = folder.join(RESULTS);
    let latest = folder.join(LATEST).join(RESULTS);
    if !own.exists() && latest.exists() { latest } else { own }
}

/// Makes `link` lead to `folder` beside it. A reader finds the old link or the new one.
fn replace_link(link: &Path, folder: &Path) -> io::Result<()> {
    let name = folder.file_name().unwrap_or_default();
    // The folder is this run's alone, and so is a link in it.
    let new = folder.join(".latest");
    symlink(name, &new)?;
    let replaced = fs::rename(&new, link);
    if replaced.is_err() {
        let _ = fs::remove_file(&new);
    }
    replaced
}

fn make(path: &Path, create: impl Fn(&Path) -> io::Result<()>) -> Result<(), FolderError> {
    create(path).map_err(|source| FolderError::Create { path: path.to_owned(), source })
}

/// Creates a directory and its missing parents, readable by the owner only: results and logs describe a customer's system.
/// Existing directories keep their mode.
///
/// # Errors
/// What the system says.
pub(crate) fn create_directories(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(OWNER_ONLY).create(path)
}

/// Opens an empty file for writing, which is its owner's alone if it is made here.
///
/// # Errors
/// What the system says.
pub(crate) fn create_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.open(path)
}

const RESULTS: &str = "results.json";

const REPORT: &str = "report.html";

/// The link to the newest folder.
const LATEST: &str = "latest";

/// What shows that a run has used a folder.
const ENTRIES: [&str; 2] = [RESULTS, "logs"];

const OWNER_ONLY: u32 = 0o700;

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    fn names(path: &Path) -> Vec<String> {
        let entries = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_written_folder_has_every_report_and_no_leftovers() {
        let directory = tempfile::tempdir().unwrap();
        let mut folder = ResultsFolder::create(&directory.path().join("deep/er")).unwrap();
        folder.write(&sample::complete()).unwrap();
        assert_eq!(names(folder.path()), ["latency.hlog", "report.html", "results.csv", "results.json"]);
        assert!(folder.report_path().is_file());
    }

    #[test]
    fn what_is_made_is_for_its_owner_alone_and_what_was_there_keeps_its_mode() {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let directory = tempfile::tempdir().unwrap();
        let users = directory.path().join("users");
        fs::create_dir(&users).unwrap();
        fs::set_permissions(&users, fs::Permissions::from_mode(0o755)).unwrap();
        let mut folder = ResultsFolder::create(&users.join("deep/er")).unwrap();
        folder.write(&sample::complete()).unwrap();
        assert_eq!(mode(&users), 0o755);
        for made in [users.join("deep"), users.join("deep/er")] {
            assert_eq!(mode(&made), 0o700, "{}", made.display());
        }
        for name in names(folder.path()) {
            assert_eq!(mode(&folder.path().join(&name)), 0o600, "{name}");
        }
    }

    #[test]
    fn each_write_replaces_the_partial_report_before_it() {
        let directory = tempfile::tempdir().unwrap();
        let mut folder = ResultsFolder::create(directory.path()).unwrap();
        let complete = || -> bool {
            let text = fs::read(directory.path().join("results.json")).unwrap();
            serde_json::from_slice::<Results>(&text).unwrap().complete
        };
        folder.write(&sample::interrupted()).unwrap();
        assert!(!complete());
        folder.write(&sample::complete()).unwrap();
        assert!(complete());
    }

    #[test]
    fn a_failed_write_leaves_the_report_before_it_whole() {
        let directory = tempfile::tempdir().unwrap();
        let mut folder = ResultsFolder::create(directory.path()).unwrap();
        folder.write(&sample::complete()).unwrap();
        let before = fs::read(directory.path().join("results.json")).unwrap();
        fs::create_dir(directory.path().join("results.json.new")).unwrap();
        let error = folder.write(&sample::interrupted()).unwrap_err();
        let named = format!("results.json in {} can't be written: ", directory.path().display());
        assert!(error.to_string().starts_with(&named), "{error}");
        assert_eq!(fs::read(directory.path().join("results.json")).unwrap(), before);
        let report = fs::read_to_string(directory.path().join("report.html")).unwrap();
        assert!(report.contains("interrupted"), "what can be written is");
    }

    #[test]
    fn runs_that_start_in_one_second_have_folders_of_their_own_and_the_link_leads_to_the_last_with_results() {
        let directory = tempfile::tempdir().unwrap();
        let parent = directory.path().join("results/fan-out");
        let now = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_795_213_063);
        let mut first = ResultsFolder::create_dated(&parent, now).unwrap();
        let mut second = ResultsFolder::create_dated(&parent, now).unwrap();
        let _unused = ResultsFolder::create_dated(&parent, now).unwrap();
        let date = "2026-11-20T221743Z";
        assert_eq!(names(&parent), [date.to_owned(), format!("{date}-2"), format!("{date}-3")]);
        let latest = || fs::read_link(parent.join("latest")).unwrap().display().to_string();
        first.write(&sample::complete()).unwrap();
        assert_eq!(latest(), date);
        second.write(&sample::interrupted()).unwrap();
        first.write(&sample::complete()).unwrap();
        assert_eq!(latest(), format!("{date}-2"), "a run moves the link once");
        assert_eq!(results_file(&parent), parent.join("latest/results.json"));
        assert_eq!(results_file(first.path()), first.path().join("results.json"));
        let expected = ["latency.hlog", "report.html", "results.csv", "results.json"];
        assert_eq!(names(second.path()), expected);
    }

    #[test]
    fn results_of_another_run_are_not_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        ResultsFolder::create(directory.path()).unwrap().write(&sample::complete()).unwrap();
        let error = ResultsFolder::create(directory.path()).unwrap_err();
        assert!(matches!(&error, FolderError::Occupied { entry, .. } if entry == "results.json"), "{error}");
        let taken = directory.path().join("taken");
        fs::create_dir_all(taken.join("latest")).unwrap();
        let error = ResultsFolder::create_dated(&taken, SystemTime::now()).unwrap_err();
        assert!(matches!(&error, FolderError::Occupied { entry, .. } if entry == "latest"), "{error}");
    }

    #[test]
    fn a_path_that_is_a_file_is_refused_before_the_run() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("taken");
        fs::write(&path, "").unwrap();
        let error = ResultsFolder::create(&path).unwrap_err();
        assert!(error.to_string().contains("taken can't be created"), "{error}");
    }
}
