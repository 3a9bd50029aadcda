//! Where the processes of the lab run: here, or by a command that starts them elsewhere.

use access::Endpoint;
use serde::{Deserialize, Serialize};
use settings::{Document, SettingsError};

use super::{CheckpointStore, End, Parameters, RoleLimits, Target, Topology};
use crate::results::Role;

/// The section `roles`: a role that is not named runs on the lab's machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Roles {
    /// The embedded service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hub: Option<Launch>,
    /// The load generator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load: Option<Launch>,
    /// Each instance of the relay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relay: Option<Launch>,
    /// The sink.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sink: Option<Launch>,
}

/// How a role is started by another program, such as `ssh` or `kubectl`. It has to connect its standard input, output
/// and error to those of the role.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Launch {
    /// The command before the role's own: `[ssh, vm1, --]`.
    pub launch: Vec<String>,
    /// This program, as the other machine finds it. It has to be the same build.
    #[serde(default = "default_program")]
    pub program: String,
}

impl Roles {
    /// How a role is started, if not as a process of this machine.
    #[must_use]
    pub const fn of(&self, role: Role) -> Option<&Launch> {
        match role {
            Role::Service => self.hub.as_ref(),
            Role::Load => self.load.as_ref(),
            Role::Relay => self.relay.as_ref(),
            Role::Sink => self.sink.as_ref(),
        }
    }

    /// The roles that are started elsewhere.
    pub fn launched(&self) -> impl Iterator<Item = (Role, &Launch)> {
        Role::ALL.into_iter().filter_map(|role| Some((role, self.of(role)?)))
    }
}

impl Launch {
    /// The whole command that starts a role.
    #[must_use]
    pub fn command(&self, role: Role) -> Vec<String> {
        let own = [self.program.as_str(), "role", role.name()];
        self.launch.iter().map(String::as_str).chain(own).map(str::to_owned).collect()
    }

    /// Whether a remote shell takes the name of the program for what it is: `ssh` joins its arguments by spaces and
    /// lets a shell part them again.
    pub(super) fn needs_no_quoting(&self) -> bool {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+~".contains(&byte);
        !self.program.is_empty() && !self.program.starts_with('-') && self.program.bytes().all(is_plain)
    }
}

/// Checks the section, and where a service listens that is there for roles on other machines.
pub(super) fn check(
    document: &Document,
    parameters: &Parameters,
    topology: &Topology,
) -> Result<(), SettingsError> {
    for (role, launch) in parameters.roles.launched() {
        let at = format!("roles.{role}");
        let mistake = |key: &str, reason: &str, advice: &str| {
            Err(document.mistake(&format!("{at}{key}"), reason, advice))
        };
        if launch.launch.first().is_none_or(String::is_empty)
            || launch.launch.iter().any(|word| word.contains('\0'))
        {
            let advice = "such as `[ssh, vm1, --]` or `[kubectl, exec, -i, pod, --]`";
            return mistake(".launch", "must be a program and its arguments", advice);
        }
        if !launch.needs_no_quoting() {
            let advice = "a name or path of letters, digits, `/`, `.`, `_`, `-`, `+` and `~`";
            return mistake(".program", "a shell on the other machine might change it", advice);
        }
        if let Some((reason, advice)) = impossible(parameters, topology, role) {
            return mistake("", reason, advice);
        }
    }
    address(document, parameters, topology)
}

/// Why a role can't run elsewhere, and what to do.
fn impossible(
    parameters: &Parameters,
    topology: &Topology,
    role: Role,
) -> Option<(&'static str, &'static str)> {
    let shares_files =
        parameters.relay.ownership.is_shared() && parameters.relay.checkpoint_store == CheckpointStore::File;
    Some(match role {
        Role::Service if parameters.target != Target::Embedded => (
            "only the embedded service is a process of the lab",
            "leave it out, or choose `target: embedded`",
        ),
        Role::Service if parameters.embedded.durable => (
            "the data directory of a durable service is on the lab's machine",
            "run `parshall serve --data-dir` there, and give its connection string as the target",
        ),
        Role::Relay if topology.pipeline.is_none() => {
            ("the topology has no pipeline", "leave it out, or add `topology.pipeline`")
        }
        Role::Relay if !parameters.sut.is_ours() => {
            ("a command in the relay's place runs on the lab's machine", "leave it out, or measure our relay")
        }
        Role::Relay if shares_files => (
            "its instances share claims and checkpoints, and not the files of one machine",
            "choose `relay.checkpoint_store: blob`",
        ),
        Role::Sink if parameters.sut.done.is_some() => {
            ("what a consumer has done is dated by the clock of the lab's machine", "leave it out")
        }
        _ if is_encrypted(topology, role) => (
            "the certificate is on the lab's machine",
            "leave `tls` out, or choose `sut.transport: tcp`, or an encrypted network",
        ),
        _ if parameters.target.namespace().is_some_and(|target| target.certificate_authority.is_some()) => (
            "the file of `target.certificate_authority` is on the lab's machine",
            "add the authority to those of the other machine's system, and leave the key out",
        ),
        _ if *parameters.limits.of(role) != RoleLimits::default() => (
            "the lab limits processes of its own machine only",
            "leave `limits` of this role out, and limit it where it runs: `[ssh, vm1, systemd-run, --user, --scope, \
             -p, CPUQuota=100%]`, or by the pod's resources",
        ),
        _ => return None,
    })
}

/// Whether a role reaches the embedded service, or is reached, over TLS.
fn is_encrypted(topology: &Topology, role: Role) -> bool {
    let is_tls = |end: &End| end.connection.tls;
    match role {
        Role::Service => topology.ends().any(is_tls),
        Role::Load => is_tls(&topology.load),
        Role::Relay => topology
            .pipeline
            .as_ref()
            .is_some_and(|pipeline| is_tls(&pipeline.from) || pipeline.to.iter().any(is_tls)),
        // The first one may read dead letters as well, in the way of the load.
        Role::Sink => is_tls(&topology.load) || topology.sinks.iter().any(is_tls),
    }
}

fn address(document: &Document, parameters: &Parameters, topology: &Topology) -> Result<(), SettingsError> {
    let embedded = &parameters.embedded;
    let mistake = |key: &str, reason: &str, advice: &str| {
        Err(document.mistake(&format!("embedded.{key}"), reason, advice))
    };
    if is_encrypted(topology, Role::Service) && embedded.listen.is_some() {
        let reason = "over TLS the service listens on the loopback interface only";
        return mistake(
            "listen",
            reason,
            "leave `tls` out or choose `sut.transport: tcp`, or leave `listen` out",
        );
    }
    match (embedded.listen, &embedded.advertise) {
        (None, Some(_)) => mistake(
            "advertise",
            "the service listens on the loopback interface only",
            "add `listen`, the address of an interface or `0.0.0.0`",
        ),
        (Some(listen), None) if listen.is_unspecified() => mistake(
            "listen",
            "no client can connect to this address",
            "add `advertise`, the host by which roles reach the service",
        ),
        (_, Some(host)) if Endpoint::new(host.clone(), None).is_err() => {
            mistake("advertise", "can't be a host", "a host name or an IP address, without a port")
        }
        _ => Ok(()),
    }
}

fn default_program() -> String {
    "parshall".to_owned()
}
