//! The lab through its public face: scenarios, runs whose truth is known, and results of earlier builds.

mod golden;
mod honesty;
mod scenario;
