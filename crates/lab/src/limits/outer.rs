//! What bounds the lab itself, and so all of its roles: the control groups that it was started in.

use std::path::Path;

use super::group_files::{Mount, mounts, own_group, read, with_those_above};
use crate::results::OuterLimits;

/// The tightest bounds of the control groups that this process is in, of either hierarchy; `None` if there are none.
#[must_use]
pub fn outer_limits() -> Option<OuterLimits> {
    let text = |file| read("/proc/self".as_ref(), file).unwrap_or_default();
    limits_in(&text("mountinfo"), &text("cgroup"))
}

fn limits_in(mountinfo: &str, cgroup: &str) -> Option<OuterLimits> {
    let mut tightest = OuterLimits::default();
    for mount in mounts(mountinfo) {
        let is_v2 = mount.kind == "cgroup2";
        let controllers: &[&str] = if is_v2 { &[""] } else { &["cpu", "memory"] };
        for controller in controllers {
            let mounted = is_v2 || mount.options.iter().any(|option| option == controller);
            let Some(group) = own_group(cgroup, controller).filter(|_| mounted) else {
                continue;
            };
            let directory = mount.directory_of(group);
            for directory in with_those_above(&mount, &directory) {
                tighten(&mut tightest, &mount, directory);
            }
        }
    }
    (tightest != OuterLimits::default()).then_some(tightest)
}

fn tighten(tightest: &mut OuterLimits, mount: &Mount, directory: &Path) {
    let number = |file| read(directory, file).ok()?.parse::<u64>().ok();
    let (cores, memory) = if mount.kind == "cgroup2" {
        let quota = read(directory, "cpu.max").unwrap_or_default();
        let cores = quota
            .split_once(' ')
            .and_then(|(quota, period)| Some(quota.parse::<f64>().ok()? / period.parse::<f64>().ok()?));
        (cores, number("memory.max"))
    } else {
        // No quota is -1 there, which is no such number.
        let cores = number("cpu.cfs_quota_us")
            .zip(number("cpu.cfs_period_us"))
            .map(|(quota, period)| quota as f64 / period as f64);
        let memory = number("memory.limit_in_bytes").filter(|bytes| *bytes < UNLIMITED_V1);
        (cores, memory)
    };
    let tighter = |old: Option<f64>, new| old.map_or(new, |old: f64| old.min(new));
    if let Some(cores) = cores.filter(|cores| cores.is_finite()) {
        tightest.cores = Some(tighter(tightest.cores, cores));
    }
    tightest.memory_bytes = tightest.memory_bytes.into_iter().chain(memory).min();
}

/// The older hierarchy writes no bound as the largest number of pages, about 2^63 bytes.
const UNLIMITED_V1: u64 = 1 << 62;

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_tightest_bound_on_the_way_up_applies() {
        let tree = tempfile::tempdir().expect("a temporary directory");
        let point = tree.path();
        fs::create_dir_all(point.join("outer/inner")).expect("directories");
        for (file, content) in [
            ("outer/cpu.max", "150000 100000"),
            ("outer/inner/cpu.max", "max 100000"),
            ("outer/memory.max", "max"),
            ("outer/inner/memory.max", "1048576"),
        ] {
            fs::write(point.join(file), content).expect("a file");
        }
        let mountinfo = format!("33 30 0:29 / {} rw - cgroup2 cgroup2 rw\n", point.display());
        let found = limits_in(&mountinfo, "0::/outer/inner\n").expect("there are bounds");
        assert_eq!((found.cores, found.memory_bytes), (Some(1.5), Some(1_048_576)));
        assert_eq!(limits_in(&mountinfo, "0::/\n"), None);
        assert_eq!(limits_in("", ""), None);
    }

    #[test]
    fn the_older_hierarchies_say_no_bound_with_a_number() {
        let tree = tempfile::tempdir().expect("a temporary directory");
        let point = tree.path();
        for (file, content) in [
            ("cpu.cfs_quota_us", "-1"),
            ("cpu.cfs_period_us", "100000"),
            ("memory.limit_in_bytes", "9223372036854771712"),
        ] {
            fs::write(point.join(file), content).expect("a file");
        }
        let mountinfo = format!("33 30 0:29 / {} rw - cgroup cgroup rw,cpu,memory\n", point.display());
        let cgroup = "1:cpu,memory:/\n";
        assert_eq!(limits_in(&mountinfo, cgroup), None);
        fs::write(point.join("cpu.cfs_quota_us"), "50000").expect("a file");
        let found = limits_in(&mountinfo, cgroup).expect("there is a bound");
        assert_eq!((found.cores, found.memory_bytes), (Some(0.5), None));
    }
}
