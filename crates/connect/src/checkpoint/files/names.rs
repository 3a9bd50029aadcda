//! Names of the user's choosing as names of files and as words in a line of text.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// One component of a path: whatever the name, it is neither empty nor `.` or `..`, holds no separator, is not hidden,
/// and different names give different components.
pub(super) fn path_component(name: &str) -> String {
    if name.is_empty() {
        // No encoded name is a lone percent sign.
        return "%".to_owned();
    }
    let encoded = word(name);
    match encoded.strip_prefix('.') {
        Some(rest) => format!("%2E{rest}"),
        None => encoded.into_owned(),
    }
}

/// A text without white space, separators or control characters, which [`text`] reads back.
pub(super) fn word(text: &str) -> Cow<'_, str> {
    utf8_percent_encode(text, ESCAPED).into()
}

/// What [`word`] was made from, or `None` if it is not UTF-8.
pub(super) fn text(word: &str) -> Option<String> {
    percent_decode_str(word).decode_utf8().ok().map(Cow::into_owned)
}

/// Letters, digits and these few stay as they are: `$Default` and host names remain readable.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'$').remove(b'-').remove(b'.').remove(b'_');

#[cfg(test)]
mod tests {
    use std::path::{Component, Path};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ordinary_names_stay_readable() {
        assert_eq!(path_component("$Default"), "$Default");
        assert_eq!(path_component("example.servicebus.windows.net"), "example.servicebus.windows.net");
    }

    #[test]
    fn names_that_mean_something_to_a_file_system_are_escaped() {
        let names = ["", ".", "..", "../../etc/passwd", "a/b", "a\\b", "nul\0", ".hidden"];
        let escaped = names.map(path_component);
        assert_eq!(
            escaped,
            ["%", "%2E", "%2E.", "%2E.%2F..%2Fetc%2Fpasswd", "a%2Fb", "a%5Cb", "nul%00", "%2Ehidden"]
        );
    }

    proptest! {
        #[test]
        fn any_name_is_one_normal_component(name: String) {
            let component = path_component(&name);
            let components: Vec<_> = Path::new(&component).components().collect();
            prop_assert_eq!(components, [Component::Normal(component.as_ref())]);
        }

        #[test]
        fn different_names_give_different_components(left in ".{0,4}", right in ".{0,4}") {
            prop_assert_eq!(left == right, path_component(&left) == path_component(&right));
        }

        #[test]
        fn a_word_is_read_back(original: String) {
            let encoded = word(&original);
            prop_assert!(encoded.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'='));
            prop_assert_eq!(text(&encoded), Some(original));
        }
    }
}
