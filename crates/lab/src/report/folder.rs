//! The folder that a run leaves behind.
//!
//! ```text
//! results.json    everything, for programs
//! results.csv     a row per case and trial
//! report.html     everything, for people
//! latency.hlog    latencies per interval, for HdrHistogram's tools
//! ```
//!
//! Every file is written beside its place, flushed to the disk and renamed into it, so whoever looks at any
//! moment, after a crash too, finds a whole report: the one before or the one after. What is made here is readable for
//! its owner alone.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use partition_log::durable_file;

use super::latency_log::LatencyLog;
use super::{CsvReport, HtmlReport, JsonReport, Report, ReportError};
use crate::results::{Results, TrialRecord};

/// The reports of one run on disk.
#[derive(Debug)]
pub struct ResultsFolder {
    path: PathBuf,
    latency_log: LatencyLog,
}

/// The folder can't take the results.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The folder does not exist and can't be made.
    #[error("the results folder {} can't be created: {source}", path.display())]
    Create {
        /// The folder.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A file in it can't be written.
    #[error("{} can't be written: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A report can't be made.
    #[error(transparent)]
    Report(#[from] ReportError),
}

impl ResultsFolder {
    /// Creates the folder, if need be with its parents, and proves that files can be written in it, before
    /// any time is spent on measuring. Results of an earlier run in it are replaced when the first are written.
    ///
    /// # Errors
    /// If the folder can't be created, or is not writable.
    pub fn create(path: &Path) -> Result<Self, FolderError> {
        create_directories(path).map_err(|source| FolderError::Create { path: path.to_owned(), source })?;
        let trial = path.join(".writable");
        create_file(&trial)
            .and_then(|_| fs::remove_file(&trial))
            .map_err(|source| FolderError::Write { path: path.to_owned(), source })?;
        Ok(Self { path: path.to_owned(), latency_log: LatencyLog::starting_at(SystemTime::now()) })
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
    /// If a report can't be made or a file can't be written. Files not yet reached keep their old content.
    pub fn write(&self, results: &Results) -> Result<(), FolderError> {
        self.replace("results.json", &JsonReport.render(results)?)?;
        self.replace("results.csv", &CsvReport.render(results)?)?;
        self.replace(REPORT, &HtmlReport.render(results)?)?;
        self.replace("latency.hlog", &self.latency_log.text())
    }

    fn replace(&self, name: &str, content: &str) -> Result<(), FolderError> {
        let path = self.path.join(name);
        let replaced = durable_file::replace(&path, content.as_bytes());
        replaced.map_err(|error| FolderError::Write { path, source: error.into() })
    }
}

/// Makes a directory with its parents, as far as they are not there, for its owner alone: results tell of a customer's
/// system, and logs of roles of more. What is there keeps its mode.
///
/// # Errors
/// What the system says.
pub(crate) fn create_directories(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
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

const REPORT: &str = "report.html";

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
        let folder = ResultsFolder::create(&directory.path().join("deep/er")).unwrap();
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
        let folder = ResultsFolder::create(&users.join("deep/er")).unwrap();
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
        let folder = ResultsFolder::create(directory.path()).unwrap();
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
        let folder = ResultsFolder::create(directory.path()).unwrap();
        folder.write(&sample::complete()).unwrap();
        let before = fs::read(directory.path().join("results.json")).unwrap();
        fs::create_dir(directory.path().join("results.json.new")).unwrap();
        let error = folder.write(&sample::interrupted()).unwrap_err();
        assert!(error.to_string().contains("results.json can't be written"), "{error}");
        assert_eq!(fs::read(directory.path().join("results.json")).unwrap(), before);
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
