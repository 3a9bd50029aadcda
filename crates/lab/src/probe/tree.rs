//! The processes below a process, however deep, as one.
//!
//! CPU time is not lost when one of them ends: whoever waited for it has its time, and that of its own children, in a
//! counter of its own. The topmost process, which only watches over them, counts with that counter and with nothing
//! else. What nobody waited for yet is a zombie, which still has its times.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use procfs::process::{Process, Stat};

use super::ProcessSample;

/// All living processes and zombies below the process `root`, without itself.
#[must_use]
pub(crate) fn descendants(root: u32) -> Vec<Stat> {
    let Ok(root) = i32::try_from(root) else {
        return Vec::new();
    };
    let mut of_parent: BTreeMap<i32, Vec<Stat>> = BTreeMap::new();
    // Processes come and go meanwhile; those that are gone are left out.
    let processes = procfs::process::all_processes().into_iter().flatten();
    for stat in processes.filter_map(|process| process.ok()?.stat().ok()) {
        of_parent.entry(stat.ppid).or_default().push(stat);
    }
    let mut found = Vec::new();
    let mut parents = vec![root];
    // The readings are of different moments, so a number could come up again as its own ancestor.
    let mut seen = BTreeSet::from([root]);
    while let Some(parent) = parents.pop() {
        for stat in of_parent.remove(&parent).into_iter().flatten() {
            if seen.insert(stat.pid) {
                parents.push(stat.pid);
                found.push(stat);
            }
        }
    }
    found
}

/// A sample of everything below the process `root` together, or `None` when that has ended. The peak of the memory is
/// the sum of the peaks of those that live now.
pub(super) fn sample_below(root: u32) -> Option<ProcessSample> {
    let watcher = Process::new(i32::try_from(root).ok()?).ok()?.stat().ok()?;
    let mut sum = ProcessSample::default();
    let mut ticks = waited_for(&watcher);
    for stat in descendants(root) {
        ticks += stat.utime + stat.stime + waited_for(&stat);
        let Some(sample) = u32::try_from(stat.pid).ok().and_then(ProcessSample::of) else {
            continue;
        };
        sum.memory_bytes += sample.memory_bytes;
        sum.memory_peak_bytes += sample.memory_peak_bytes;
        sum.threads += sample.threads;
        sum.context_switches += sample.context_switches;
        sum.file_calls += sample.file_calls;
    }
    sum.cpu = Duration::from_secs_f64(ticks as f64 / procfs::ticks_per_second() as f64);
    Some(sum)
}

/// The same with the process `root` itself.
pub(super) fn sample_whole(root: u32) -> Option<ProcessSample> {
    let (own, below) = (ProcessSample::of(root)?, sample_below(root)?);
    Some(ProcessSample {
        cpu: own.cpu + below.cpu,
        memory_bytes: own.memory_bytes + below.memory_bytes,
        memory_peak_bytes: own.memory_peak_bytes + below.memory_peak_bytes,
        threads: own.threads + below.threads,
        context_switches: own.context_switches + below.context_switches,
        file_calls: own.file_calls + below.file_calls,
    })
}

/// What its children had used that have ended and that it waited for, in clock ticks.
fn waited_for(stat: &Stat) -> u64 {
    u64::try_from(stat.cutime).unwrap_or(0) + u64::try_from(stat.cstime).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead, BufReader, Write as _},
        process::{Child, Command, Stdio},
    };

    use rustix::process::{Pid, Signal, kill_process};

    use super::*;

    /// A shell that does as `script` says; it is asked for, and tells, one line at a time.
    fn shell(script: &str) -> (Child, BufReader<std::process::ChildStdout>) {
        let mut child = Command::new("sh")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell is everywhere");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        (child, output)
    }

    fn line(output: &mut impl BufRead) -> String {
        let mut line = String::new();
        output.read_line(&mut line).expect("it says something");
        line.trim().to_owned()
    }

    /// Uses the CPU for a good while.
    const WORK: &str = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";

    #[test]
    fn children_of_children_are_found_and_others_are_not() {
        let script = "sh -c 'sleep 100 & echo $!; wait' & echo $!; wait";
        let (mut child, mut output) = shell(script);
        let mut told = [line(&mut output), line(&mut output)].map(|id| id.parse().expect("an id"));
        let mut found: Vec<i32> = descendants(child.id()).iter().map(|stat| stat.pid).collect();
        told.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, told);
        for id in told.map(Pid::from_raw).into_iter().flatten() {
            let _ = kill_process(id, Signal::KILL);
        }
        child.wait().expect("it ends with them");
    }

    #[test]
    fn time_of_children_that_have_ended_is_not_lost() {
        let (mut child, mut output) = shell(&format!("sh -c '{WORK}'; echo done; read line"));
        assert_eq!(line(&mut output), "done");
        let after = sample_below(child.id()).expect("the shell lives");
        assert!(after.cpu >= Duration::from_millis(20), "{:?}", after.cpu);
        assert_eq!(after.memory_bytes, 0, "nothing lives below it");
        let mut input = child.stdin.take().expect("a pipe");
        input.write_all(b"\n").expect("it reads");
        child.wait().expect("it ends");
        assert_eq!(sample_below(child.id()), None);
    }

    #[test]
    fn memory_and_time_of_all_that_live_are_added() {
        let script = format!("sh -c '{WORK}; echo done; read line'; true");
        let (mut child, mut output) = shell(&script);
        assert_eq!(line(&mut output), "done");
        let sample = sample_below(child.id()).expect("the shell lives");
        assert!(sample.cpu >= Duration::from_millis(20), "{:?}", sample.cpu);
        assert!(sample.memory_bytes > 100_000 && sample.threads >= 1);
        let whole = sample_whole(child.id()).expect("the shell lives");
        assert!(whole.memory_bytes > sample.memory_bytes && whole.threads == sample.threads + 1);
        drop(child.stdin.take());
        child.wait().expect("it ends");
    }
}
