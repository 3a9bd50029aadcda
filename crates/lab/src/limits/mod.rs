//! What each role may use of the machine, and how that is enforced.
//!
//! Every role gets a control group below the lab's own group, so that whatever bounds the lab bounds its
//! roles too:
//!
//! ```text
//! <hierarchy>/<the lab's own group>/parshall-<pid of the lab>/<role>     cpu quota, memory ceiling
//! ```
//!
//! Both hierarchies are known: v2 (one tree) and v1 (a tree per controller). CPUs are divided by affinity on
//! top of it: a limited measured role gets CPUs of its own, and everyone else shares the rest
//! ([`Placement`]). Where control groups are not permitted, affinity is all there is: fractions of a core are
//! rounded up and memory is only watched. What is truly in force is stated in a [`Limit`] for the results.
//!
//! A role starts, waits for its configuration, is put into its group, and only then learns what to do. Groups
//! disappear with their [`RoleGroup`]; those that a killed lab left behind are removed by the next one.

mod cgroup_v1;
mod cgroup_v2;
mod group_files;
mod outer;
mod placement;

pub use outer::outer_limits;
pub use placement::{CpuList, Placement, available_cores};

use std::io;

use rustix::{process::Pid, thread::CpuSet};
use units::ByteSize;

use self::{cgroup_v1::CgroupV1, cgroup_v2::CgroupV2};
use crate::results::{Limit, LimitMechanism};

/// Puts limits on processes by the best means that this machine permits.
#[derive(Debug)]
pub struct Limiter {
    means: Means,
}

/// What a role may use.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RoleBounds {
    /// Cores, in fractions too; `None` is no bound.
    pub cores: Option<f64>,
    /// Memory; `None` is no bound.
    pub memory: Option<ByteSize>,
    /// The CPUs that it runs on.
    pub cpus: CpuList,
}

/// The limits of one role in force. Dropped, it removes the role's group, whose processes must have ended.
#[derive(Debug)]
pub struct RoleGroup {
    group: Option<Group>,
    cpus: CpuList,
    limit: Limit,
}

/// A process can't be put under its limits.
#[derive(Debug, thiserror::Error)]
#[error("limits can't be applied to process {process_id}: {what}")]
pub struct AdmitError {
    /// The process.
    pub process_id: u32,
    /// What was being done.
    pub what: &'static str,
    /// What the system said.
    pub source: io::Error,
}

#[derive(Debug)]
enum Means {
    V2(CgroupV2),
    V1(CgroupV1),
    /// No control groups, and why.
    AffinityOnly(String),
}

#[derive(Debug)]
enum Group {
    V2(cgroup_v2::Group),
    V1(cgroup_v1::Group),
}

impl Limiter {
    /// Finds out what this machine permits, and removes the groups of labs that no longer live.
    #[must_use]
    pub fn detect() -> Self {
        let means = CgroupV2::detect().map(Means::V2).or_else(|v2| {
            CgroupV1::detect()
                .map(Means::V1)
                .map_err(|v1| format!("control groups are not usable here (v2: {v2}; v1: {v1})"))
        });
        Self { means: means.unwrap_or_else(Means::AffinityOnly) }
    }

    /// Affinity alone, though control groups may be there.
    #[must_use]
    pub fn affinity_only(reason: impl Into<String>) -> Self {
        Self { means: Means::AffinityOnly(reason.into()) }
    }

    /// The best means found.
    #[must_use]
    pub const fn mechanism(&self) -> LimitMechanism {
        match self.means {
            Means::V2(_) => LimitMechanism::CgroupV2,
            Means::V1(_) => LimitMechanism::CgroupV1,
            Means::AffinityOnly(_) => LimitMechanism::Affinity,
        }
    }

