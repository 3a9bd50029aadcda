//! What a transactional id is at, in Kafka's words.

/// The state of a transactional id.
///
/// ```text
///                    partitions or offsets are added        end            markers are everywhere
///  Empty ─────────────────────▶ Ongoing ─────────▶ PrepareCommit ─────────▶ CompleteCommit ─┐
///    ▲                           ▲   └────────────▶ PrepareAbort ──────────▶ CompleteAbort ──┤
///    └── the producer begins ────┼───────────────────────────────────────────────────────────┤
///                                └─────────────── more are added ────────────────────────────┘
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransactionState {
    Empty,
    Ongoing,
    /// It is decided: what it has written counts.
    PrepareCommit,
    /// It is decided: what it has written does not count.
    PrepareAbort,
    CompleteCommit,
    CompleteAbort,
}

impl TransactionState {
    /// All of them.
    pub(crate) const ALL: [Self; 6] = [
        Self::Empty,
        Self::Ongoing,
        Self::PrepareCommit,
        Self::PrepareAbort,
        Self::CompleteCommit,
        Self::CompleteAbort,
    ];

    /// The number by which it is kept.
    pub(crate) const fn number(self) -> u8 {
        match self {
            Self::Empty => 0,
            Self::Ongoing => 1,
            Self::PrepareCommit => 2,
            Self::PrepareAbort => 3,
            Self::CompleteCommit => 4,
            Self::CompleteAbort => 5,
        }
    }

    /// The state with this number.
    pub(crate) fn of(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.number() == number)
    }

    /// What operators call it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::Ongoing => "Ongoing",
            Self::PrepareCommit => "PrepareCommit",
            Self::PrepareAbort => "PrepareAbort",
            Self::CompleteCommit => "CompleteCommit",
            Self::CompleteAbort => "CompleteAbort",
        }
    }

    /// Whether it is decided how the transaction ends, and not yet told everywhere.
    pub(crate) const fn is_prepared(self) -> bool {
        matches!(self, Self::PrepareCommit | Self::PrepareAbort)
    }
}
