//! A token that a client presents, read and verified.
//!
//! `SharedAccessSignature sr=<resource>&sig=<signature>&se=<expiry>&skn=<key name>`, fields in any order. What is
//! signed is the resource *exactly as the token spells it*, a line feed and the expiry; since every client
//! escapes in its own way, the resource is never decoded and encoded again before the signature is verified.

use crate::{AuthorizationRule, Resource};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::percent_decode_str;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A token that is well formed. Whether it is genuine, [`verify`](Self::verify) tells.
#[derive(Clone, Debug)]
pub struct SharedAccessSignature {
    encoded_resource: String,
    resource: Resource,
    key_name: String,
    expiry_s: u64,
    expires_at: SystemTime,
    /// The HMAC-SHA256 tag, decoded.
    tag: Vec<u8>,
}

/// Why a text is not a token. Never contains text of the token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// Another kind of token, or something else altogether.
    #[error("the token does not begin with \"SharedAccessSignature \"")]
    Prefix,
    /// Longer than any real one.
    #[error("the token has {length} bytes, more than {maximum}")]
    TooLong {
        /// Its length in bytes.
        length: usize,
        /// The longest that is read.
        maximum: usize,
    },
    /// A field is absent or empty.
    #[error("the token has no field {field}")]
    Missing {
        /// `sr`, `sig`, `se` or `skn`.
        field: &'static str,
    },
    /// A field is there twice.
    #[error("the token has the field {field} twice")]
    Repeated {
        /// `sr`, `sig`, `se` or `skn`.
        field: &'static str,
    },
    /// A field can't be read.
    #[error("the token's field {field} is not {expected}")]
    Malformed {
        /// `sr`, `sig`, `se` or `skn`.
        field: &'static str,
        /// What it should have been.
        expected: &'static str,
    },
}

/// Why a well-formed token is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerificationError {
    /// No rule has a key of this name, or none of those that have one signed this. The two are not told apart, so
    /// that key names can't be found out by trying.
    #[error("the token is not signed by a key of this namespace")]
    WrongSignature,
    /// Genuine, but of the past.
    #[error("the token has expired")]
    Expired {
        /// The instant from which on it is void.
        expired_at: SystemTime,
    },
}

impl SharedAccessSignature {
    /// Reads a token.
    pub fn parse(token: &str) -> Result<Self, SignatureError> {
        if token.len() > MAXIMUM_LENGTH {
            return Err(SignatureError::TooLong { length: token.len(), maximum: MAXIMUM_LENGTH });
        }
        let fields = token.trim().strip_prefix("SharedAccessSignature ").ok_or(SignatureError::Prefix)?;
        let [mut sr, mut sig, mut se, mut skn] = [None; 4];
        for (name, value) in fields.split('&').filter_map(|field| field.trim().split_once('=')) {
            let (field, slot) = match name {
                "sr" => ("sr", &mut sr),
                "sig" => ("sig", &mut sig),
                "se" => ("se", &mut se),
                "skn" => ("skn", &mut skn),
                _ => continue,
            };
            if slot.replace(value).is_some() {
                return Err(SignatureError::Repeated { field });
            }
        }
        let present = |field: &'static str, value: Option<&'_ str>| match value {
            Some(value) if !value.is_empty() => Ok(value.to_owned()),
            _ => Err(SignatureError::Missing { field }),
        };
        let encoded_resource = present("sr", sr)?;
        let encoded_tag = unescape("sig", &present("sig", sig)?)?;
        let expiry = present("se", se)?;
        let key_name = unescape("skn", &present("skn", skn)?)?;

        let malformed = |field, expected| SignatureError::Malformed { field, expected };
        let resource = Resource::parse(&unescape("sr", &encoded_resource)?);
        let tag = STANDARD.decode(encoded_tag).map_err(|_cause| malformed("sig", "base64"))?;
        let expiry_s = match expiry.bytes().all(|byte| byte.is_ascii_digit()) {
            true => expiry.parse::<u64>().ok(),
            false => None,
        };
        let expiry_s = expiry_s.ok_or_else(|| malformed("se", "a decimal number of seconds since 1970"))?;
        let expires_at = UNIX_EPOCH
            .checked_add(Duration::from_secs(expiry_s))
            .ok_or_else(|| malformed("se", "an instant that this machine can express"))?;
        // Leading zeros would make the signed text differ from the number's own spelling.
        if expiry_s.to_string() != expiry {
            return Err(malformed("se", "a decimal number without leading zeros"));
        }
        Ok(Self { encoded_resource, resource, key_name, expiry_s, expires_at, tag })
    }

