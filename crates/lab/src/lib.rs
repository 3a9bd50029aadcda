//! TODO-doc

pub mod figure;
pub mod progress;
pub mod report;
pub mod results;
