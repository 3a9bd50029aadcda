//! What a shared access signature grants.

use std::fmt;

/// What an operation is done to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StorageLevel {
    /// The account: its list of containers.
    Service,
    /// A container itself, and the list of its blobs.
    Container,
    /// A blob.
    Object,
}

impl StorageLevel {
    pub(super) const EVERY: [Self; 3] = [Self::Service, Self::Container, Self::Object];

    /// Its letter in an account signature.
    pub(super) const fn letter(self) -> char {
        match self {
            Self::Service => 's',
            Self::Container => 'c',
            Self::Object => 'o',
        }
    }
}

/// One right, named by its letter in a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StorageRight {
    /// `r`
    Read,
    /// `w`
    Write,
    /// `d`
    Delete,
    /// `l`
    List,
    /// `a`: append to an append blob.
    Add,
    /// `c`: write what is not there yet.
    Create,
    /// `t`: read and write tags.
    Tags,
    /// `f`: find blobs by their tags.
    Find,
}

/// Rights, per level.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct StorageRights {
    levels: [u8; 3],
}

impl StorageRights {
    /// No right at all.
    pub const NONE: Self = Self { levels: [0; 3] };
    /// Every right on every level: what the key itself gives.
    pub const ALL: Self = Self { levels: [0xff; 3] };

    /// Whether `right` is granted on `level`.
    #[must_use]
    pub const fn contains(self, level: StorageLevel, right: StorageRight) -> bool {
        self.levels[level as usize] & (1 << right as u8) != 0
    }

    /// The same with `right` on `level`.
    #[must_use]
    pub const fn with(mut self, level: StorageLevel, right: StorageRight) -> Self {
        self.levels[level as usize] |= 1 << right as u8;
        self
    }

    /// The rights of both.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.levels.iter_mut().zip(other.levels).for_each(|(own, other)| *own |= other);
        self
    }

    /// The rights that both grant.
    #[must_use]
    pub fn within(mut self, other: Self) -> Self {
        self.levels.iter_mut().zip(other.levels).for_each(|(own, other)| *own &= other);
        self
    }

    /// The same with what the letters say on each of `levels`. Letters of rights to what is not here (versions,
    /// queues) are passed over.
    pub(super) fn with_letters(self, levels: &[StorageLevel], letters: &str) -> Self {
        letters
            .chars()
            .filter_map(StorageRight::of_letter)
            .flat_map(|right| levels.iter().map(move |level| (*level, right)))
            .fold(self, |rights, (level, right)| rights.with(level, right))
    }
}

impl StorageRight {
    const EVERY: [(Self, char); 8] = [
        (Self::Read, 'r'),
        (Self::Write, 'w'),
        (Self::Delete, 'd'),
        (Self::List, 'l'),
        (Self::Add, 'a'),
        (Self::Create, 'c'),
        (Self::Tags, 't'),
        (Self::Find, 'f'),
    ];

    fn of_letter(letter: char) -> Option<Self> {
        Self::EVERY.into_iter().find_map(|(right, known)| (known == letter).then_some(right))
    }
}

impl fmt::Debug for StorageRights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut map = f.debug_map();
        for level in StorageLevel::EVERY {
            let letters = StorageRight::EVERY
                .into_iter()
                .filter(|(right, _)| self.contains(level, *right))
                .map(|(_, letter)| letter);
            map.entry(&level, &letters.collect::<String>());
        }
        map.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_grant_rights_on_their_levels_alone() {
        let rights = StorageRights::NONE.with_letters(&[StorageLevel::Object], "rwtx");
        assert!(rights.contains(StorageLevel::Object, StorageRight::Read));
        assert!(rights.contains(StorageLevel::Object, StorageRight::Write));
        assert!(!rights.contains(StorageLevel::Object, StorageRight::Delete));
        assert!(!rights.contains(StorageLevel::Container, StorageRight::Read));
        assert_eq!(rights.within(StorageRights::ALL), rights);
        assert_eq!(rights.within(StorageRights::NONE), StorageRights::NONE);
        assert!(StorageRights::ALL.contains(StorageLevel::Service, StorageRight::List));
    }
}
