//! The fields of a form or a query (`application/x-www-form-urlencoded`).

use percent_encoding::percent_decode_str;

/// Names and values, decoded.
#[derive(Debug)]
pub(super) struct Form(Vec<(String, String)>);

impl Form {
    /// Reads a form. What is not UTF-8 is passed over, and so are fields beyond a number that nobody needs.
    pub(super) fn parse(text: &[u8]) -> Self {
        let decode = |text: &str| {
            let spaced = text.replace('+', " ");
            percent_decode_str(&spaced).decode_utf8().ok().map(|decoded| decoded.into_owned())
        };
        let fields = str::from_utf8(text).unwrap_or_default().split('&').take(MAXIMUM_FIELDS);
        let fields = fields.filter_map(|field| {
            let (name, value) = field.split_once('=').unwrap_or((field, ""));
            Some((decode(name)?, decode(value)?))
        });
        Self(fields.collect())
    }

    /// The first value of this name.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }
}

const MAXIMUM_FIELDS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_decoded_and_the_first_of_a_name_counts() {
        let form = Form::parse(b"scope=https%3A%2F%2Fa%2F.default+openid&scope=b&empty&bad=%ff");
        assert_eq!(form.get("scope"), Some("https://a/.default openid"));
        assert_eq!(form.get("empty"), Some(""));
        assert_eq!((form.get("bad"), form.get("other")), (None, None));
        assert_eq!(Form::parse(&[0xff]).get(""), Some(""));
    }
}