    /// The rule whose key signed this token, provided that the token has not expired at `now`.
    pub fn verify<'rules>(
        &self,
        rules: impl IntoIterator<Item = &'rules AuthorizationRule>,
        now: SystemTime,
    ) -> Result<&'rules AuthorizationRule, VerificationError> {
        let rule = rules
            .into_iter()
            .filter(|rule| rule.key.name() == self.key_name)
            .find(|rule| rule.key.has_signed(&self.encoded_resource, self.expiry_s, &self.tag))
            .ok_or(VerificationError::WrongSignature)?;
        match now < self.expires_at {
            true => Ok(rule),
            false => Err(VerificationError::Expired { expired_at: self.expires_at }),
        }
    }

    /// What the token is about.
    #[must_use]
    pub fn resource(&self) -> &Resource {
        &self.resource
    }

    /// The name of the key that is said to have signed it.
    #[must_use]
    pub fn key_name(&self) -> &str {
        &self.key_name
    }

    /// The instant from which on it is void.
    #[must_use]
    pub fn expires_at(&self) -> SystemTime {
        self.expires_at
    }
}

fn unescape(field: &'static str, text: &str) -> Result<String, SignatureError> {
    match percent_decode_str(text).decode_utf8() {
        Ok(decoded) => Ok(decoded.into_owned()),
        Err(_cause) => Err(SignatureError::Malformed { field, expected: "UTF-8 text" }),
    }
}

