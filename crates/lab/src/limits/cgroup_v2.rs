//! Control groups, version 2: one tree for all controllers.
//!
//! A group there has either processes or divided children, never both. The lab's own group has processes, so
//! its groups can only be beside it: in the group above, if that divides `cpu` and `memory` among its children,
//! and if the lab's own group has no bounds that would thereby be evaded.

use std::{fs, io, path::PathBuf};

use units::ByteSize;

use super::group_files::{
    GroupError, PERIOD_US, create, keyed_number, lab_directory, mounts, own_group, quota_us, read, remove,
    remove_stale, write,
};

/// The lab's directory.
#[derive(Debug)]
pub(super) struct CgroupV2 {
    directory: PathBuf,
}

/// The group of one role.
#[derive(Debug)]
pub(super) struct Group {
    directory: PathBuf,
}

impl CgroupV2 {
    pub(super) fn detect() -> Result<Self, GroupError> {
        let mountinfo = read("/proc/self".as_ref(), "mountinfo")?;
        let cgroup = read("/proc/self".as_ref(), "cgroup")?;
        Self::detect_in(&mountinfo, &cgroup)
    }

    /// Detects it by the texts of `/proc/self/mountinfo` and `/proc/self/cgroup`.
    fn detect_in(mountinfo: &str, cgroup: &str) -> Result<Self, GroupError> {
        let mounts = mounts(mountinfo);
        let mount =
            mounts.iter().find(|mount| mount.kind == "cgroup2").ok_or(GroupError::NotMounted("cgroup2"))?;
        let group = own_group(cgroup, "").ok_or(GroupError::NoOwnGroup("cgroup2"))?;
        let own = mount.directory_of(group);
        // The root group may hold processes and divide all the same.
        let base = if own == mount.point {
            own
        } else {
            for file in ["cpu.max", "memory.max"] {
                if read(&own, file).is_ok_and(|bound| !bound.starts_with("max")) {
                    return Err(GroupError::NotDivisible(format!(
                        "{} is limited by {file}, which does not apply to sibling groups",
                        own.display()
                    )));
                }
            }
            own.parent().map_or_else(|| own.clone(), PathBuf::from)
        };
        let available = read(&base, "cgroup.controllers")?;
        for controller in ["cpu", "memory"] {
            if !available.split(' ').any(|known| known == controller) {
                return Err(GroupError::NotDivisible(format!(
                    "{} has no {controller} controller",
                    base.display()
                )));
            }
        }
        let divided = read(&base, "cgroup.subtree_control")?;
        if !["cpu", "memory"].iter().all(|wanted| divided.split(' ').any(|known| known == *wanted)) {
            write(&base, "cgroup.subtree_control", DIVIDE)?;
        }
        remove_stale(&base);
        let directory = lab_directory(&base, std::process::id());
        create(&directory)?;
        let lab = Self { directory };
        write(&lab.directory, "cgroup.subtree_control", DIVIDE)?;
        Ok(lab)
    }

    pub(super) fn group(
        &self,
        name: &str,
        cores: Option<f64>,
        memory: Option<ByteSize>,
    ) -> Result<Group, GroupError> {
        // Dropped on an early return, it removes what has been made so far.
        let group = Group { directory: self.directory.join(name) };
        create(&group.directory)?;
        if let Some(cores) = cores {
            write(&group.directory, "cpu.max", format!("{} {PERIOD_US}", quota_us(cores)))?;
        }
        if let Some(memory) = memory {
            write(&group.directory, "memory.max", memory.bytes())?;
            // Absent where swap is off: what does not fit must not hide there.
            let _ = write(&group.directory, "memory.swap.max", 0);
        }
        Ok(group)
    }
}

impl Group {
    pub(super) fn admit(&self, process_id: u32) -> io::Result<()> {
        fs::write(self.directory.join("cgroup.procs"), process_id.to_string())
    }

    pub(super) fn ran_out_of_memory(&self) -> bool {
        read(&self.directory, "memory.events")
            .is_ok_and(|text| keyed_number(&text, "oom_kill").is_some_and(|kills| kills > 0))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        remove(&self.directory);
    }
}

impl Drop for CgroupV2 {
    fn drop(&mut self) {
        // Fails, as it should, while a group of another run of this process is in it.
        let _ = fs::remove_dir(&self.directory);
    }
}

const DIVIDE: &str = "+cpu +memory";

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// A tree of plain files with the names of the kernel's, and the texts that lead there.
    struct Tree {
        directory: tempfile::TempDir,
        mountinfo: String,
    }

    impl Tree {
        fn new(controllers: &str) -> Self {
            let directory = tempfile::tempdir().expect("a temporary directory");
            let point = directory.path();
            fs::create_dir(point.join("lab.slice")).expect("a directory");
            for (file, content) in [
                ("cgroup.controllers", controllers),
                ("cgroup.subtree_control", ""),
                ("lab.slice/cpu.max", "max 100000\n"),
                ("lab.slice/memory.max", "max\n"),
            ] {
                fs::write(point.join(file), content).expect("a file");
            }
            let mountinfo = format!("33 30 0:29 / {} rw - cgroup2 cgroup2 rw,nsdelegate\n", point.display());
            Self { directory, mountinfo }
        }

        fn detect(&self) -> Result<CgroupV2, GroupError> {
            CgroupV2::detect_in(&self.mountinfo, "0::/lab.slice\n")
        }

        fn content(&self, file: impl AsRef<Path>) -> String {
            fs::read_to_string(self.directory.path().join(file)).expect("a file")
        }
    }

    #[test]
    fn groups_are_made_beside_the_labs_own_with_the_kernels_words_for_their_bounds() {
        let tree = Tree::new("cpuset cpu io memory pids\n");
        let lab = tree.detect().expect("a tree that can be divided");
        let own = lab_directory(Path::new(""), std::process::id());
        assert_eq!(tree.content("cgroup.subtree_control"), "+cpu +memory");
        assert_eq!(tree.content(own.join("cgroup.subtree_control")), "+cpu +memory");
        let group = lab.group("relay", Some(1.5), Some(ByteSize::from_mebibytes(64))).expect("a group");
        let relay = own.join("relay");
        assert_eq!(tree.content(relay.join("cpu.max")), "150000 100000");
        assert_eq!(tree.content(relay.join("memory.max")), "67108864");
        assert_eq!(tree.content(relay.join("memory.swap.max")), "0");
        group.admit(4711).expect("the file can be written");
        assert_eq!(tree.content(relay.join("cgroup.procs")), "4711");
        assert!(!group.ran_out_of_memory());
        fs::write(tree.directory.path().join(relay).join("memory.events"), "low 0\noom 1\noom_kill 1\n")
            .expect("a file");
        assert!(group.ran_out_of_memory());
    }

    #[test]
    fn a_tree_without_the_controllers_or_with_bounds_of_its_own_is_not_divided() {
        let refusal = |tree: &Tree| tree.detect().expect_err("not divisible").to_string();
        let without = Tree::new("cpuset cpu\n");
        assert!(refusal(&without).ends_with("has no memory controller"));
        let bounded = Tree::new("cpu memory\n");
        fs::write(bounded.directory.path().join("lab.slice/cpu.max"), "50000 100000\n").expect("a file");
        let refusal = refusal(&bounded);
        assert!(refusal.contains("is limited by cpu.max"), "{refusal}");
        assert_eq!(bounded.content("cgroup.subtree_control"), "");
    }
}
