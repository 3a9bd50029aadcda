//! What the whole machine has used, so that what is not of the run can be told apart.

use std::time::Duration;

/// The CPU time that all processors together have spent on anything but waiting, since the machine started; what a
/// hypervisor gave to other machines included. `None` where the system does not say.
pub(crate) fn busy_cpu() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    busy_in(&text, procfs::ticks_per_second())
}

fn busy_in(stat: &str, ticks_per_second: u64) -> Option<Duration> {
    let all = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> = all.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
    // user, nice, system, idle, waiting for devices, interrupts, soft interrupts, stolen; guests are in user and nice.
    let [user, nice, system, _, _, interrupts, soft, stolen] = ticks.get(..8)?.try_into().ok()?;
    let busy = user + nice + system + interrupts + soft + stolen;
    Some(Duration::from_secs_f64(busy as f64 / ticks_per_second as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_is_not_work_and_stolen_time_is() {
        let stat = "cpu  100 10 50 9000 700 3 7 30 99 0\ncpu0 1 1 1 1 1 1 1 1 1 1\nbtime 5\n";
        assert_eq!(busy_in(stat, 100), Some(Duration::from_secs(2)));
        assert_eq!(busy_in("cpu  1 2\n", 100), None);
        assert_eq!(busy_in("", 100), None);
    }

    #[test]
    fn this_machine_says_it() {
        assert!(busy_cpu().is_some_and(|busy| busy > Duration::ZERO));
    }
}
