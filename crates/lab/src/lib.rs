//! TODO-doc

pub mod clock;
pub mod figure;
pub mod limits;
pub mod load;
pub mod payload;
pub mod probe;
pub mod progress;
pub mod record;
pub mod report;
pub mod results;
pub mod roles;
pub mod run;
pub mod scenario;
pub mod verify;
