//! What each role of a trial may use.

use std::collections::BTreeMap;

use super::{plan::TrialPlan, supervisor::Supervisor};
use crate::{
    limits::{CpuList, Limiter, Placement, RoleBounds, RoleGroup, available_cores},
    results::{Limit, LimitMechanism, Role},
};

/// A group for each role, with the CPUs that it runs on.
pub(super) fn groups(plan: &TrialPlan<'_>, limiter: &Limiter) -> BTreeMap<Role, RoleGroup> {
    // A system that does not tell has no CPUs to divide; everyone runs anywhere then.
    let available = CpuList::available().unwrap_or_default();
    let measured = plan.topology.measured_role();
    let placement = Placement::new(&available, plan.limits(measured).cores);
    Role::ALL
        .into_iter()
        .map(|role| {
            let limits = plan.limits(role);
            let bounds = RoleBounds {
                cores: limits.cores,
                memory: limits.memory,
                cpus: if role == measured { placement.measured.clone() } else { placement.others.clone() },
            };
            (role, limiter.group(role.name(), &bounds))
        })
        .collect()
}

/// The limits of a role, and the cores of the machine that it runs on. What bounds a role elsewhere is that machine's.
pub(super) fn allowed(
    role: Role,
    supervisor: &Supervisor,
    groups: &BTreeMap<Role, RoleGroup>,
) -> (Limit, u32) {
    let remote = supervisor.of(role).find_map(|(_, running)| running.remote.as_ref());
    if let Some(machine) = remote.and_then(|remote| remote.machine.as_ref()) {
        let limit = Limit {
            mechanism: LimitMechanism::None,
            cores: machine.core_limit,
            memory_bytes: machine.memory_limit_bytes,
            note: None,
        };
        return (limit, machine.cores);
    }
    let group = groups.get(&role).expect("there is a group for every role");
    (group.limit().clone(), available_cores())
}
