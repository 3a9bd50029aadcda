//! The three rights of the service and sets of them.

use std::fmt;

/// One right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Right {
    /// Publish events.
    Send,
    /// Receive events and read properties.
    Listen,
    /// Change entities; includes the other two.
    Manage,
}

/// A set of rights. A set with [`Right::Manage`] has the other two as well, as the service demands of its rules.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Rights {
    bits: u8,
}

impl Rights {
    /// No right at all.
    pub const NONE: Self = Self { bits: 0 };
    /// Every right.
    pub const ALL: Self = Self { bits: 0b111 };

    /// Whether `right` is in the set.
    #[must_use]
    pub fn contains(self, right: Right) -> bool {
        self.bits & right.bit() != 0
    }

    /// Whether the set has no right.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.bits == 0
    }

    /// The set with `right` added.
    #[must_use]
    pub fn with(self, right: Right) -> Self {
        match right {
            Right::Manage => Self::ALL,
            Right::Send | Right::Listen => Self { bits: self.bits | right.bit() },
        }
    }

    /// The rights of the set, in the order send, listen, manage.
    pub fn iter(self) -> impl Iterator<Item = Right> {
        Right::EVERY.into_iter().filter(move |right| self.contains(*right))
    }
}

impl Right {
    const EVERY: [Self; 3] = [Self::Send, Self::Listen, Self::Manage];

    /// The service's name of the right, as its error texts use it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Send => "Send",
            Self::Listen => "Listen",
            Self::Manage => "Manage",
        }
    }

    fn bit(self) -> u8 {
        match self {
            Self::Send => 0b001,
            Self::Listen => 0b010,
            Self::Manage => 0b100,
        }
    }
}

impl FromIterator<Right> for Rights {
    fn from_iter<I: IntoIterator<Item = Right>>(rights: I) -> Self {
        rights.into_iter().fold(Self::NONE, Self::with)
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manage_includes_send_and_listen() {
        let rights = Rights::from_iter([Right::Manage]);
        assert_eq!(rights, Rights::ALL);
        assert!(rights.contains(Right::Send) && rights.contains(Right::Listen));
    }

    #[test]
    fn a_set_holds_what_was_put_in_and_nothing_else() {
        let rights = Rights::NONE.with(Right::Listen);
        assert!(rights.contains(Right::Listen));
        assert!(!rights.contains(Right::Send) && !rights.contains(Right::Manage));
        assert!(Rights::NONE.is_empty() && !rights.is_empty());
        assert_eq!(format!("{rights:?}"), "{Listen}");
    }
}
