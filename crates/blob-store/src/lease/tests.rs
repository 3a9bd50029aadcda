//! Every operation in every state, as the service documents them.

use super::*;
use proptest::prelude::*;

const A: LeaseId = LeaseId(0xa);
const B: LeaseId = LeaseId(0xb);
const C: LeaseId = LeaseId(0xc);

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_795_213_063 + seconds)
}

fn leased(duration: LeaseDuration) -> Lease {
    Lease::new(A, duration, at(0))
}

fn fixed() -> Lease {
    leased(LeaseDuration::Fixed(30))
}

fn breaking() -> Lease {
    broken(&leased(LeaseDuration::Infinite), Some(20), at(0)).0
}

/// A lease of A in each state at second 10, or 100 for those that have ended.
fn states() -> [(LeaseState, Option<Lease>, SystemTime); 5] {
    [
        (LeaseState::Available, None, at(10)),
        (LeaseState::Leased, Some(fixed()), at(10)),
        (LeaseState::Breaking, Some(breaking()), at(10)),
        (LeaseState::Broken, Some(breaking()), at(100)),
        (LeaseState::Expired, Some(fixed()), at(100)),
    ]
}

#[test]
fn every_operation_comes_to_what_is_documented_in_every_state() {
    use LeaseError::*;
    use LeaseState::*;
    let acquire = |proposed| LeaseAction::Acquire { duration: LeaseDuration::Fixed(15), proposed };
    let change = |id, proposed| LeaseAction::Change { id, proposed };
    let stop = |period| LeaseAction::Break { period };
    let held = |id| Ok((Leased, Some(id)));
    let ended = |state| Ok((state, None));
    for (action, outcomes) in [
        // In the order of `states`: available, leased, breaking, broken, expired.
        (acquire(Some(A)), [held(A), held(A), Err(BreakingNotAcquired), held(A), held(A)]),
        (acquire(Some(B)), [held(B), Err(AlreadyPresent), Err(AlreadyPresent), held(B), held(B)]),
        (
            LeaseAction::Renew(A),
            [Err(ActionIdMismatch), held(A), Err(BrokenNotRenewed), Err(BrokenNotRenewed), held(A)],
        ),
        (LeaseAction::Renew(B), [Err(ActionIdMismatch); 5]),
        (
            change(A, B),
            [
                Err(ActionNotPresent),
                held(B),
                Err(BreakingNotChanged),
                Err(ActionNotPresent),
                Err(ActionNotPresent),
            ],
        ),
        (
            change(B, A),
            [
                Err(ActionNotPresent),
                held(A),
                Err(BreakingNotChanged),
                Err(ActionNotPresent),
                Err(ActionNotPresent),
            ],
        ),
        (
            change(B, C),
            [
                Err(ActionNotPresent),
                Err(ActionIdMismatch),
                Err(ActionIdMismatch),
                Err(ActionNotPresent),
                Err(ActionNotPresent),
            ],
        ),
        (
            LeaseAction::Release(A),
            [Err(ActionIdMismatch), ended(Available), ended(Available), ended(Available), ended(Available)],
        ),
        (LeaseAction::Release(B), [Err(ActionIdMismatch); 5]),
        (stop(Some(0)), [Err(ActionNotPresent), ended(Broken), ended(Broken), ended(Broken), ended(Broken)]),
        (
            stop(Some(60)),
            [Err(ActionNotPresent), ended(Breaking), ended(Breaking), ended(Broken), ended(Broken)],
        ),
    ] {
        for ((state, lease, now), expected) in states().into_iter().zip(outcomes) {
            assert_eq!(state_of(lease.as_ref(), now), state);
            let applied = action.apply(lease.as_ref(), now);
            let seen = applied.map(|(lease, outcome)| (state_of(lease.as_ref(), now), outcome.id));
            assert_eq!(seen, expected, "{action:?} while {state:?}");
        }
    }
}

#[test]
fn writes_and_reads_are_let_through_as_documented() {
    use LeaseError::*;
    let blob = Leased::Blob;
    for ((state, lease, now), (own, other, none)) in states().into_iter().zip([
        (Err(NotPresent(blob)), Err(NotPresent(blob)), Ok(())),
        (Ok(()), Err(IdMismatch(blob)), Err(IdMissing(blob))),
        (Ok(()), Err(IdMismatch(blob)), Err(IdMissing(blob))),
        (Err(Lost(blob)), Err(NotPresent(blob)), Ok(())),
        (Err(Lost(blob)), Err(NotPresent(blob)), Ok(())),
    ]) {
        let lease = lease.as_ref();
        for (given, expected) in [(Some(A), own), (Some(B), other), (None, none)] {
            assert_eq!(check_write(lease, given, blob, now), expected, "{state:?}");
            let read = given.map_or(Ok(()), |_| expected);
            assert_eq!(check_read(lease, given, blob, now), read, "{state:?}");
        }
        let locks = state.is_locked();
        assert_eq!(after_write(lease, now).is_some(), locks, "{state:?}");
    }
}

