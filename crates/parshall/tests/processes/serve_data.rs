//! `parshall serve --data-dir` as a process: what a restart finds, and what is told where it can't start.

use std::path::Path;

use crate::serving::{Serving, outcome, parshall, refusal};
use rustix::process::Signal;

/// Runs `parshall hub` with these arguments against a service.
fn hub(serving: &Serving, arguments: &[&str]) -> String {
    let mut command = parshall(&[&["hub"], arguments].concat());
    command.env("EVENT_HUBS_CONNECTION_STRING", serving.announced("namespace"));
    let (status, stdout, stderr) = outcome(&mut command);
    assert_eq!(status, Some(0), "{stderr}");
    stdout
}

fn data(directory: &tempfile::TempDir) -> String {
    let path: &Path = directory.path();
    path.join("data").to_str().unwrap().to_owned()
}

/// A refusal in one line without the paths that differ from run to run.
fn refused(directory: &tempfile::TempDir, arguments: &[&str]) -> (Option<i32>, String) {
    let (status, stdout, stderr) = refusal(arguments);
    assert_eq!(stdout, "");
    (status, stderr.replace(&data(directory), "DATA"))
}

#[test]
fn hubs_are_there_again_after_a_restart_however_the_process_ended() {
    let directory = tempfile::tempdir().unwrap();
    let path = data(&directory);
    let serving = Serving::start(&["--data-dir", &path]);
    assert_eq!(serving.hubs(), ["events (4 partitions)"]);
    assert!(
        serving.announcement.contains(&format!("Data               {path} (sync: 50 ms)\n")),
        "{}",
        serving.announcement
    );
    hub(&serving, &["create", "orders", "--partitions", "2", "--consumer-group", "billing"]);
    hub(&serving, &["delete", "events"]);
    assert_eq!(serving.end(Signal::KILL), None);

    let serving = Serving::start(&["--data-dir", &path, "--sync", "always"]);
    assert_eq!(serving.hubs(), ["orders (2 partitions)"], "the default hub was deleted and stays so");
    assert!(hub(&serving, &["show", "orders"]).contains("consumer groups  $Default, billing\n"));
    assert_eq!(serving.end(Signal::TERM), Some(0));

    let serving = Serving::start(&["--data-dir", &path, "--hub", "orders:2", "--hub", "audit:1"]);
    assert_eq!(serving.hubs(), ["orders (2 partitions)", "audit (1 partition)"]);
}

#[test]
fn a_second_process_is_refused_with_the_process_that_has_the_directory() {
    let directory = tempfile::tempdir().unwrap();
    let path = data(&directory);
    let serving = Serving::start(&["--data-dir", &path]);
    let (status, stderr) =
        refused(&directory, &["--amqp", "127.0.0.1:0", "--http", "127.0.0.1:0", "--data-dir", &path]);
    assert_eq!(status, Some(3));
    let process = serving.process_id();
    assert_eq!(stderr, format!("  x the data directory DATA is in use by process {process}\n"));
}

#[test]
fn a_newer_version_and_a_foreign_directory_are_one_clear_line_and_status_3() {
    let directory = tempfile::tempdir().unwrap();
    let path = data(&directory);
    std::fs::create_dir(&path).unwrap();
    let file = |name: &str| Path::new(&path).join(name);
    std::fs::write(file("notes.txt"), "mine").unwrap();
    let arguments = ["--data-dir", path.as_str()];
    assert_eq!(
        refused(&directory, &arguments),
        (Some(3), "  x the directory DATA is not empty and is not a data directory\n".to_owned())
    );
    std::fs::remove_file(file("notes.txt")).unwrap();
    std::fs::write(file("VERSION"), "parshall data directory, version 12\n").unwrap();
    assert_eq!(
        refused(&directory, &arguments),
        (
            Some(3),
            "  x the data directory DATA has version 12; this program supports versions up to 7\n".to_owned()
        )
    );
}

