//! Which role runs on which CPUs.
//!
//! A measured role that is limited to fewer cores than the machine has gets CPUs of its own, and the others
//! share the rest: otherwise generator, service and sink would take turns with it on its core, and its figures
//! would be theirs. Where nothing can be left over, everyone shares everything.

use std::{fmt, io};

/// CPUs by their number, ascending.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CpuList(Vec<usize>);

/// The division of the machine's CPUs for one trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// Where the measured role runs.
    pub measured: CpuList,
    /// Where all other roles run.
    pub others: CpuList,
}

/// How many cores this process may use: what its affinity and the quotas of its control groups leave of the machine.
#[must_use]
pub fn available_cores() -> u32 {
    std::thread::available_parallelism().map_or(1, |cores| u32::try_from(cores.get()).unwrap_or(u32::MAX))
}

impl CpuList {
    /// The CPUs that this process may use.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn available() -> io::Result<Self> {
        let set = rustix::thread::sched_getaffinity(None)?;
        let all = (0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu));
        Ok(Self(all.collect()))
    }

    /// How many there are.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.0.len()
    }

    /// Their numbers.
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        self.0.iter().copied()
    }

    /// The first `count` of them, or all if they are fewer.
    #[must_use]
    pub fn first(&self, count: usize) -> Self {
        Self(self.iter().take(count).collect())
    }
}

impl FromIterator<usize> for CpuList {
    fn from_iter<I: IntoIterator<Item = usize>>(cpus: I) -> Self {
        let mut cpus: Vec<_> = cpus.into_iter().collect();
        cpus.sort_unstable();
        cpus.dedup();
        Self(cpus)
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, cpu) in self.0.iter().enumerate() {
            let comma = if position == 0 { "" } else { "," };
            write!(formatter, "{comma}{cpu}")?;
        }
        Ok(())
    }
}

impl Placement {
    /// The placement on the CPUs `available` when the measured role may use `measured_cores`.
    #[must_use]
    pub fn new(available: &CpuList, measured_cores: Option<f64>) -> Self {
        let wanted = measured_cores.map_or(usize::MAX, |cores| cores.ceil() as usize).max(1);
        let Some(left) = available.count().checked_sub(wanted).filter(|left| *left > 0) else {
            return Self { measured: available.clone(), others: available.clone() };
        };
        // The last ones: the first CPU of a machine serves most of its interrupts.
        Self { measured: available.iter().skip(left).collect(), others: available.first(left) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(cpus: &[usize]) -> CpuList {
        cpus.iter().copied().collect()
    }

    fn placement(available: &[usize], cores: Option<f64>) -> (String, String) {
        let placement = Placement::new(&list(available), cores);
        (placement.measured.to_string(), placement.others.to_string())
    }

    #[test]
    fn a_limited_role_has_its_cpus_to_itself() {
        let own = |measured: &str, others: &str| (measured.to_owned(), others.to_owned());
        assert_eq!(placement(&[0, 1], Some(1.0)), own("1", "0"));
        assert_eq!(placement(&[0, 1, 2, 3], Some(2.0)), own("2,3", "0,1"));
        assert_eq!(placement(&[3, 5, 8], Some(0.5)), own("8", "3,5"));
        assert_eq!(placement(&[0, 1, 2], Some(1.5)), own("1,2", "0"));
    }

    #[test]
    fn where_nothing_would_be_left_everyone_shares_everything() {
        let shared = ("0,1".to_owned(), "0,1".to_owned());
        assert_eq!(placement(&[0, 1], None), shared);
        assert_eq!(placement(&[0, 1], Some(2.0)), shared);
        assert_eq!(placement(&[0, 1], Some(64.0)), shared);
        assert_eq!(placement(&[4], Some(1.0)), ("4".to_owned(), "4".to_owned()));
    }

    #[test]
    fn this_process_may_use_at_least_one_cpu() {
        assert!(CpuList::available().expect("the system tells").count() >= 1);
    }
}
