//! The crates use one another as `docs/architecture.md` says, and in one direction.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The names in code marks of a cell.
fn names(cell: &str) -> Vec<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The rows of the table of crates, in their order: each crate and those that it uses.
fn documented(architecture: &str) -> Vec<(String, Vec<String>)> {
    let rows = architecture.lines().skip_while(|line| !line.starts_with("| crate | uses |")).skip(2);
    rows.take_while(|line| line.starts_with('|'))
        .map(|line| {
            let cells: Vec<&str> = line.split('|').collect();
            (names(cells[1]).remove(0), names(cells[2]))
        })
        .collect()
}

/// The entries of `[dependencies]` in a manifest.
fn dependencies(manifest: &str) -> Vec<String> {
    let lines = manifest.lines().skip_while(|line| *line != "[dependencies]").skip(1);
    let entries = lines.take_while(|line| !line.starts_with('['));
    entries.filter_map(|line| Some(line.split_once(" = ")?.0.to_owned())).collect()
}

#[test]
fn crates_use_those_that_the_architecture_names_and_none_above_themselves() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap();
    let workspace = read("Cargo.toml");
    let members: BTreeMap<&str, &str> = workspace
        .lines()
        .skip_while(|line| !line.starts_with("members"))
        .take_while(|line| !line.starts_with(']'))
        .filter_map(|line| line.split('"').nth(1))
        .map(|path| (path.rsplit('/').next().unwrap(), path))
        .collect();
    let documented = documented(&read("docs/architecture.md"));
    let order: BTreeMap<&str, usize> =
        documented.iter().enumerate().map(|(row, (name, _))| (name.as_str(), row)).collect();
    assert_eq!(order.keys().collect::<Vec<_>>(), members.keys().collect::<Vec<_>>());
    for (name, uses) in &documented {
        let mut used = dependencies(&read(&format!("{}/Cargo.toml", members[name.as_str()])));
        used.retain(|dependency| members.contains_key(dependency.as_str()));
        used.sort();
        assert_eq!(&used, uses, "what `{name}` uses");
        for dependency in uses {
            assert!(order[dependency.as_str()] > order[name.as_str()], "`{name}` uses `{dependency}`");
        }
    }
}

#[test]
fn what_all_services_share_names_none_of_them() {
    let fronts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../hub/src/front");
    let connection = std::fs::read_dir(fronts.join("amqp/connection")).unwrap();
    let mut shared: Vec<_> = connection.map(|file| file.unwrap().path()).collect();
    shared.push(fronts.join("http/server.rs"));
    assert!(shared.len() > 5, "{shared:?}");
    for file in shared {
        let text = std::fs::read_to_string(&file).unwrap();
        for service in ["event_hubs", "service_bus", "queue_store", "blob"] {
            assert!(!text.contains(service), "{} names {service}", file.display());
        }
    }
}

#[test]
fn unsafe_files_are_listed_by_the_scripts_that_check_memory() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let mut folders: Vec<PathBuf> =
        ["crates", "packages", "peers", "simulator", "test-peer"].map(|folder| root.join(folder)).into();
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let is_output = ["target", "node_modules"].iter().any(|name| path.ends_with(name));
            if path.is_dir() && !is_output {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    // The lint is denied for the workspace, so a file that needs unsafe code names it. This one must not.
    let lint = ["unsafe", "code"].join("_");
    files.retain(|path| std::fs::read_to_string(path).unwrap().contains(&lint));
    let unsafe_files: BTreeSet<String> =
        files.iter().map(|path| path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned()).collect();
    let listed = |script: &str| {
        let text = std::fs::read_to_string(root.join(script)).unwrap();
        let files = text.lines().skip_while(|line| !line.starts_with("# Files with unsafe code")).skip(1);
        let files: Vec<String> = files
            .take_while(|line| line.starts_with("#   "))
            .map(|line| line.trim_start_matches(['#', ' ']).to_owned())
            .collect();
        assert!(!files.is_empty(), "{script} names no file");
        files
    };
    let checked: BTreeSet<String> = ["compat/miri", "compat/valgrind"].into_iter().flat_map(listed).collect();
    assert_eq!(checked, unsafe_files);
}
