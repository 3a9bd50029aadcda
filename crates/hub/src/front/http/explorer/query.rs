//! The parameters of a request that reads.

use std::borrow::Cow;
use std::str::FromStr;

use hyper::http::request::Parts;
use percent_encoding::percent_decode_str;

use super::reply::Refusal;

/// The query of a URL.
#[derive(Debug, Clone, Copy)]
pub(super) struct Query<'a>(&'a str);

impl<'a> Query<'a> {
    pub(super) fn of(head: &'a Parts) -> Self {
        Self(head.uri.query().unwrap_or_default())
    }

    /// The text of a parameter; `None` if it is not there.
    ///
    /// # Errors
    /// It is no UTF-8.
    pub(super) fn text(self, name: &str) -> Result<Option<Cow<'a, str>>, Refusal> {
        let mut pairs = self.0.split('&').filter_map(|pair| pair.split_once('='));
        let value = pairs.find(|(key, _)| *key == name).map(|(_, value)| value);
        let decoded = value.map(|value| percent_decode_str(value).decode_utf8()).transpose();
        decoded.map_err(|_| Refusal::bad(format!("{name} is no text in UTF-8")))
    }

    /// The text of a parameter that has to be there.
    ///
    /// # Errors
    /// It is not, or is no UTF-8.
    pub(super) fn required(self, name: &str) -> Result<Cow<'a, str>, Refusal> {
        self.text(name)?.ok_or_else(|| Refusal::bad(format!("the parameter {name} is missing")))
    }

    /// The number of a parameter.
    ///
    /// # Errors
    /// It is none.
    pub(super) fn number<T: FromStr>(self, name: &str) -> Result<Option<T>, Refusal> {
        let parse = |text: Cow<'_, str>| {
            text.parse().map_err(|_| Refusal::bad(format!("{name} is not a number: {text}")))
        };
        self.text(name)?.map(parse).transpose()
    }
}
