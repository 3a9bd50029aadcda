//! Strict reading of the YAML files that people write for Parshall: scenarios and pipelines.
//!
//! A file becomes a [`Document`], a tree in which every key and value knows its [`Place`]. The document is edited
//! while it is still text-like: variables are filled in, sections overlaid, `--set` arguments applied. Only then is it
//! typed, by serde. So whatever is wrong, wherever it came from, is one [`SettingsError`] that tells file, line,
//! column, dotted key, what was found, what is allowed, and shows the line, without the keys and passwords in it.
//!
//! ```
//! # #[derive(Debug, serde::Deserialize)]
//! # #[serde(deny_unknown_fields)]
//! # struct Settings { relay: Relay }
//! #[derive(Debug, serde::Deserialize)]
//! #[serde(deny_unknown_fields)]
//! struct Relay { fan_out: u32 }
//!
//! let mut document = settings::Document::parse("demo.yaml", "relay:\n  fan_out: ${FAN_OUT:-32}\n")?;
//! document.set("relay.fan_out=64")?;
//! document.fill_in(|_variable| None)?;
//! assert_eq!(document.typed::<Settings>()?.relay.fan_out, 64);
//!
//! document.set("relay.fanout=64")?;
//! let error = document.typed::<Settings>().unwrap_err();
//! assert_eq!(error.to_string(), "--set:1:7: `relay.fanout` is not a known key");
//! # Ok::<(), settings::SettingsError>(())
//! ```
//!
//! Types that are read this way say `deny_unknown_fields`. They avoid serde's `flatten`, `untagged` and internally
//! tagged enums, which buffer values and forget where they stood; a value with two shapes is read by a hand-written
//! visitor instead.
//!
//! JSON is YAML, but for comments: in a text whose name ends in `.json` they are passed over.
//!
//! Files are bounded in size, depth and repetition, so that no file can exhaust the process that reads it.

pub mod address;
mod assignment;
mod comments;
mod deserialize;
mod document;
mod error;
mod node;
mod parse;
mod place;
mod secrets;
mod suggestion;
mod variables;

pub use document::Document;
pub use error::{Mistake, MistakeKind, SettingsError};
pub use node::{Content, Entry, Node};
pub use place::Place;
pub use suggestion::nearest;
