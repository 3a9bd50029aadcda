//! Notes the commit that the program is built from, for `--version`. Where there is no repository, as in an archive of the
//! sources, there is none, unless the variable PARSHALL_COMMIT names it.
//!
//! Only this crate depends on it: a commit that changes nothing else builds nothing else again.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let version = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let commit = env::var("PARSHALL_COMMIT").ok().filter(|commit| !commit.is_empty()).or_else(commit);
    let shown = match &commit {
        Some(commit) => format!("{version} ({commit})"),
        None => version,
    };
    println!("cargo::rustc-env=PARSHALL_REVISION={}", commit.unwrap_or_default());
    println!("cargo::rustc-env=PARSHALL_VERSION={shown}");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=PARSHALL_COMMIT");
    // What can change the answer: another commit, and other sources.
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"]).map(PathBuf::from);
    for path in log.into_iter().chain(sources()).filter(|path| path.exists()) {
        println!("cargo::rerun-if-changed={}", path.display());
    }
}

/// The first digits of the commit, and whether the sources differ from it.
fn commit() -> Option<String> {
    // A repository around an unpacked archive is not this program's.
    git(&["ls-files", "--error-unmatch", "build.rs"])?;
    let commit = git(&["rev-parse", "--short=10", "HEAD"])?;
    let mut status = vec!["status", "--porcelain", "--untracked-files=no", "--", "../../Cargo.lock"];
    let sources = sources();
    status.extend(sources.iter().filter_map(|path| path.to_str()));
    let is_modified = git(&status).is_some_and(|changes| !changes.is_empty());
    Some(if is_modified { format!("{commit}, modified") } else { commit })
}

/// The sources of all crates.
fn sources() -> Vec<PathBuf> {
    let folders = std::fs::read_dir("..").into_iter().flatten().flatten();
    folders.map(|folder| folder.path().join("src")).filter(|folder: &PathBuf| Path::is_dir(folder)).collect()
}

/// What git prints, if it is there and succeeds.
fn git(arguments: &[&str]) -> Option<String> {
    let output =
        Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}
