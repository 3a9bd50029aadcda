//! Notes which compiler builds the lab and how: a measurement of a debug build must be known for one. Also which sources
//! it is made of, since only processes of the same sources are sure to understand each other.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
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
    let sources = sources(Path::new("src")).expect("a package can read its own sources");
    println!("cargo::rustc-env=PARSHALL_SOURCES={sources:016x}");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src");
}

/// A hash (FNV-1a) of all files below a folder, by name and content.
fn sources(folder: &Path) -> io::Result<u64> {
    let mut files = Vec::new();
    collect(folder, &mut files)?;
    files.sort();
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for file in files {
        let name = file.to_string_lossy().into_owned().into_bytes();
        for byte in name.into_iter().chain(fs::read(&file)?) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    Ok(hash)
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        match path.is_dir() {
            true => collect(&path, files)?,
            false => files.push(path),
        }
    }
    Ok(())
}
