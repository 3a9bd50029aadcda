//! What a connection for each event does to the ports of a client.
//!
//! Who closes a connection first keeps its port for a minute. Between two processes of one machine the system gives such a port away
//! again after a second; to another machine it does not, so that a rate which passes here may fail there, after a while.

use crate::figure::{count, duration_us, rate};
use crate::results::{Case, CrossCaseFinding, Figure, FindingKind, Severity};
use crate::scenario::Connections;

/// For each case that makes so many connections that the ports of a client would not last.
pub(super) fn findings(sweep: &str, cases: &[&Case]) -> Vec<CrossCaseFinding> {
    cases.iter().filter_map(|case| finding(sweep, case)).collect()
}

fn finding(sweep: &str, case: &Case) -> Option<CrossCaseFinding> {
    let shape = case.shape();
    let producer = shape.producer.as_ref().filter(|_| case.passed)?;
    if producer.connections != Connections::PerEvent {
        return None;
    }
    let connections_per_s = Figure::ProducedPerS.of_case(case)? / producer.batch.max(1) as f64;
    let kept = connections_per_s * TIME_WAIT_S;
    if kept < PORTS {
        return None;
    }
    let message = format!(
        "{}: {} connections/s, each of whose ports rests for {} after it was closed, would keep {} ports; a client has {} for one \
         address of a service, and would be out of them after {}. Within this machine a port comes back after a second",
        case.name,
        rate(connections_per_s),
        duration_us(TIME_WAIT_S * 1e6),
        count(kept as u64),
        count(PORTS as u64),
        duration_us(PORTS / connections_per_s * 1e6),
    );
    Some(CrossCaseFinding {
        severity: Severity::Note,
        kind: FindingKind::ClientPorts,
        sweep: sweep.to_owned(),
        cases: vec![case.name.clone()],
        message,
        hint: Some("keep connections: `topology.load.producer.connections: pooled`".to_owned()),
    })
}

/// How long Linux keeps the port of a connection that its side has closed first (`TIME_WAIT`), in seconds.
const TIME_WAIT_S: f64 = 60.0;

/// How many ports Linux gives a client for one address of a service (`net.ipv4.ip_local_port_range`: 32768 to 60999).
const PORTS: f64 = 28_232.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;
    use crate::results::{ProducerShape, Shape, Summary};

    fn said(connections: Connections, batch: u64, per_s: f64) -> Vec<String> {
        let mut case = sample::quick().cases.swap_remove(0);
        "isolated".clone_into(&mut case.name);
        let producer = ProducerShape { connections, batch, ..ProducerShape::default() };
        case.shape = Some(Shape { producer: Some(producer), pipeline: None, ..Shape::default() });
        case.produced_per_s = Some(Summary::of_one(per_s));
        findings("ways", &[&case]).into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn a_rate_that_would_use_up_the_ports_says_when() {
        assert_eq!(
            said(Connections::PerEvent, 1, 1_000.0),
            [
                "isolated: 1,000 connections/s, each of whose ports rests for 60.0 s after it was closed, would keep 60,000 ports; a \
                 client has 28,232 for one address of a service, and would be out of them after 28.2 s. Within this machine a port \
                 comes back after a second"
            ]
        );
        assert!(said(Connections::PerEvent, 1, 400.0).is_empty());
        assert!(said(Connections::PerEvent, 50, 1_000.0).is_empty(), "a connection carries several");
        assert!(said(Connections::Pooled, 1, 100_000.0).is_empty());
    }
}
