//! Roles in a network of their own, and with clocks of their own.

use super::rig::{
    Bench, Finished, SCENARIO, clocks_are_ahead_by, has_latency_or_says_why, skip, succeeds, text,
};

/// Two networks that reach each other and nothing else: the lab's at 10.231.0.1, another at 10.231.0.2.
struct Networks {
    lab: String,
    other: String,
}

impl Networks {
    fn create() -> Result<Self, String> {
        let [lab, other] = ["lab", "other"].map(|name| format!("parshall-{name}-{}", std::process::id()));
        let networks = Self { lab, other };
        let Self { lab, other } = &networks;
        succeeds(&["ip", "netns", "add", lab])?;
        succeeds(&["ip", "netns", "add", other])?;
        succeeds(&["ip", "-n", lab, "link", "add", "one", "type", "veth", "peer", "two", "netns", other])?;
        for (namespace, link, address) in [(lab, "one", "10.231.0.1/24"), (other, "two", "10.231.0.2/24")] {
            succeeds(&["ip", "-n", namespace, "address", "add", address, "dev", link])?;
            for link in [link, "lo"] {
                succeeds(&["ip", "-n", namespace, "link", "set", link, "up"])?;
            }
        }
        Ok(networks)
    }
}

impl Drop for Networks {
    fn drop(&mut self) {
        for namespace in [&self.lab, &self.other] {
            let _ = succeeds(&["ip", "netns", "delete", namespace]);
        }
    }
}

#[test]
fn roles_in_another_network_reach_the_service_where_it_says() {
    let networks = match Networks::create() {
        Ok(networks) => networks,
        Err(reason) => return skip("roles_in_another_network_reach_the_service_where_it_says", &reason),
    };
    let bench = Bench::new();
    let there = ["ip", "netns", "exec", &networks.other];
    let here = ["ip", "netns", "exec", &networks.lab];
    let cases: [(&str, &[&str]); 2] = [
        // The service is here, and listens at every address.
        ("embedded: {listen: 0.0.0.0, advertise: 10.231.0.1}\n", &["load", "relay", "sink"]),
        // The service is there; its only address is the one that it says.
        ("embedded: {listen: 10.231.0.2}\n", &["hub", "relay"]),
    ];
    for (embedded, roles) in cases {
        let launched: Vec<(&str, &[&str])> = roles.iter().map(|role| (*role, &there[..])).collect();
        let scenario = format!("{SCENARIO}{embedded}{}", bench.roles(&launched))
            .replace("relay: {fan_out", "relay: {checkpoint_store: blob, fan_out");
        let finished = bench.finish(bench.command(&here, &scenario));
        let expected: Vec<(&str, f64)> = roles.iter().map(|role| (*role, 0.0)).collect();
        clocks_are_ahead_by(finished.whole_trial(), &expected);
        has_latency_or_says_why(&finished);
    }
    // By default the service is on the loopback interface, which is another one there.
    let scenario = format!("{SCENARIO}{}", bench.roles(&[("load", &there)]));
    let finished = bench.finish(bench.command(&here, &scenario));
    let [finding] = &finished.findings("role-failed")[..] else { panic!("{}", finished.results) };
    assert!(finding.contains("set `embedded.listen` and `embedded.advertise`"), "{finding}");
    bench.until_no_role_is_left();
}

/// Runs a command in a time namespace whose monotonic clock is ahead by `seconds nanoseconds`. What util-linux has for it knows
/// whole seconds only.
const IN_TIME_NAMESPACE: &str = r#"
use strict;
my %number = (x86_64 => 272, aarch64 => 97);
my $machine = `uname -m`;
chomp $machine;
my $ahead = shift @ARGV;
my $unshare = $number{$machine} or die "no system call is known for $machine\n";
syscall($unshare, 0x80) == 0 or die "unshare: $!\n";
open(my $offsets, '>', '/proc/self/timens_offsets') or die "timens_offsets: $!\n";
print $offsets "monotonic $ahead\n";
close($offsets) or die "timens_offsets: $!\n";
my $child = fork // die "fork: $!\n";
exec @ARGV or die "$ARGV[0]: $!\n" unless $child;
waitpid($child, 0);
exit($? >> 8);
"#;

const MS: f64 = 1_000.0;

fn p50(finished: &Finished) -> f64 {
    finished.whole_trial()["latency_us"]["p50"].as_f64().unwrap()
}

#[test]
#[ignore = "long tier: on a busy machine the clocks are known less well than the latency is long"]
fn latency_between_clocks_that_are_50_ms_apart_is_that_of_one_clock_within_the_bound() {
    let bench = Bench::new();
    let script = bench.path("in_time_namespace.pl");
    std::fs::write(&script, IN_TIME_NAMESPACE).unwrap();
    let script = text(&script);
    let [ahead, behind] = ["0 50000000", "-1 950000000"].map(|offset| ["perl", script.as_str(), offset]);
    if let Err(reason) = succeeds(&[&ahead[..], &["true"]].concat()) {
        let test = "latency_between_clocks_that_are_50_ms_apart_is_that_of_one_clock_within_the_bound";
        return skip(test, &reason);
    }
    let scenario = SCENARIO.replace("measure: 2 s", "measure: 6 s");
    let local = p50(&bench.run(&scenario));
    for (load, sink) in [(None, Some(50.0)), (None, Some(-50.0)), (Some(50.0), Some(-50.0))] {
        let mut launched: Vec<(&str, &[&str])> = Vec::new();
        let mut expected = Vec::new();
        for (role, offset) in [("load", load), ("sink", sink)] {
            if let Some(offset) = offset {
                launched.push((role, if offset > 0.0 { &ahead } else { &behind }));
                expected.push((role, offset * MS));
            }
        }
        let finished = bench.run(&format!("{scenario}{}", bench.roles(&launched)));
        let trial = finished.whole_trial();
        // The truth is known, and has to be within the bound.
        clocks_are_ahead_by(trial, &expected);
        let latency = &trial["latency_us"];
        let bound = latency["precision"]["clock_us"].as_f64().unwrap();
        // What a busy machine adds is far less than the 50 ms by which uncorrected latencies would be off.
        assert!((p50(&finished) - local).abs() <= bound + 25.0 * MS, "{local}: {latency}");
        // Nothing arrives before it is sent, as far as the clocks can tell.
        let earliest = latency["negative"]["min"].as_f64().unwrap_or(0.0);
        assert!(-earliest <= bound, "{latency}");
        let bounds = &latency["precision"]["p50"];
        let width = bounds["high"].as_f64().unwrap() - bounds["low"].as_f64().unwrap();
        assert!(width >= 2.0 * bound.min(p50(&finished)), "the bound is part of the precision: {latency}");
    }
    bench.until_no_role_is_left();
}
