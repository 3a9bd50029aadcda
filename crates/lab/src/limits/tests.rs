//! Limits on real processes where this machine permits control groups, and what is said where it does not.

use std::{
    path::Path,
    process::{Child, Command, Stdio},
};

use super::*;

/// A process that waits for its standard input to end.
fn waiting_process() -> Child {
    Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("`cat` is everywhere")
}

fn end(mut child: Child) {
    drop(child.stdin.take());
    child.wait().expect("the process ends with its input");
}

fn group_directories(group: &RoleGroup) -> Vec<std::path::PathBuf> {
    let text = format!("{:?}", group.group);
    text.split('"').filter(|part| part.starts_with('/')).map(Into::into).collect()
}

fn status_field(process_id: u32, field: &str) -> String {
    let status = std::fs::read_to_string(format!("/proc/{process_id}/status")).expect("it lives");
    let line = status.lines().find_map(|line| line.strip_prefix(field)).expect("the field exists");
    line.trim_start_matches(':').trim().to_owned()
}

fn bounds(cores: Option<f64>, memory: Option<ByteSize>) -> RoleBounds {
    let cpus = CpuList::available().expect("the system tells");
    RoleBounds { cores, memory, cpus: cpus.first(1) }
}

fn limiter_with_groups(test: &str) -> Option<Limiter> {
    let limiter = Limiter::detect();
    if let Means::AffinityOnly(reason) = &limiter.means {
        // Captured by the test harness unless asked for; a skipped test must say so.
        let _ = std::io::Write::write_all(
            &mut std::io::stderr(),
            format!("skipped {test}: {reason}\n").as_bytes(),
        );
        return None;
    }
    Some(limiter)
}

#[test]
fn a_group_bounds_cpu_and_memory_holds_the_process_and_disappears() {
    let Some(limiter) = limiter_with_groups("a_group_bounds_cpu_and_memory") else {
        return;
    };
    let memory = ByteSize::from_mebibytes(64);
    let group = limiter.group("test-bounds", &bounds(Some(0.5), Some(memory)));
    assert_eq!(group.limit().mechanism, limiter.mechanism());
    assert_eq!(group.limit().cores, Some(0.5));
    assert_eq!(group.limit().note, None);
    let child = waiting_process();
    group.admit(child.id()).expect("a living process is admitted");
    let directories = group_directories(&group);
    assert!(!directories.is_empty());
    for directory in &directories {
        let processes = std::fs::read_to_string(directory.join("cgroup.procs")).expect("a group");
        assert_eq!(processes.trim(), child.id().to_string(), "{}", directory.display());
    }
    let value = |name: &str| {
        directories
            .iter()
            .find_map(|directory| std::fs::read_to_string(directory.join(name)).ok())
            .map(|text| text.trim().to_owned())
    };
    let quota = value("cpu.max").or_else(|| value("cpu.cfs_quota_us")).expect("a quota");
    assert!(quota.starts_with("50000"), "{quota}");
    let ceiling = value("memory.max").or_else(|| value("memory.limit_in_bytes"));
    assert_eq!(ceiling, Some(memory.bytes().to_string()));
    assert!(!group.ran_out_of_memory());
    end(child);
    drop(group);
    assert!(directories.iter().all(|directory| !directory.exists()));
}

#[test]
fn a_process_that_exceeds_its_memory_is_killed_and_the_group_says_so() {
    let Some(limiter) = limiter_with_groups("a_process_that_exceeds_its_memory") else {
        return;
    };
    let group = limiter.group("test-memory", &bounds(None, Some(ByteSize::from_mebibytes(16))));
    // `tail` keeps all of a line that never ends.
    let mut child = Command::new("tail")
        .arg("-n1")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("`tail` is everywhere");
    group.admit(child.id()).expect("a living process is admitted");
    let mut input = child.stdin.take().expect("piped");
    let block = vec![b'x'; 1 << 20];
    for _ in 0..256 {
        if std::io::Write::write_all(&mut input, &block).is_err() {
            break;
        }
    }
    drop(input);
    assert!(!child.wait().expect("it was killed").success());
    assert!(group.ran_out_of_memory());
}

#[test]
fn admitted_processes_run_on_their_cpus_only() {
    let limiter = Limiter::affinity_only("for a test");
    let cpus = CpuList::available().expect("the system tells");
    let last: CpuList = cpus.iter().last().into_iter().collect();
    let group =
        limiter.group("test-affinity", &RoleBounds { cores: Some(1.0), memory: None, cpus: last.clone() });
    let child = waiting_process();
    group.admit(child.id()).expect("a living process is admitted");
    assert_eq!(status_field(child.id(), "Cpus_allowed_list"), last.to_string());
    assert_eq!(group.limit().mechanism, LimitMechanism::Affinity);
    end(child);
}

#[test]
fn without_groups_fractions_are_rounded_up_and_memory_is_not_bounded_and_both_are_said() {
    let limiter = Limiter::affinity_only("no control groups");
    let group = limiter.group("test-note", &bounds(Some(0.5), Some(ByteSize::from_mebibytes(64))));
    let limit = group.limit();
    assert_eq!((limit.cores, limit.memory_bytes), (Some(1.0), None));
    let note = limit.note.as_deref().expect("a note");
    assert!(note.contains("0.5 cores were rounded up to 1"), "{note}");
    assert!(note.contains("64 MiB is not enforced"), "{note}");
}

#[test]
fn a_role_without_bounds_is_in_no_group_and_says_so() {
    let group = Limiter::detect().group("test-none", &bounds(None, None));
    assert_eq!(group.limit().mechanism, LimitMechanism::None);
    assert!(group_directories(&group).is_empty());
}

#[test]
fn a_process_that_has_ended_is_not_admitted() {
    let child = waiting_process();
    let process_id = child.id();
    end(child);
    let group = Limiter::affinity_only("for a test").group("test-ended", &bounds(Some(1.0), None));
    assert!(group.admit(process_id).is_err());
    assert!(!Path::new(&format!("/proc/{process_id}")).exists());
}