#[test]
fn a_declaration_that_contradicts_what_is_kept_is_reported_with_both_and_its_place() {
    let directory = tempfile::tempdir().unwrap();
    let path = data(&directory);
    let serving = Serving::start(&["--data-dir", &path, "--hub", "orders:4"]);
    assert_eq!(serving.end(Signal::TERM), Some(0));
    let (status, stderr) = refused(&directory, &["--data-dir", &path, "--hub", "orders:8"]);
    assert_eq!(status, Some(2));
    insta::assert_snapshot!("contradiction_argument", stderr);

    let file = directory.path().join("mine.yaml");
    let yaml = file.to_str().unwrap();
    std::fs::write(&file, "hubs:\n  - {name: audit, partitions: 1}\n  - {name: orders, partitions: 8}\n")
        .unwrap();
    let (status, stderr) = refused(&directory, &["--data-dir", &path, "--config", yaml]);
    assert_eq!(status, Some(2));
    insta::assert_snapshot!("contradiction_file", stderr.replace(yaml, "mine.yaml"));

    let file = directory.path().join("Config.json");
    let json = file.to_str().unwrap();
    let entities = r#"[{"Name": "orders", "PartitionCount": "8"}]"#;
    std::fs::write(
        &file,
        format!("{{\"UserConfig\": {{\"NamespaceConfig\": [{{\"Entities\": {entities}}}]}}}}\n"),
    )
    .unwrap();
    let (status, stderr) = refused(&directory, &["--data-dir", &path, "--config", json]);
    assert_eq!(status, Some(2));
    insta::assert_snapshot!("contradiction_emulator", stderr.replace(json, "Config.json"));
}

#[test]
fn a_torn_tail_is_reported_in_one_line_per_hub() {
    let directory = tempfile::tempdir().unwrap();
    let path = data(&directory);
    let serving = Serving::start(&["--data-dir", &path, "--hub", "orders:2"]);
    assert_eq!(serving.end(Signal::TERM), Some(0));
    // As a crash in the middle of a write would leave it.
    let partition = Path::new(&path).join("hubs/orders~1.1");
    std::fs::create_dir(&partition).unwrap();
    std::fs::write(partition.join("00000000000000000000.log"), [7; 100]).unwrap();
    let serving = Serving::start_with_log(&["--data-dir", &path]);
    let log = serving.end_with_log();
    let told: Vec<&str> = log.lines().filter(|line| line.contains("hub=\"orders\"")).collect();
    assert_eq!(told.len(), 1, "{log}");
    assert!(told[0].contains("cut 100 bytes off"), "{log}");
}

/// Ends a service in good order that was started with these arguments.
fn serve_once(arguments: &[&str]) {
    assert_eq!(Serving::start(arguments).end(Signal::TERM), Some(0));
}

#[test]
fn queues_and_topics_are_served_and_announced_again_though_the_command_line_does_not_name_them() {
    let directory = tempfile::tempdir().unwrap();
    let path = data(&directory);
    let with_data = ["--data-dir", path.as_str()];
    serve_once(&[&with_data[..], &["--queue", "jobs", "--topic", "news:all,audit"]].concat());
    let serving = Serving::start(&with_data);
    assert_eq!(serving.hubs(), ["jobs (queue)", "news (topic: all, audit)"]);
    assert!(serving.announcement.contains("\n  namespace"));
    assert_eq!(serving.end(Signal::KILL), None);
    let serving = Serving::start(&[&with_data[..], &["--queue", "more"]].concat());
    assert_eq!(serving.hubs(), ["more (queue)", "jobs (queue)", "news (topic: all, audit)"]);
}

#[test]
fn stored_blobs_that_are_not_served_are_announced() {
    let directory = tempfile::tempdir().unwrap();
    let path = data(&directory);
    let config = directory.path().join("blobs.yaml");
    std::fs::write(&config, "hubs: []\nblob:\n  containers: [one, two]\n").unwrap();
    let config = config.to_str().unwrap();
    serve_once(&["--data-dir", &path, "--config", config, "--blob", "127.0.0.1:0"]);
    let serving = Serving::start_with_log(&["--data-dir", &path]);
    let line = "Blobs not served   2 containers in the data directory; add --blob ADDRESS:PORT\n";
    assert!(serving.announcement.contains(line), "{}", serving.announcement);
    let log = serving.end_with_log();
    assert!(log.contains("no address is configured to serve them"), "{log}");
}