#[test]
fn a_break_period_only_ever_shortens_a_lease() {
    let stop = |lease: &Lease, period, now| {
        let (lease, outcome) = LeaseAction::Break { period }.apply(Some(lease), now).unwrap();
        (lease.unwrap(), outcome.remaining_s.unwrap())
    };
    let infinite = leased(LeaseDuration::Infinite);
    assert_eq!(stop(&infinite, None, at(10)).1, 0);
    assert_eq!(stop(&infinite, Some(60), at(10)).1, 60);
    assert_eq!(stop(&fixed(), None, at(10)).1, 20);
    assert_eq!(stop(&fixed(), Some(60), at(10)).1, 20);
    assert_eq!(stop(&fixed(), Some(5), at(10)).1, 5);
    let (breaking, _) = stop(&fixed(), Some(5), at(10));
    assert_eq!(stop(&breaking, None, at(12)).1, 3);
    assert_eq!(stop(&breaking, Some(60), at(12)).1, 3);
    assert_eq!(stop(&breaking, Some(0), at(12)).1, 0);
    assert_eq!(stop(&fixed(), Some(60), at(100)).1, 0);
}

#[test]
fn a_random_id_is_a_guid_that_is_not_repeated() {
    let ids: std::collections::HashSet<_> = (0..100).map(|_| LeaseId::random()).collect();
    assert_eq!(ids.len(), 100);
    for id in ids {
        let text = id.to_string();
        assert_eq!(&text[14..15], "4", "{text}");
        assert!("89ab".contains(&text[19..20]), "{text}");
    }
}

#[test]
fn ids_are_read_in_every_form_of_a_guid() {
    let expected = LeaseId::parse("c820a799-76d7-4ee2-6e15-546f19325c2c").unwrap();
    for text in [
        "C820A799-76D7-4EE2-6E15-546F19325C2C",
        "c820a79976d74ee26e15546f19325c2c",
        "{c820a799-76d7-4ee2-6e15-546f19325c2c}",
        "(c820a799-76d7-4ee2-6e15-546f19325c2c)",
    ] {
        assert_eq!(LeaseId::parse(text), Some(expected), "{text}");
    }
    for text in [
        "",
        "1",
        "c820a799-76d7-4ee2-6e15-546f19325c2",
        "c820a79976d7-4ee2-6e15-546f-19325c2c",
        "+820a79976d74ee26e15546f19325c2c",
        "{c820a799-76d7-4ee2-6e15-546f19325c2c)",
    ] {
        assert_eq!(LeaseId::parse(text), None, "{text}");
    }
}

fn action() -> impl Strategy<Value = LeaseAction> {
    let id = || prop_oneof![Just(A), Just(B), Just(C)];
    let duration = prop_oneof![Just(LeaseDuration::Infinite), (15_u8..=60).prop_map(LeaseDuration::Fixed)];
    prop_oneof![
        (duration, proptest::option::of(id()))
            .prop_map(|(duration, proposed)| LeaseAction::Acquire { duration, proposed }),
        id().prop_map(LeaseAction::Renew),
        (id(), id()).prop_map(|(id, proposed)| LeaseAction::Change { id, proposed }),
        id().prop_map(LeaseAction::Release),
        proptest::option::of(0_u8..=60).prop_map(|period| LeaseAction::Break { period }),
    ]
}

proptest! {
    /// Whatever clients do: who may write was told the id, and nobody takes a lock from its holder except by breaking it.
    #[test]
    fn a_lock_is_taken_from_its_holder_by_breaking_it_or_by_time_alone(
        steps in proptest::collection::vec((action(), 0_u64..40), 1..20),
    ) {
        let (mut lease, mut now): (Option<Lease>, u64) = (None, 0);
        for (action, seconds) in steps {
            now += seconds;
            let before = lease;
            let Ok((after, outcome)) = action.apply(before.as_ref(), at(now)) else {
                continue;
            };
            // It survives being kept.
            let text = serde_json::to_string(&after).unwrap();
            prop_assert_eq!(serde_json::from_str::<Option<Lease>>(&text).unwrap(), after);
            let was_locked = state_of(before.as_ref(), at(now)).is_locked();
            let knows = match action {
                LeaseAction::Acquire { proposed, .. } => proposed,
                LeaseAction::Renew(id) | LeaseAction::Release(id) => Some(id),
                LeaseAction::Change { id, proposed } => match before {
                    Some(before) if before.id == proposed => Some(proposed),
                    _ => Some(id),
                },
                LeaseAction::Break { .. } => before.map(|before| before.id),
            };
            if was_locked {
                prop_assert_eq!(knows, before.map(|before| before.id));
            }
            if let Some(id) = outcome.id {
                prop_assert_eq!(check_write(after.as_ref(), Some(id), Leased::Blob, at(now)), Ok(()));
            }
            lease = after;
        }
    }
}
