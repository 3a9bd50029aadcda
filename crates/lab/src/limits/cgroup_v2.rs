//! The unified hierarchy.
//!
//! A group there has either processes or divided children, never both. The lab's own group has processes, so
//! its groups can only be beside it: in the group above, if that divides `cpu` and `memory` among its children,
//! and if the lab's own group has no bounds that would thereby be evaded.

use std::{fs, io, path::PathBuf};

use units::ByteSize;

use super::group_files::{
    GroupError, PERIOD_US, create, keyed_number, lab_directory, mounts, own_group, quota_us, read,
    remove, remove_stale, write,
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
        let mounts = mounts(&mountinfo);
        let mount = mounts
            .iter()
            .find(|mount| mount.kind == "cgroup2")
            .ok_or(GroupError::NotMounted("cgroup2"))?;
        let group = own_group(&cgroup, "").ok_or(GroupError::NoOwnGroup("cgroup2"))?;
        let own = mount.directory_of(group);
        // The root group may hold processes and divide all the same.
        let base = if own == mount.point {
            own
        } else {
            for file in ["cpu.max", "memory.max"] {
                if read(&own, file).is_ok_and(|bound| !bound.starts_with("max")) {
                    return Err(GroupError::NotDivisible(format!(
                        "{} is bounded by {file}, which groups beside it would evade",
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
        if !["cpu", "memory"]
            .iter()
            .all(|wanted| divided.split(' ').any(|known| known == *wanted))
        {
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
        let group = Group {
            directory: self.directory.join(name),
        };
        create(&group.directory)?;
        if let Some(cores) = cores {
            write(
                &group.directory,
                "cpu.max",
                format!("{} {PERIOD_US}", quota_us(cores)),
            )?;
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
