//! What is said around the work of a role: who it is, what its clock shows, what its process uses.

use serde::{Deserialize, Serialize};

use super::{Command, RoleConfig};
use crate::{probe::ProcessSample, results::Machine};

/// A line to a role.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Line {
    /// What it is to be: once, before any command.
    Role(Box<Assignment>),
    /// What its clock shows: at any time.
    Clock(ClockQuestion),
    /// What it is to do.
    Do(Command),
}

/// What a role is to be, and where it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Assignment {
    /// What it is to be.
    pub config: RoleConfig,
    /// Whether it was started by a command of the scenario. Its folders are its own then, and it ends if it hears nothing
    /// for a while: the end of its input may never reach it.
    #[serde(default)]
    pub is_launched: bool,
}

/// The first report of every role.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hello {
    /// Which program it is.
    pub build: Build,
    /// What it runs on.
    pub machine: Machine,
}

/// A program that knows the roles. Two of the same build understand each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Build {
    /// The version of Parshall.
    pub version: String,
    /// A hash of the sources, which distinguishes builds of one version.
    pub sources: String,
    /// `debug` or `release`: what is slower by so much must not be measured in place of the other.
    #[serde(default)]
    pub profile: String,
}

/// Asks for the clock of a role's machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClockQuestion {
    /// When it was asked, by the clock of who asks, in nanoseconds.
    pub asked_ns: i64,
    /// Whether to say what the process uses as well.
    pub with_usage: bool,
}

/// What the clock of a role's machine showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClockAnswer {
    /// The question's own.
    pub asked_ns: i64,
    /// When the question came, by the role's clock.
    pub heard_ns: i64,
    /// When the answer left, by the role's clock.
    pub answered_ns: i64,
    /// What the process uses, if that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<ProcessSample>,
}

impl Hello {
    /// That of this process.
    #[must_use]
    pub fn of_this_process() -> Self {
        Self { build: Build::of_this_program(), machine: Machine::of_this_process() }
    }
}

impl Build {
    /// That of this program.
    #[must_use]
    pub fn of_this_program() -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            sources: env!("PARSHALL_SOURCES").to_owned(),
            profile: env!("PARSHALL_PROFILE").to_owned(),
        }
    }
}

impl std::fmt::Display for Build {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { version, sources, profile } = self;
        write!(formatter, "parshall {version} ({sources}")?;
        // Builds of the past did not say it.
        if !profile.is_empty() {
            write!(formatter, ", {profile}")?;
        }
        formatter.write_str(")")
    }
}
