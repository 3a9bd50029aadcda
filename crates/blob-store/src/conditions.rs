//! Entity tags, and what a request makes depend on them.

use std::fmt;
use std::time::SystemTime;

use super::error::BlobError;
use super::lease::LeaseId;
use super::tags::TagExpression;

/// The tag of one version of a blob or container. No two versions ever have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Etag(pub(super) u64);

/// What one version is told apart by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// Its tag.
    pub etag: Etag,
    /// When it was written, in whole seconds.
    pub modified_at: SystemTime,
}

/// Which tags a condition is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EtagCondition {
    /// That of any version: whether there is one.
    Any,
    /// One of these. What is no tag of ours is left out, since it is no version's.
    OneOf(Vec<Etag>),
}

/// The conditions of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    /// `If-Match`
    pub if_match: Option<EtagCondition>,
    /// `If-None-Match`
    pub if_none_match: Option<EtagCondition>,
    /// `If-Modified-Since`
    pub if_modified_since: Option<SystemTime>,
    /// `If-Unmodified-Since`
    pub if_unmodified_since: Option<SystemTime>,
    /// `x-ms-if-tags`
    pub if_tags: Option<TagExpression>,
    /// `x-ms-lease-id`: there must be a lease with this id. Without it, none must lock what is written.
    pub lease: Option<LeaseId>,
}

impl Etag {
    /// Reads a tag, with quotation marks or without.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim().trim_matches('"');
        let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"))?;
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        match is_number {
            true => u64::from_str_radix(digits, 16).ok().map(Self),
            false => None,
        }
    }
}

/// Without quotation marks.
impl fmt::Display for Etag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:X}", self.0)
    }
}

impl EtagCondition {
    /// Reads the value of `If-Match` or `If-None-Match`.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        match text.trim() {
            "*" => Self::Any,
            list => Self::OneOf(list.split(',').filter_map(Etag::parse).collect()),
        }
    }

    fn is_met_by(&self, etag: Etag) -> bool {
        match self {
            Self::Any => true,
            Self::OneOf(etags) => etags.contains(&etag),
        }
    }
}

impl Conditions {
    /// Checks the conditions of a read: `If-Match && If-Unmodified-Since && (If-None-Match || If-Modified-Since)`, as in the service.
    ///
    /// # Errors
    /// [`NotModified`](BlobError::NotModified) if the reader has this version already,
    /// [`UnsatisfiableCondition`](BlobError::UnsatisfiableCondition) for `If-None-Match: *`, otherwise
    /// [`ConditionNotMet`](BlobError::ConditionNotMet).
    pub fn check_read(&self, current: Version) -> Result<(), BlobError> {
        if self.if_none_match == Some(EtagCondition::Any) {
            return Err(BlobError::UnsatisfiableCondition);
        }
        let is_met = self.matches(current) != Some(false) && self.is_unmodified(current) != Some(false);
        match (is_met, self.is_another(current), self.is_modified(current)) {
            (false, ..) => Err(BlobError::ConditionNotMet),
            (true, Some(true), _) | (true, _, Some(true)) | (true, None, None) => Ok(()),
            (true, ..) => Err(BlobError::NotModified),
        }
    }

    /// Returns the error of an operation on a blob that does not exist.
    #[must_use]
    pub fn missing(&self, is_read: bool) -> BlobError {
        match (&self.if_match, &self.if_none_match) {
            (_, Some(EtagCondition::Any)) if is_read => BlobError::UnsatisfiableCondition,
            (Some(EtagCondition::OneOf(_)), _) => BlobError::ConditionNotMet,
            (Some(EtagCondition::Any), _) if is_read => BlobError::ConditionNotMet,
            _ => BlobError::BlobNotFound,
        }
    }

    /// Checks the conditions of a change or deletion. A tag takes precedence over a date, as in the service: `If-Match` over
    /// `If-Unmodified-Since`, `If-None-Match` over `If-Modified-Since`.
    ///
    /// # Errors
    /// [`ConditionNotMet`](BlobError::ConditionNotMet)
    pub fn check_change(&self, current: Version) -> Result<(), BlobError> {
        let is_wanted = self.matches(current).or_else(|| self.is_unmodified(current));
        let is_new = self.is_another(current).or_else(|| self.is_modified(current));
        match (is_wanted, is_new) {
            (Some(false), _) | (_, Some(false)) => Err(BlobError::ConditionNotMet),
            _ => Ok(()),
        }
    }

