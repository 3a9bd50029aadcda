//! The files that control groups are made of, common to both hierarchies.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::process::{Pid, test_kill_process};

/// Why a control group can't be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum GroupError {
    /// The machine has no such hierarchy.
    #[error("{0} is not mounted")]
    NotMounted(&'static str),
    /// The kernel's own table of groups reads unlike anything known.
    #[error("/proc/self/cgroup names no group for {0}")]
    NoOwnGroup(&'static str),
    /// A file or directory can't be read, written or made.
    #[error("{path}: {source}")]
    File {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A hierarchy is there, but may not be divided.
    #[error("{0}")]
    NotDivisible(String),
}

/// A mounted hierarchy of control groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mount {
    /// The group that is mounted, `/` unless in a container.
    pub(super) root: String,
    /// Where.
    pub(super) point: PathBuf,
    /// `cgroup2`, or `cgroup` for v1.
    pub(super) kind: String,
    /// For v1, the controllers, among other options.
    pub(super) options: Vec<String>,
}

/// The mounts of control groups in the text of `/proc/self/mountinfo`.
pub(super) fn mounts(mountinfo: &str) -> Vec<Mount> {
    mountinfo
        .lines()
        .filter_map(|line| {
            // id parent device root point options [optional fields] - kind source options
            let (left, right) = line.split_once(" - ")?;
            let mut left = left.split(' ').skip(3);
            let (root, point) = (left.next()?, left.next()?);
            let mut right = right.split(' ');
            let (kind, options) = (right.next()?, right.nth(1)?);
            kind.starts_with("cgroup").then(|| Mount {
                root: root.to_owned(),
                point: PathBuf::from(point),
                kind: kind.to_owned(),
                options: options.split(',').map(str::to_owned).collect(),
            })
        })
        .collect()
}

/// The group that this process is in, from the text of `/proc/self/cgroup`: of the v1 hierarchy with
/// `controller`, or of v2 for the empty name.
pub(super) fn own_group<'a>(cgroup: &'a str, controller: &str) -> Option<&'a str> {
    cgroup.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, group) = (fields.next()?, fields.next()?);
        controllers.split(',').any(|known| known == controller).then_some(group)
    })
}

impl Mount {
    /// Where the files of the group `group` are.
    pub(super) fn directory_of(&self, group: &str) -> PathBuf {
        let below = group.strip_prefix(self.root.trim_end_matches('/')).unwrap_or("");
        self.point.join(below.trim_start_matches('/'))
    }
}

/// The directory in which the lab with this process id keeps its groups.
pub(super) fn lab_directory(base: &Path, process_id: impl fmt::Display) -> PathBuf {
    base.join(format!("{LAB_PREFIX}{process_id}"))
}

/// Removes below `base` the groups of labs whose process has ended. Groups that still hold a process stay.
pub(super) fn remove_stale(base: &Path) {
    let Ok(entries) = fs::read_dir(base) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let process_id = name.to_str().and_then(|name| name.strip_prefix(LAB_PREFIX)?.parse().ok());
        let Some(process) = process_id.and_then(Pid::from_raw) else {
            continue;
        };
        let is_alive = test_kill_process(process) != Err(rustix::io::Errno::SRCH);
        if !is_alive {
            remove_with_children(&entry.path());
        }
    }
}

/// Removes a group, for which its processes must have ended. A process that has just been reaped may be
/// listed a moment longer, hence the few tries.
pub(super) fn remove(directory: &Path) {
    for _ in 0..REMOVE_TRIES {
        match fs::remove_dir(directory) {
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::BUSY.raw_os_error()) => {
                std::thread::sleep(REMOVE_PAUSE);
            }
            // Gone, or not ours to remove: either way there is nothing left to do.
            _ => return,
        }
    }
}

/// Makes a directory and those above it.
pub(super) fn create(directory: &Path) -> Result<(), GroupError> {
    fs::create_dir_all(directory).map_err(|source| GroupError::File { path: directory.to_owned(), source })
}

/// Writes a value into a group's file.
pub(super) fn write(directory: &Path, file: &str, value: impl fmt::Display) -> Result<(), GroupError> {
    let path = directory.join(file);
    fs::write(&path, value.to_string()).map_err(|source| GroupError::File { path, source })
}