#[test]
fn whatever_is_damaged_in_a_data_directory_ends_with_status_3_and_names_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = data(&directory);
    let arguments = ["--data-dir", path.as_str(), "--blob", "127.0.0.1:0"];
    serve_once(&[&arguments[..], &["--hub", "orders:1", "--queue", "jobs"]].concat());
    let file = |name: &str| Path::new(&path).join(name);
    let damages = |change: &dyn Fn(), repair: &dyn Fn(), named: &str| {
        change();
        let (status, stderr) = refused(&directory, &arguments);
        assert!(stderr.replace("\n  | ", " ").contains(named), "{named}: {stderr}");
        assert_eq!(status, Some(3), "{stderr}");
        repair();
    };
    for name in ["manifest.json", "VERSION", "queues/jobs/00000000000000000000.log"] {
        let content = std::fs::read(file(name)).unwrap();
        let remove = || std::fs::remove_file(file(name)).unwrap();
        let put_back = || std::fs::write(file(name), &content).unwrap();
        damages(&remove, &put_back, name.rsplit('/').next().unwrap());
    }
    // A sidecar without its segment.
    let partition = file("hubs/orders~1.0");
    let sidecar = || {
        std::fs::create_dir(&partition).unwrap();
        let bytes = [&b"PSIX"[..], &[7; 68]].concat();
        std::fs::write(partition.join("00000000000000000000.index"), bytes).unwrap();
    };
    let remove = || std::fs::remove_dir_all(&partition).unwrap();
    damages(&sidecar, &remove, "00000000000000000000.log");
    // A folder where the blobs must be.
    let blobs = file("blob");
    let in_the_way = || {
        std::fs::rename(&blobs, file("aside")).unwrap();
        std::fs::write(&blobs, "").unwrap();
    };
    let put_back = || {
        std::fs::remove_file(&blobs).unwrap();
        std::fs::rename(file("aside"), &blobs).unwrap();
    };
    damages(&in_the_way, &put_back, "blob");
    serve_once(&arguments);
}

#[test]
fn a_queue_whose_folder_is_gone_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let path = data(&directory);
    serve_once(&["--data-dir", &path, "--queue", "jobs", "--queue", "more"]);
    std::fs::remove_dir_all(Path::new(&path).join("queues/jobs")).unwrap();
    let log = Serving::start_with_log(&["--data-dir", &path]).end_with_log();
    let told: Vec<_> = log.lines().filter(|line| line.contains("is missing; it starts empty")).collect();
    assert!(told.len() == 1 && told[0].contains("\"jobs\""), "{log}");
}

#[test]
fn nothing_in_a_data_directory_can_be_read_by_others() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = tempfile::tempdir().unwrap();
    let path = data(&directory);
    let config = directory.path().join("all.yaml");
    let text = "hubs: [{name: a, partitions: 1}]\nqueues: [{name: jobs}]\nblob: {containers: [one]}\n";
    std::fs::write(&config, text).unwrap();
    let config = config.to_str().unwrap();
    let addresses = ["--blob", "127.0.0.1:0", "--amqps", "127.0.0.1:0"];
    let arguments = ["--data-dir", path.as_str(), "--config", config];
    serve_once(&[&arguments[..], &addresses].concat());
    let mut pending = vec![Path::new(&path).to_owned()];
    let mut count = 0;
    while let Some(made) = pending.pop() {
        let metadata = made.metadata().unwrap();
        let mode = metadata.permissions().mode() & 0o777;
        if metadata.is_dir() {
            // The certificate and its authority are for everyone; who can't enter the directory gets a copy (--tls-ca).
            if made.ends_with("tls") {
                continue;
            }
            assert_eq!(mode, 0o700, "{}", made.display());
            let entries = std::fs::read_dir(&made).unwrap();
            pending.extend(entries.map(|entry| entry.unwrap().path()));
        } else {
            assert_eq!(mode, 0o600, "{}", made.display());
        }
        count += 1;
    }
    assert!(count >= 10, "{count}");
}

#[test]
fn a_check_names_every_damaged_file_and_waits_until_no_service_has_the_directory() {
    let directory = tempfile::tempdir().unwrap();
    let path = data(&directory);
    let check = || {
        let (status, stdout, stderr) = outcome(&mut parshall(&["check", &path]));
        (status, stdout, stderr.replace(&path, "DATA"))
    };
    let none = "  x DATA is not a data directory: it has no file VERSION\n";
    assert_eq!(check(), (Some(3), String::new(), none.to_owned()));

    let serving = Serving::start(&["--data-dir", &path, "--queue", "jobs"]);
    let (status, _, stderr) = check();
    assert_eq!((status, stderr.contains("is in use by process")), (Some(3), true), "{stderr}");
    assert_eq!(serving.end(Signal::TERM), Some(0));
    let (status, stdout, stderr) = check();
    assert_eq!((status, &*stderr), (Some(0), ""));
    assert!(stdout.ends_with(": no damage\n"), "{stdout}");

    let partition = Path::new(&path).join("hubs/events~1.0");
    std::fs::create_dir(&partition).unwrap();
    std::fs::write(partition.join("00000000000000000040.index"), "of a segment that is gone").unwrap();
    let (status, stdout, stderr) = check();
    assert_eq!((status, &*stderr), (Some(1), ""));
    let (problem, summary) = stdout.split_once('\n').unwrap();
    assert_eq!(problem, "hubs/events~1.0/00000000000000000040.index: its segment is missing");
    assert!(summary.ends_with(": 1 file is damaged\n"), "{summary}");
}
