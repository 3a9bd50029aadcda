//! Notes which compiler builds the lab and how: a measurement of a debug build must be known for one.

use std::env;
use std::process::Command;

fn main() {
    let compiler = env::var_os("RUSTC")
        .and_then(|compiler| Command::new(compiler).arg("--version").output().ok())
        .and_then(|output| String::from_utf8(output.stdout).ok())
        .unwrap_or_default();
    // `rustc 1.95.0 (hash date)`: the first two words say it.
    let words: Vec<&str> = compiler.split_whitespace().take(2).collect();
    let compiler = match words.is_empty() {
        true => "an unknown compiler".to_owned(),
        false => words.join(" "),
    };
    let profile = env::var("PROFILE").unwrap_or_else(|_| "unknown".to_owned());
    println!("cargo::rustc-env=PARSHALL_COMPILER={compiler}");
    println!("cargo::rustc-env=PARSHALL_PROFILE={profile}");
    println!("cargo::rerun-if-changed=build.rs");
}
