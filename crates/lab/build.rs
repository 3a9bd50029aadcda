//! Notes which compiler builds the lab and how: a measurement of a debug build must be known for one. Also which sources
//! it and the crates below it are made of, since only processes of the same sources understand each other and do the same.

use std::env;
use std::ffi::OsStr;
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
    let sources = sources().expect("the workspace can be read");
    let hash = hash(&sources).expect("its sources can be read");
    println!("cargo::rustc-env=PARSHALL_SOURCES={hash:016x}");
    println!("cargo::rerun-if-changed=build.rs");
    for source in sources {
        println!("cargo::rerun-if-changed={}", source.display());
    }
}

/// The sources of the workspace's crates, except the program, which is built upon the lab; and the versions of all others.
fn sources() -> io::Result<Vec<PathBuf>> {
    let mut sources = vec![PathBuf::from("../../Cargo.lock")];
    for entry in fs::read_dir("..")? {
        let folder = entry?.path();
        let is_program = folder.file_name() == Some(OsStr::new("parshall"));
        sources.extend(Some(folder.join("src")).filter(|source| !is_program && source.is_dir()));
    }
    sources.sort();
    Ok(sources)
}

/// A hash (FNV-1a) of files, and of all files below folders, by name and content.
fn hash(sources: &[PathBuf]) -> io::Result<u64> {
    let mut files = Vec::new();
    for source in sources {
        collect(source, &mut files)?;
    }
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

fn collect(path: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    if !path.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    for entry in fs::read_dir(path)? {
        collect(&entry?.path(), files)?;
    }
    Ok(())
}
