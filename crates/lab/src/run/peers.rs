//! Where the programs of external systems are, and why a case can't run without them.
//!
//! A program without a `/` is looked for on the path; one that begins with `/`, `./` or `../` is where it says, as in a
//! shell. Any other, such as `java-event-hubs/forwarder`, is in a folder of peers: the one that the variable
//! `PARSHALL_PEERS` names, or else `peers` in the working directory or beside this program.

use std::{
    env,
    path::{Path, PathBuf},
};

use crate::{
    roles::protocol::{Endpoint, KafkaAccess, ProducerProgram},
    scenario::{EndClient, Parameters, SystemUnderTest},
};

/// The folders in which programs are looked for.
#[derive(Debug, Clone, Default)]
pub(super) struct Peers {
    folders: Vec<PathBuf>,
    path: Vec<PathBuf>,
}

impl Peers {
    /// Those of this process.
    pub(super) fn of_environment() -> Self {
        let beside = |path: PathBuf| Some(path.parent()?.join(FOLDER));
        let folders = match env::var_os(VARIABLE) {
            Some(folder) => vec![PathBuf::from(folder)],
            None => {
                let working = env::current_dir().ok().map(|folder| folder.join(FOLDER));
                let program = env::current_exe().ok().and_then(beside);
                working.into_iter().chain(program).collect()
            }
        };
        let path = env::var_os("PATH").unwrap_or_default();
        Self { folders, path: env::split_paths(&path).collect() }
    }

    /// What is to be started for `program`. Whether it can be, shows then.
    pub(super) fn program(&self, program: &str) -> String {
        let found = self.find(program);
        let found = found.and_then(|path| path.into_os_string().into_string().ok());
        found.unwrap_or_else(|| program.to_owned())
    }

    /// Finds the program that is the client of an endpoint, if one is.
    pub(super) fn find_client(&self, endpoint: &mut Endpoint) {
        let client = match (&mut endpoint.kafka, &mut endpoint.program) {
            (Some(KafkaAccess { client: EndClient::Program(client), .. }), _) => Some(client),
            (_, Some(ProducerProgram { client, .. })) => Some(client),
            _ => None,
        };
        if let Some(program) = client.and_then(|client| client.command.first_mut()) {
            *program = self.program(program);
        }
    }

    /// Why a case can't run here: its system, or a client of its roles, says what it needs, and that is missing.
    pub(super) fn obstacle_of(&self, parameters: &Parameters) -> Option<String> {
        let topology = parameters.topology();
        let clients = topology.ends().filter_map(|end| end.kafka.client.program());
        let mut missing = clients.filter_map(|client| {
            self.missing(&client.name, &client.command, &client.requires, client.build.as_deref())
        });
        self.obstacle(&parameters.sut).or_else(|| missing.next())
    }

    /// Why the system can't run here, if it says what it needs and that is missing. A command that says nothing of the
    /// kind is tried.
    fn obstacle(&self, system: &SystemUnderTest) -> Option<String> {
        let command = system.command.as_ref()?;
        self.missing(&system.name, command, &system.requires, system.build.as_deref())
    }

    fn missing(
        &self,
        name: &str,
        command: &[String],
        requires: &[String],
        build: Option<&str>,
    ) -> Option<String> {
        let programs = command.first().filter(|_| build.is_some()).into_iter();
        let missing = programs.chain(requires).find(|name| self.find(name).is_none())?;
        let place = match kind(missing) {
            Kind::OnPath => "on the path".to_owned(),
            Kind::Peer => {
                let folders = self.folders.iter().map(|folder| folder.display().to_string());
                format!("in {}", folders.collect::<Vec<_>>().join(" or "))
            }
            Kind::Plain => "there".to_owned(),
        };
        let mut reason = format!("{name} needs `{missing}`, which is not {place}");
        if let Some(build) = build.filter(|_| kind(missing) != Kind::OnPath) {
            reason.push_str(&format!("; `{build}` builds it"));
        }
        Some(reason)
    }

    fn find(&self, name: &str) -> Option<PathBuf> {
        let folders: &[PathBuf] = match kind(name) {
            Kind::Plain => return Some(PathBuf::from(name)).filter(|path| path.is_file()),
            Kind::OnPath => &self.path,
            Kind::Peer => &self.folders,
        };
        let mut found = folders.iter().map(|folder| folder.join(name));
        found.find(|path| path.is_file())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    OnPath,
    Plain,
    Peer,
}

fn kind(name: &str) -> Kind {
    if !name.contains('/') {
        Kind::OnPath
    } else if ["./", "../"].iter().any(|start| name.starts_with(start)) || Path::new(name).is_absolute() {
        Kind::Plain
    } else {
        Kind::Peer
    }
}

const VARIABLE: &str = "PARSHALL_PEERS";
const FOLDER: &str = "peers";

#[cfg(test)]
mod tests {
    use super::*;

    fn peers(folder: &Path) -> Peers {
        Peers { folders: vec![folder.join("none"), folder.join("peers")], path: vec![folder.join("bin")] }
    }

    fn system(program: &str, requires: &[&str], build: Option<&str>) -> SystemUnderTest {
        SystemUnderTest {
            name: "mine".to_owned(),
            command: Some(vec![program.to_owned()]),
            requires: requires.iter().map(ToString::to_string).collect(),
            build: build.map(str::to_owned),
            ..SystemUnderTest::default()
        }
    }

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a temporary directory");
        for file in ["peers/java/run", "bin/java"] {
            let path = folder.path().join(file);
            std::fs::create_dir_all(path.parent().expect("it has one")).expect("a directory");
            std::fs::write(path, "").expect("a file");
        }
        folder
    }

    #[test]
    fn programs_are_found_where_their_names_say() {
        let folder = folder();
        let peers = peers(folder.path());
        let at = |file: &str| folder.path().join(file).display().to_string();
        assert_eq!(peers.program("java/run"), at("peers/java/run"));
        assert_eq!(peers.program("java"), at("bin/java"));
        assert_eq!(peers.program("./java/run"), "./java/run");
        assert_eq!(peers.program("cobol"), "cobol");
    }

    #[test]
    fn what_a_system_says_it_needs_is_an_obstacle_where_it_is_missing() {
        let folder = folder();
        let peers = peers(folder.path());
        let obstacle = |system| peers.obstacle(&system);
        assert_eq!(obstacle(system("java/run", &["java"], Some("make peers"))), None);
        assert_eq!(
            obstacle(system("java/run", &["dotnet"], Some("make peers"))).as_deref(),
            Some("mine needs `dotnet`, which is not on the path")
        );
        let reason = obstacle(system("rust/run", &[], Some("make peers"))).expect("it is missing");
        assert!(reason.starts_with("mine needs `rust/run`, which is not in "), "{reason}");
        assert!(reason.ends_with("; `make peers` builds it"), "{reason}");
        assert_eq!(
            obstacle(system("/no/such/file", &[], None)),
            None,
            "a command that says nothing of the kind is tried, and fails with its reason"
        );
        assert_eq!(obstacle(SystemUnderTest::default()), None);
    }
}