/// Real tokens have a few hundred bytes; the bound keeps a hostile one from costing anything.
const MAXIMUM_LENGTH: usize = 8 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Right, Rights, SharedAccessKey};
    use proptest::prelude::*;

    /// Computed with Python's `hmac` and `urllib.parse.quote`, upper-case escapes.
    const UPPER_CASE: &str = "SharedAccessSignature sr=sb%3A%2F%2Flocalhost%2Fhub\
        &sig=qqqO%2BcAZE2Rdo3ROw92c17SLaV0SONma4t4D8WdZAbU%3D&se=1800000000&skn=RootManageSharedAccessKey";
    /// The same key, with the resource in lower case and escaped in lower case, as two of the clients do.
    const LOWER_CASE: &str = "SharedAccessSignature \
        sr=amqps%3a%2f%2fns.example.com%2fhub%2fconsumergroups%2f%24default%2fpartitions%2f0\
        &sig=XH6u6K6OvwbSV5RoXKeCfcZJvqPPfKHRfs459iCN3JE%3D&se=1800000000&skn=RootManageSharedAccessKey";
    /// Another key, whose value looks like base64 but is used as text; `urllib.parse.quote_plus`; other order.
    const OTHER_KEY: &str = "SharedAccessSignature skn=sender&se=1700000000\
        &sig=RxFXMwqWcLb00YEwmmr4d5bj%2FXKQdPlnAmYhJX6E8Ls%3D&sr=sb%3A%2F%2Flocalhost%3A5672%2FHub1";

    fn rules() -> [AuthorizationRule; 3] {
        let rule = |name: &str, value: &str, rights| AuthorizationRule {
            key: SharedAccessKey::new(name, value),
            rights,
        };
        [
            rule("sender", "an older value", Rights::NONE),
            rule("RootManageSharedAccessKey", "SAS_KEY_VALUE", Rights::ALL),
            rule("sender", "Zm9vYmFy+/==", Rights::NONE.with(Right::Send)),
        ]
    }

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn tokens_of_other_implementations_are_verified_as_they_are_spelled() {
        for (token, path, rights) in [
            (UPPER_CASE, "hub", Rights::ALL),
            (LOWER_CASE, "hub/consumergroups/$default/partitions/0", Rights::ALL),
            (OTHER_KEY, "Hub1", Rights::NONE.with(Right::Send)),
        ] {
            let token = SharedAccessSignature::parse(token).unwrap();
            assert_eq!(token.resource().path(), path);
            assert_eq!(token.verify(&rules(), at(1_699_999_999)).unwrap().rights, rights);
        }
    }

    #[test]
    fn a_token_is_valid_until_the_second_before_its_expiry() {
        let token = SharedAccessSignature::parse(UPPER_CASE).unwrap();
        assert!(token.verify(&rules(), at(1_799_999_999)).is_ok());
        let expired_at = at(1_800_000_000);
        assert_eq!(token.verify(&rules(), expired_at), Err(VerificationError::Expired { expired_at }));
    }

    #[test]
    fn a_token_that_was_altered_in_any_field_is_refused() {
        for (from, to) in [
            ("hub", "hob"),
            ("%2F", "%2f"),
            ("qqqO", "qqqP"),
            ("1800000000", "1800000001"),
            ("RootManageSharedAccessKey", "sender"),
            ("RootManageSharedAccessKey", "nobody"),
        ] {
            let token = SharedAccessSignature::parse(&UPPER_CASE.replace(from, to)).unwrap();
            assert_eq!(
                token.verify(&rules(), at(1)),
                Err(VerificationError::WrongSignature),
                "{from} to {to}"
            );
        }
    }

    #[test]
    fn a_malformed_token_is_refused_with_the_field_that_is_wrong() {
        let malformed = |field| move |error: &SignatureError| matches!(error, SignatureError::Malformed { field: f, .. } if *f == field);
        let refusal =
            |from: &str, to: &str| SharedAccessSignature::parse(&UPPER_CASE.replace(from, to)).unwrap_err();
        assert_eq!(refusal("SharedAccessSignature ", "Bearer "), SignatureError::Prefix);
        assert_eq!(refusal("&se=1800000000", ""), SignatureError::Missing { field: "se" });
        assert_eq!(refusal("se=1800000000", "se="), SignatureError::Missing { field: "se" });
        assert_eq!(refusal("skn=", "sr="), SignatureError::Repeated { field: "sr" });
        assert!(malformed("sig")(&refusal("%3D", "")));
        assert!(malformed("sig")(&refusal("qqqO", "%ff")));
        for expiry in ["-1", "1e9", "+5", "0x10", "007", "99999999999999999999999", "18446744073709551615"] {
            assert!(malformed("se")(&refusal("1800000000", expiry)), "{expiry}");
        }
        let long = "x".repeat(MAXIMUM_LENGTH + 1);
        let too_long = SignatureError::TooLong { length: MAXIMUM_LENGTH + 1, maximum: MAXIMUM_LENGTH };
        assert_eq!(SharedAccessSignature::parse(&long).unwrap_err(), too_long);
    }

    proptest! {
        #[test]
        fn what_a_key_signs_it_verifies(resource in "\\PC{0,60}", name in "\\PC{1,20}", value in "\\PC{0,60}", seconds in 0_u64..1 << 40) {
            let key = SharedAccessKey::new(name.clone(), value.clone());
            let token = key.sign(&format!("sb://{resource}"), at(seconds + 1));
            let token = SharedAccessSignature::parse(&token).unwrap();
            prop_assert_eq!(token.key_name(), &name);
            let rule = AuthorizationRule { key, rights: Rights::ALL };
            prop_assert!(token.verify([&rule], at(seconds)).is_ok());
            let other = AuthorizationRule { key: SharedAccessKey::new(name, format!("{value}.")), rights: Rights::ALL };
            prop_assert_eq!(token.verify([&other], at(seconds)), Err(VerificationError::WrongSignature));
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "(SharedAccessSignature )?([a-z]{0,3}=?[%&=a-zA-Z0-9+/]{0,12}&?){0,6}\\PC{0,8}") {
            let _ = SharedAccessSignature::parse(&text);
        }
    }
}