    /// Whether a blob may be put in the place of the one that is there, or where there is none. A blob of which there are
    /// uncommitted blocks alone does not exist for tags, but has a time: that of its first block, `staged_at`.
    ///
    /// # Errors
    /// [`BlobAlreadyExists`](BlobError::BlobAlreadyExists) if there must be none, otherwise
    /// [`ConditionNotMet`](BlobError::ConditionNotMet).
    pub fn check_replace(
        &self,
        current: Option<Version>,
        staged_at: Option<SystemTime>,
    ) -> Result<(), BlobError> {
        match current {
            Some(_) if self.if_none_match == Some(EtagCondition::Any) => Err(BlobError::BlobAlreadyExists),
            Some(current) => self.check_change(current),
            None => {
                // What is not there has no tag; and no time, unless blocks of it are (RFC 9110, section 13.1.4).
                let is_old = |instant| staged_at.is_some_and(|at| at <= instant);
                let is_unmodified = |instant| staged_at.is_none_or(|at| at <= instant);
                let is_met = self.if_match.is_none()
                    && self.if_unmodified_since.is_none_or(is_unmodified)
                    && !self.if_modified_since.is_some_and(is_old);
                match is_met {
                    true => Ok(()),
                    false => Err(BlobError::ConditionNotMet),
                }
            }
        }
    }

    /// Whether a blob with these tags may be read or changed; one that is not there has none.
    ///
    /// # Errors
    /// [`ConditionNotMet`](BlobError::ConditionNotMet)
    pub fn check_tags(&self, tags: &[(String, String)]) -> Result<(), BlobError> {
        match self.if_tags.as_ref().is_none_or(|condition| condition.matches("", tags)) {
            true => Ok(()),
            false => Err(BlobError::ConditionNotMet),
        }
    }

    /// Whether `If-Match` holds, if it is given. So with the other three.
    fn matches(&self, current: Version) -> Option<bool> {
        Some(self.if_match.as_ref()?.is_met_by(current.etag))
    }

    fn is_another(&self, current: Version) -> Option<bool> {
        Some(!self.if_none_match.as_ref()?.is_met_by(current.etag))
    }

    fn is_modified(&self, current: Version) -> Option<bool> {
        Some(current.modified_at > self.if_modified_since?)
    }

