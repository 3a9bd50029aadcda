//! Results as people and programs read them.
//!
//! Each output is one file behind the trait [`Report`] and reads nothing but [`Results`]: the terminal's
//! table, Markdown, CSV, JSON, and one self-contained HTML page. [`ResultsFolder`] keeps all of them on disk,
//! current after each case, so that an interrupted run leaves a report of what it had.

mod columns;
mod csv;
mod destinations;
mod folder;
mod html;
mod json;
mod latency_log;
mod markdown;
#[cfg(test)]
pub(crate) mod sample;
mod search;
mod table;
mod verdict;

pub use csv::CsvReport;
pub use folder::{FolderError, ResultsFolder, results_file};
pub(crate) use folder::{create_directories, create_file};
pub use html::HtmlReport;
pub(crate) use html::course_so_far;
pub use json::JsonReport;
pub use markdown::MarkdownReport;
pub use table::{Colour, TableReport};

use crate::results::Results;

/// One way to present results.
pub trait Report {
    /// The whole report as text that ends with a line feed.
    ///
    /// # Errors
    /// If a template or a serializer fails, which is a fault of the report and not of the results.
    fn render(&self, results: &Results) -> Result<String, ReportError>;
}

/// A report could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The results can't be written as JSON.
    #[error("the results can't be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// The page can't be filled in.
    #[error("the report page can't be rendered: {0}")]
    Page(#[from] askama::Error),
}
