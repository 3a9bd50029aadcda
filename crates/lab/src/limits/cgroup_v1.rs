//! Control groups, version 1: a tree per controller, of which `cpu` and `memory` are used.

use std::{fs, io, path::PathBuf};

use units::ByteSize;

use super::group_files::{
    GroupError, PERIOD_US, create, keyed_number, lab_directory, mounts, own_group, quota_us, read, remove,
    remove_stale, write,
};

/// The lab's directories in the trees of both controllers.
#[derive(Debug)]
pub(super) struct CgroupV1 {
    cpu: PathBuf,
    memory: PathBuf,
}

/// The group of one role.
#[derive(Debug)]
pub(super) struct Group {
    cpu: PathBuf,
    memory: PathBuf,
}

impl CgroupV1 {
    pub(super) fn detect() -> Result<Self, GroupError> {
        let mountinfo = read("/proc/self".as_ref(), "mountinfo")?;
        let cgroup = read("/proc/self".as_ref(), "cgroup")?;
        let mounts = mounts(&mountinfo);
        let prepare = |controller: &'static str| {
            let mount = mounts
                .iter()
                .filter(|mount| mount.kind == "cgroup")
                .find(|mount| mount.options.iter().any(|option| option == controller))
                .ok_or(GroupError::NotMounted(controller))?;
            let own = own_group(&cgroup, controller).ok_or(GroupError::NoOwnGroup(controller))?;
            let base = mount.directory_of(own);
            remove_stale(&base);
            let directory = lab_directory(&base, std::process::id());
            create(&directory)?;
            Ok(directory)
        };
        let cpu = prepare("cpu")?;
        let memory = prepare("memory").inspect_err(|_| remove(&cpu))?;
        Ok(Self { cpu, memory })
    }

    pub(super) fn group(
        &self,
        name: &str,
        cores: Option<f64>,
        memory: Option<ByteSize>,
    ) -> Result<Group, GroupError> {
        // Dropped on an early return, it removes what has been made so far.
        let group = Group { cpu: self.cpu.join(name), memory: self.memory.join(name) };
        create(&group.cpu)?;
        create(&group.memory)?;
        if let Some(cores) = cores {
            write(&group.cpu, "cpu.cfs_period_us", PERIOD_US)?;
            write(&group.cpu, "cpu.cfs_quota_us", quota_us(cores))?;
        }
        if let Some(memory) = memory {
            write(&group.memory, "memory.limit_in_bytes", memory.bytes())?;
            // Memory and swap together, where swap is accounted for: what does not fit must not hide there.
            let _ = write(&group.memory, "memory.memsw.limit_in_bytes", memory.bytes());
        }
        Ok(group)
    }
}

impl Group {
    pub(super) fn admit(&self, process_id: u32) -> io::Result<()> {
        for directory in [&self.cpu, &self.memory] {
            fs::write(directory.join("cgroup.procs"), process_id.to_string())?;
        }
        Ok(())
    }

    pub(super) fn ran_out_of_memory(&self) -> bool {
        read(&self.memory, "memory.oom_control")
            .is_ok_and(|text| keyed_number(&text, "oom_kill").is_some_and(|kills| kills > 0))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        remove(&self.cpu);
        remove(&self.memory);
    }
}

impl Drop for CgroupV1 {
    fn drop(&mut self) {
        // Fails, as it should, while a group of another run of this process is in it.
        let _ = fs::remove_dir(&self.cpu);
        let _ = fs::remove_dir(&self.memory);
    }
}
