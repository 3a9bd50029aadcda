//! Roles over a real `sshd` on the loopback interface, which serves each connection that the test accepts (`sshd -i`).

use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};

use super::rig::{Bench, SCENARIO, clocks_are_ahead_by, has_latency_or_says_why, skip, succeeds, text};

/// Debian's.
const SSHD: &str = "/usr/sbin/sshd";

/// Starts to accept connections for `sshd`, and gives the configuration of a client that calls it `vm1`. `None`, with the
/// reason on standard error, where that is not possible.
fn sshd(bench: &Bench, test: &str) -> Option<String> {
    if !Path::new(SSHD).exists() {
        skip(test, "there is no sshd here; `apt-get install openssh-server` installs one");
        return None;
    }
    // Root's sshd wants this directory, which the service would have made.
    if rustix::process::geteuid().is_root() {
        let _ = std::fs::create_dir_all("/run/sshd");
    }
    let [host_key, key] = ["host_key", "key"].map(|name| text(&bench.path(name)));
    for file in [&host_key, &key] {
        if let Err(reason) = succeeds(&["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", file]) {
            skip(test, &reason);
            return None;
        }
    }
    let server = bench.path("sshd_config");
    let options = "StrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin yes\nPidFile none\n";
    std::fs::write(&server, format!("HostKey {host_key}\nAuthorizedKeysFile {key}.pub\n{options}")).unwrap();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for connection in listener.incoming() {
            let connection = OwnedFd::from(connection.unwrap());
            let mut child = Command::new(SSHD)
                .args(["-i", "-e", "-f"])
                .arg(&server)
                .stdin(Stdio::from(connection.try_clone().unwrap()))
                .stdout(Stdio::from(connection))
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            thread::spawn(move || child.wait());
        }
    });
    let config = client_config(bench, port, &key);
    match succeeds(&["ssh", "-F", &config, "vm1", "true"]) {
        Ok(()) => Some(config),
        Err(reason) => {
            skip(test, &format!("sshd lets this user not in: {reason}"));
            None
        }
    }
}

fn client_config(bench: &Bench, port: u16, key: &str) -> String {
    let user = String::from_utf8(Command::new("id").arg("-un").output().unwrap().stdout).unwrap();
    let config = bench.path("ssh_config");
    let text = format!(
        "Host vm1\n  HostName 127.0.0.1\n  Port {port}\n  User {}\n  IdentityFile {key}\n  BatchMode yes\n  \
         StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n  LogLevel ERROR\n",
        user.trim()
    );
    std::fs::write(&config, text).unwrap();
    config.display().to_string()
}

/// Interrupts a run in its measured phase; all of its roles have to end.
pub(crate) fn interrupt_once_it_measures(mut child: Child, bench: &Bench) {
    let mut said = String::new();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    while !said.lines().any(|line| line.contains("measuring")) {
        assert_ne!(stderr.read_line(&mut said).unwrap(), 0, "it ended: {said}");
    }
    assert!(!bench.own_roles().is_empty());
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    drop(stderr);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    bench.until_no_role_is_left();
}

#[test]
fn every_role_can_run_over_ssh() {
    let bench = Bench::new();
    let Some(config) = sshd(&bench, "every_role_can_run_over_ssh") else { return };
    let ssh: &[&str] = &["ssh", "-F", &config, "vm1", "--"];
    let roles = bench.roles(&["hub", "load", "relay", "sink"].map(|role| (role, ssh)));
    let finished = bench.run(&format!("{SCENARIO}{roles}"));
    clocks_are_ahead_by(finished.whole_trial(), &["hub", "load", "relay", "sink"].map(|role| (role, 0.0)));
    has_latency_or_says_why(&finished);
    bench.until_no_role_is_left();
}

#[test]
fn roles_over_ssh_end_with_an_interrupted_run() {
    let bench = Bench::new();
    let Some(config) = sshd(&bench, "roles_over_ssh_end_with_an_interrupted_run") else { return };
    let ssh: &[&str] = &["ssh", "-F", &config, "vm1", "--"];
    let roles = bench.roles(&[("load", ssh), ("relay", ssh), ("sink", ssh)]);
    let scenario = format!("{SCENARIO}{roles}").replace("measure: 2 s", "measure: 1 h");
    interrupt_once_it_measures(bench.start(&scenario), &bench);
}

#[test]
fn what_ssh_says_of_a_broken_connection_or_a_missing_program_is_shown() {
    let bench = Bench::new();
    let test = "what_ssh_says_of_a_broken_connection_or_a_missing_program_is_shown";
    let Some(config) = sshd(&bench, test) else { return };
    let roles = format!("roles: {{load: {{launch: [ssh, -F, {config}, vm1], program: no-such-parshall}}}}\n");
    let finished = bench.run(&format!("{SCENARIO}{roles}"));
    let [finding] = &finished.findings("role-failed")[..] else { panic!("{}", finished.results) };
    for said in ["vm1 no-such-parshall role load`", "(exit status: 127)", "not found", "`roles.load.program`"]
    {
        assert!(finding.contains(said), "{said}: {finding}");
    }
    // Nothing listens at a port whose listener has gone.
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
    let config = client_config(&bench, port, "none");
    let finished =
        bench.run(&format!("{SCENARIO}{}", bench.roles(&[("load", &["ssh", "-F", &config, "vm1"])])));
    let [finding] = &finished.findings("role-failed")[..] else { panic!("{}", finished.results) };
    for said in ["(exit status: 255)", "Connection refused", "run the command by hand"] {
        assert!(finding.contains(said), "{said}: {finding}");
    }
}