    /// Makes the group of the role `name` with its bounds. Never fails: what can't be enforced is said in
    /// [`RoleGroup::limit`].
    #[must_use]
    pub fn group(&self, name: &str, bounds: &RoleBounds) -> RoleGroup {
        // CPUs of one's own bound whole cores already; a quota on top would only throttle at random.
        let quota_cores = bounds.cores.filter(|cores| *cores < bounds.cpus.count() as f64);
        let (group, complaint) = match &self.means {
            _ if bounds.cores.is_none() && bounds.memory.is_none() => (None, None),
            Means::V2(v2) => match v2.group(name, quota_cores, bounds.memory) {
                Ok(group) => (Some(Group::V2(group)), None),
                Err(error) => (None, Some(error.to_string())),
            },
            Means::V1(v1) => match v1.group(name, quota_cores, bounds.memory) {
                Ok(group) => (Some(Group::V1(group)), None),
                Err(error) => (None, Some(error.to_string())),
            },
            Means::AffinityOnly(reason) => (None, Some(reason.clone())),
        };
        let limit = match (&group, complaint) {
            (Some(_), _) => Limit {
                mechanism: self.mechanism(),
                cores: bounds.cores,
                memory_bytes: bounds.memory.map(ByteSize::bytes),
                note: None,
            },
            (None, None) => {
                Limit { mechanism: LimitMechanism::None, cores: None, memory_bytes: None, note: None }
            }
            (None, Some(reason)) => without_group(bounds, &reason),
        };
        // Without a group, affinity has to be the bound.
        let cpus = match (&group, bounds.cores) {
            (None, Some(cores)) => bounds.cpus.first(cores.ceil() as usize),
            _ => bounds.cpus.clone(),
        };
        RoleGroup { group, cpus, limit }
    }
}

impl RoleGroup {
    /// Puts a process, with all of its threads, under the limits.
    ///
    /// # Errors
    /// [`AdmitError`] when the process has ended or the system refuses.
    pub fn admit(&self, process_id: u32) -> Result<(), AdmitError> {
        let failed = |what| move |source: io::Error| AdmitError { process_id, what, source };
        match &self.group {
            Some(Group::V2(group)) => group.admit(process_id).map_err(failed("control group"))?,
            Some(Group::V1(group)) => group.admit(process_id).map_err(failed("control group"))?,
            None => {}
        }
        let mut set = CpuSet::new();
        for cpu in self.cpus.iter() {
            set.set(cpu);
        }
        if self.cpus.count() == 0 {
            return Ok(());
        }
        // Threads that exist already keep their own affinity, so each is told; later ones inherit it.
        let threads =
            std::fs::read_dir(format!("/proc/{process_id}/task")).map_err(failed("reading its threads"))?;
        for thread in threads {
            let name = thread.map_err(failed("reading its threads"))?.file_name();
            let id = name.to_str().and_then(|name| name.parse().ok());
            if let Some(thread) = id.and_then(Pid::from_raw) {
                rustix::thread::sched_setaffinity(Some(thread), &set)
                    .map_err(|error| failed("CPU affinity")(error.into()))?;
            }
        }
        Ok(())
    }

    /// The limits as they are in force.
    #[must_use]
    pub const fn limit(&self) -> &Limit {
        &self.limit
    }

    /// Whether the kernel killed a process of the group because the memory ceiling was reached.
    #[must_use]
    pub fn ran_out_of_memory(&self) -> bool {
        match &self.group {
            Some(Group::V2(group)) => group.ran_out_of_memory(),
            Some(Group::V1(group)) => group.ran_out_of_memory(),
            None => false,
        }
    }
}

fn without_group(bounds: &RoleBounds, reason: &str) -> Limit {
    let cores = bounds.cores.map(|cores| cores.ceil().min(bounds.cpus.count() as f64));
    let mut note = reason.to_owned();
    if let (Some(wanted), Some(given)) = (bounds.cores, cores)
        && wanted < given
    {
        note.push_str(&format!("; {wanted} cores were rounded up to {given}"));
    }
    if let Some(memory) = bounds.memory {
        note.push_str(&format!("; the memory limit of {memory} is not enforced"));
    }
    Limit {
        mechanism: if cores.is_some() { LimitMechanism::Affinity } else { LimitMechanism::None },
        cores,
        memory_bytes: None,
        note: Some(note),
    }
}

#[cfg(test)]
mod tests;