    fn is_unmodified(&self, current: Version) -> Option<bool> {
        Some(current.modified_at <= self.if_unmodified_since?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::{Duration, UNIX_EPOCH};

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn version() -> Version {
        Version { etag: Etag(0x8DABC), modified_at: at(100) }
    }

    #[test]
    fn tags_are_read_with_quotation_marks_and_without() {
        for text in ["0x8DABC", "\"0x8DABC\"", " \"0x8dabc\" "] {
            assert_eq!(Etag::parse(text), Some(Etag(0x8DABC)), "{text}");
        }
        for text in ["", "8DABC", "0x", "0x+1", "W/\"0x8DABC\"", "0xFFFFFFFFFFFFFFFFF"] {
            assert_eq!(Etag::parse(text), None, "{text}");
        }
        assert_eq!(EtagCondition::parse(" * "), EtagCondition::Any);
        let list = EtagCondition::parse("\"0x1\", what, 0x2");
        assert_eq!(list, EtagCondition::OneOf(vec![Etag(1), Etag(2)]));
    }

    #[test]
    fn a_star_means_another_thing_for_each_operation() {
        let conditions = Conditions { if_none_match: Some(EtagCondition::Any), ..Conditions::default() };
        assert_eq!(conditions.check_replace(None, None), Ok(()));
        assert_eq!(conditions.check_replace(Some(version()), None), Err(BlobError::BlobAlreadyExists));
        assert_eq!(conditions.check_change(version()), Err(BlobError::ConditionNotMet));
        assert_eq!(conditions.check_read(version()), Err(BlobError::UnsatisfiableCondition));
        assert_eq!(conditions.missing(true), BlobError::UnsatisfiableCondition);
        assert_eq!(conditions.missing(false), BlobError::BlobNotFound);
        let conditions = Conditions { if_match: Some(EtagCondition::Any), ..Conditions::default() };
        assert_eq!(conditions.check_replace(None, None), Err(BlobError::ConditionNotMet));
        assert_eq!(conditions.check_change(version()), Ok(()));
        assert_eq!(conditions.missing(true), BlobError::ConditionNotMet);
        assert_eq!(conditions.missing(false), BlobError::BlobNotFound);
        let tag = Some(EtagCondition::OneOf(vec![Etag(1)]));
        let conditions = Conditions { if_match: tag, ..Conditions::default() };
        assert_eq!(conditions.missing(false), BlobError::ConditionNotMet);
    }

    #[test]
    fn a_blob_of_uncommitted_blocks_has_a_time_and_no_tag() {
        let since = |seconds| Conditions { if_modified_since: Some(at(seconds)), ..Conditions::default() };
        let until = |seconds| Conditions { if_unmodified_since: Some(at(seconds)), ..Conditions::default() };
        let matching =
            |if_match, if_none_match| Conditions { if_match, if_none_match, ..Conditions::default() };
        let any = Some(EtagCondition::Any);
        // Blocks since second 100, and nothing at all.
        for (conditions, uncommitted, nothing) in [
            (since(99), true, true),
            (since(100), false, true),
            (since(110), false, true),
            (until(99), false, true),
            (until(100), true, true),
            (matching(any.clone(), None), false, false),
            (matching(None, any), true, true),
        ] {
            let staged = conditions.check_replace(None, Some(at(100)));
            assert_eq!(staged.is_ok(), uncommitted, "{conditions:?}");
            let missing = conditions.check_replace(None, None);
            assert_eq!(missing.is_ok(), nothing, "{conditions:?}");
        }
    }

    fn condition() -> impl Strategy<Value = Option<EtagCondition>> {
        proptest::option::of(prop_oneof![
            Just(EtagCondition::Any),
            proptest::collection::vec((0_u64..4).prop_map(Etag), 0..3).prop_map(EtagCondition::OneOf),
        ])
    }

    proptest! {
        /// Compares with the combinations in the service's documentation.
        #[test]
        fn several_conditions_are_judged_together(
            if_match in condition(),
            if_none_match in condition(),
            modified in proptest::option::of(98_u64..103),
            unmodified in proptest::option::of(98_u64..103),
            etag in 0_u64..4,
        ) {
            let conditions = Conditions {
                if_match: if_match.clone(),
                if_none_match: if_none_match.clone(),
                if_modified_since: modified.map(at),
                if_unmodified_since: unmodified.map(at),
                if_tags: None,
                lease: None,
            };
            let current = Version { etag: Etag(etag), modified_at: at(100) };
            let names = |condition: &Option<EtagCondition>| match condition {
                None => None,
                Some(EtagCondition::Any) => Some(true),
                Some(EtagCondition::OneOf(etags)) => Some(etags.iter().any(|one| one.0 == etag)),
            };
            let (wanted, known) = (names(&if_match), names(&if_none_match));
            let is_new = modified.map(|since| 100 > since);
            let is_old = unmodified.map(|since| 100 <= since);
            let is_another = known.map(|known| !known);
            let changes = wanted.or(is_old).unwrap_or(true) && is_another.or(is_new).unwrap_or(true);
            prop_assert_eq!(conditions.check_change(current).is_ok(), changes);
            prop_assert_eq!(conditions.check_replace(Some(current), None).is_ok(), changes);
            let is_unknown = match (known, is_new) {
                (None, None) => true,
                (known, is_new) => known == Some(false) || is_new == Some(true),
            };
            let reads = wanted.unwrap_or(true)
                && is_old.unwrap_or(true)
                && is_unknown
                && if_none_match != Some(EtagCondition::Any);
            prop_assert_eq!(conditions.check_read(current).is_ok(), reads);
        }
    }
}
