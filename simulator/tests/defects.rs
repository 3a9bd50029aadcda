//! Whatever is broken on purpose is found, and by the invariant that is there for it.

use simulator::{Config, Defect, Violation, simulate};

/// A test for each defect: its name, the defect, how the histories are drawn, and what is to be said about it.
macro_rules! found {
    ($($name:ident: $defect:ident, $config:ident => $violation:pat,)*) => {
        $(
            #[test]
            fn $name() {
                let violation = first_violation(Config::$config, Defect::$defect);
                assert!(matches!(violation, $violation), "{violation}");
            }
        )*
    };
}

found! {
    a_store_that_answers_before_it_applies_is_found:
        StoreAnswersEarly, from_seed => Violation::AcknowledgedButNotWritten { .. },
    a_store_that_applies_an_old_write_again_is_found:
        StoreReordersWrites, from_seed => Violation::CheckpointWentBack { .. },
    a_store_that_lets_the_owner_before_write_is_found:
        StoreIgnoresFences, shared_from_seed => Violation::OldOwnerWrote { .. } | Violation::CheckpointWentBack { .. },
    a_sink_that_acknowledges_what_it_drops_is_found:
        SinkAnswersEarly, from_seed => Violation::CheckpointPassesGap { .. },
    a_sink_that_acknowledges_what_is_not_durable_is_found:
        SinkForgets, from_seed => Violation::CheckpointPassesGap { .. },
    a_sink_that_turns_events_round_is_found:
        SinkReorders, from_seed => Violation::Reordered { .. },
    a_sink_that_takes_another_way_is_found:
        SinkMisroutes, from_seed => Violation::Misrouted { .. } | Violation::Reordered { .. },
    a_sink_that_flips_a_bit_is_found:
        SinkDamages, from_seed => Violation::Damaged { .. } | Violation::Misrouted { .. },
    a_place_of_dead_letters_that_drops_them_is_found:
        DeadLettersDropped, from_seed => Violation::CheckpointPassesGap { .. },
    an_archive_that_drops_what_it_says_to_be_stored_is_found:
        ArchiveForgets, from_seed => Violation::CheckpointNotArchived { .. } | Violation::ArchiveGap { .. },
    a_source_that_leaves_out_an_event_is_found:
        SourceSkips, from_seed => Violation::SourceOutOfStep { .. },
    a_source_that_repeats_an_event_is_found:
        SourceRepeats, from_seed => Violation::SourceOutOfStep { .. },
    a_hub_that_delivers_what_it_may_forget_is_found:
        SourceServesUncommitted, from_seed => Violation::Damaged { .. },
    a_source_that_does_not_wake_its_relay_is_found:
        SourceForgetsToWake, from_seed => Violation::Stuck { .. },
    a_checkpoint_beyond_the_watermark_is_found:
        CheckpointBeyond, from_seed => Violation::CheckpointPassesGap { .. } | Violation::CheckpointUnfounded { .. },
    a_checkpoint_over_a_gap_is_found:
        CheckpointPassesGaps, from_seed => Violation::CheckpointPassesGap { .. } | Violation::CheckpointUnfounded { .. },
    a_checkpoint_of_what_was_not_sent_is_found:
        CheckpointEarly, from_seed => Violation::CheckpointPassesGap { .. } | Violation::CheckpointUnfounded { .. },
}

fn first_violation(config: impl Fn(u64) -> Config, defect: Defect) -> Violation {
    let found = (0..HISTORIES).find_map(|seed| {
        let failure = simulate(&config(seed).with_defect(defect), 0).err()?;
        Some(failure.violation)
    });
    found.unwrap_or_else(|| panic!("{defect:?} is not found in {HISTORIES} histories"))
}

const HISTORIES: u64 = 50;