/// The text of a group's file, without blanks around it.
pub(super) fn read(directory: &Path, file: &str) -> Result<String, GroupError> {
    let path = directory.join(file);
    match fs::read_to_string(&path) {
        Ok(text) => Ok(text.trim().to_owned()),
        Err(source) => Err(GroupError::File { path, source }),
    }
}

/// The directories from `group` up to the mount's own, `group` first: its bounds and those of all above it apply.
pub(super) fn with_those_above<'a>(mount: &'a Mount, group: &'a Path) -> impl Iterator<Item = &'a Path> {
    group.ancestors().take_while(|directory| directory.starts_with(&mount.point))
}

/// The number after `key` in a file of `key value` lines.
pub(super) fn keyed_number(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok())
}

/// The quota in microseconds per [`PERIOD_US`] of so many cores. The kernel refuses less than a millisecond.
pub(super) fn quota_us(cores: f64) -> u64 {
    ((cores * PERIOD_US as f64).round() as u64).max(1_000)
}

fn remove_with_children(directory: &Path) {
    if let Ok(children) = fs::read_dir(directory) {
        for child in children.flatten() {
            if child.file_type().is_ok_and(|kind| kind.is_dir()) {
                let _ = fs::remove_dir(child.path());
            }
        }
    }
    let _ = fs::remove_dir(directory);
}

/// The kernel's default accounting period.
pub(super) const PERIOD_US: u64 = 100_000;

const LAB_PREFIX: &str = "parshall-";

const REMOVE_TRIES: u32 = 100;

const REMOVE_PAUSE: Duration = Duration::from_millis(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_of_both_hierarchies_are_found_among_others() {
        let mountinfo = "\
            22 1 0:20 / /proc rw,relatime - proc proc rw\n\
            31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:11 - cgroup cgroup rw,cpu,cpuacct\n\
            32 30 0:28 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
            33 30 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate\n";
        let mounts = mounts(mountinfo);
        assert_eq!(mounts.len(), 3);
        assert_eq!(mounts[0].options, ["rw", "cpu", "cpuacct"]);
        assert_eq!(mounts[2].kind, "cgroup2");
        assert_eq!(mounts[1].directory_of("/docker/abc/inner"), Path::new("/sys/fs/cgroup/memory/inner"));
        assert_eq!(mounts[2].directory_of("/"), Path::new("/sys/fs/cgroup/unified"));
        assert_eq!(mounts[2].directory_of("/user.slice/x"), Path::new("/sys/fs/cgroup/unified/user.slice/x"));
    }

    #[test]
    fn the_own_group_is_found_by_controller_and_for_v2_by_its_absence() {
        let cgroup = "4:memory:/a:b\n3:cpu,cpuacct:/c\n0::/d/e\n";
        assert_eq!(own_group(cgroup, "memory"), Some("/a:b"));
        assert_eq!(own_group(cgroup, "cpuacct"), Some("/c"));
        assert_eq!(own_group(cgroup, "cpuset"), None);
        assert_eq!(own_group(cgroup, ""), Some("/d/e"));
    }

    #[test]
    fn only_the_groups_of_dead_labs_are_removed() {
        let base = tempfile::tempdir().expect("a temporary directory");
        // No process has this id: it is above the kernel's highest.
        let dead = lab_directory(base.path(), i32::MAX);
        let alive = lab_directory(base.path(), std::process::id());
        let foreign = base.path().join("parshall-x");
        for directory in [&dead.join("relay"), &alive, &foreign] {
            create(directory).expect("a directory");
        }
        remove_stale(base.path());
        assert!(!dead.exists());
        assert!(alive.exists() && foreign.exists());
    }

    #[test]
    fn quotas_are_in_microseconds_of_the_period_and_never_below_the_kernels_least() {
        assert_eq!(quota_us(1.0), 100_000);
        assert_eq!(quota_us(0.25), 25_000);
        assert_eq!(quota_us(2.5), 250_000);
        assert_eq!(quota_us(0.000_1), 1_000);
    }

    #[test]
    fn numbers_are_found_by_their_whole_key() {
        let events = "low 0\noom 3\noom_kill 2\n";
        assert_eq!(keyed_number(events, "oom_kill"), Some(2));
        assert_eq!(keyed_number(events, "oom"), Some(3));
        assert_eq!(keyed_number(events, "high"), None);
    }
}
