//! What runs the program elsewhere: the action for CI, and the image.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use access::ConnectionString;
use rustix::process::{Pid, Signal, kill_process};

use crate::serving::{outcome, parshall};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The step of the action, with the directory and files that a runner gives it.
fn step(directory: &Path, arguments: &str) -> Command {
    let program = Path::new(env!("CARGO_BIN_EXE_parshall")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new(root().join(".ci/serve-for-steps"));
    command.env_clear().env("PATH", path).env("RUNNER_TEMP", directory).env("PARSHALL_ARGUMENTS", arguments);
    command.env("GITHUB_ENV", directory.join("env")).env("GITHUB_OUTPUT", directory.join("output"));
    command
}

#[test]
fn the_action_exports_the_connection_strings_of_a_service_that_is_ready() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = "--hub orders:2 --amqp 127.0.0.1:0 --http 127.0.0.1:0 --blob 127.0.0.1:0";
    let status = step(directory.path(), arguments).status().unwrap();
    assert!(status.success());
    let text = fs::read_to_string(directory.path().join("env")).unwrap();
    let variables: BTreeMap<&str, &str> = text.lines().map(|line| line.split_once('=').unwrap()).collect();
    let service: i32 = variables["PARSHALL_PROCESS"].parse().unwrap();
    let string = variables["EVENT_HUBS_CONNECTION_STRING"];
    let port = string.parse::<ConnectionString>().unwrap().amqp_address().port;
    TcpStream::connect(("127.0.0.1", port)).unwrap();
    assert!(variables["AZURE_STORAGE_CONNECTION_STRING"].contains("BlobEndpoint=http://127.0.0.1:"));
    let output = fs::read_to_string(directory.path().join("output")).unwrap();
    assert_eq!(output, format!("connection-string={string}\n"));
    kill_process(Pid::from_raw(service).unwrap(), Signal::TERM).unwrap();
}

#[test]
fn an_action_whose_service_cannot_start_fails_with_its_reason() {
    let directory = tempfile::tempdir().unwrap();
    let (status, _, stderr) = outcome(&mut step(directory.path(), "--amqp 5672"));
    assert_eq!(status, Some(1));
    assert!(stderr.contains("write 127.0.0.1:5672"), "{stderr}");
}

/// Returns the rest of all lines of the Containerfile that begin with an instruction.
fn instruction(name: &str) -> String {
    let file = fs::read_to_string(root().join("Containerfile")).unwrap();
    let lines: Vec<&str> = file.lines().filter_map(|line| line.strip_prefix(name)).collect();
    lines.concat().trim().to_owned()
}

#[test]
fn image_copies_what_is_built_for_it_and_runs_a_command_of_the_program() {
    let copied = instruction("COPY ");
    let mut names = copied.split_whitespace();
    assert_eq!(names.next_back(), Some("/"));
    assert_eq!(names.collect::<Vec<_>>(), ["parshall", "LICENSE"]);
    assert_eq!(instruction("ADD "), "folders.tar /");
    let build = fs::read_to_string(root().join(".ci/dist")).unwrap();
    assert!(build.contains(".ci/image \"$program\" \"$dist/image\""));
    assert_eq!(instruction("ENTRYPOINT "), "[\"/parshall\"]");
    let command: Vec<String> = serde_json::from_str(&instruction("CMD ")).unwrap();
    // An option that it has to refuse, so that everything before it is read and nothing is listened on.
    let mut arguments: Vec<&str> = command.iter().map(String::as_str).collect();
    arguments.extend(["--sync", "never"]);
    let (status, _, stderr) = outcome(&mut parshall(&arguments));
    assert_eq!(status, Some(2));
    assert!(stderr.contains("invalid value 'never' for '--sync"), "{stderr}");
}

#[test]
fn image_has_a_folder_for_temporary_files_and_one_for_the_data_of_its_user() {
    let folder = tempfile::tempdir().unwrap();
    let program = env!("CARGO_BIN_EXE_parshall");
    let context = folder.path().join("image");
    let status = Command::new(root().join(".ci/image")).arg(program).arg(&context).status().unwrap();
    assert!(status.success());
    let mut names: Vec<_> = fs::read_dir(&context)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["LICENSE", "folders.tar", "parshall"]);
    assert_eq!(fs::metadata(context.join("parshall")).unwrap().len(), fs::metadata(program).unwrap().len());
    let user = instruction("USER ");
    assert!(!user.starts_with('0') && user.split(':').all(|id| id.parse::<u32>().is_ok()), "{user}");
    let (status, listing, _) = outcome(
        Command::new("tar")
            .args(["--list", "--verbose", "--numeric-owner", "--file"])
            .arg(context.join("folders.tar")),
    );
    assert_eq!(status, Some(0));
    let entries: Vec<(&str, &str, &str)> = listing
        .lines()
        .map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            (words[0], words[1], words[words.len() - 1])
        })
        .collect();
    let owner = user.replace(':', "/");
    assert_eq!(entries, [("drwxrwxrwt", "0/0", "tmp/"), ("drwxr-x---", &*owner, "data/")]);
    assert_eq!(instruction("VOLUME "), "/data");
}

#[test]
fn the_action_and_the_packages_have_the_program_of_the_image_and_its_version() {
    let read = |path: &str| fs::read_to_string(root().join(path)).unwrap();
    let program = "target/dist/image/parshall";
    for path in ["action.yml", "packages/build"] {
        assert!(read(path).contains(program), "{path}");
    }
    let version = env!("CARGO_PKG_VERSION");
    for (path, line) in [
        ("packages/python/pyproject.toml", format!("version = \"{version}\"")),
        ("packages/javascript/package.json", format!("  \"version\": \"{version}\",")),
        ("packages/java/pom.xml", format!("  <version>{version}</version>")),
    ] {
        assert!(read(path).lines().any(|other| other == line), "{path} has no {line}");
    }
}
