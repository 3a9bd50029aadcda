//! A named key, and the tokens that it signs.

use crate::{RESERVED, Secret};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::utf8_percent_encode;
use ring::hmac;
use std::time::{SystemTime, UNIX_EPOCH};

/// A shared access key: a public name and a secret value.
///
/// The value is used as text. It usually looks like base64, but the service never decodes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedAccessKey {
    name: String,
    value: Secret,
}

impl SharedAccessKey {
    /// A key of this `name` with this secret `value`.
    pub fn new(name: impl Into<String>, value: impl Into<Secret>) -> Self {
        Self { name: name.into(), value: value.into() }
    }

    /// The name by which tokens refer to the key.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The secret.
    #[must_use]
    pub fn value(&self) -> &Secret {
        &self.value
    }

    /// A token that grants this key's rights on `resource` (a URI such as `sb://host/hub`) until `expires_at`,
    /// which is rounded down to the second and not before 1970.
    #[must_use]
    pub fn sign(&self, resource: &str, expires_at: SystemTime) -> String {
        let encoded_resource = utf8_percent_encode(resource, RESERVED).to_string();
        let expiry_s = expires_at.duration_since(UNIX_EPOCH).map_or(0, |since_epoch| since_epoch.as_secs());
        let tag = hmac::sign(&self.hmac_key(), signed_text(&encoded_resource, expiry_s).as_bytes());
        let signature = STANDARD.encode(tag);
        format!(
            "SharedAccessSignature sr={encoded_resource}&sig={}&se={expiry_s}&skn={}",
            utf8_percent_encode(&signature, RESERVED),
            utf8_percent_encode(&self.name, RESERVED),
        )
    }

    /// Whether `signature` is this key's for the resource, given as the token spells it, and expiry. Takes the
    /// same time whichever byte differs.
    pub(crate) fn has_signed(&self, encoded_resource: &str, expiry_s: u64, signature: &[u8]) -> bool {
        hmac::verify(&self.hmac_key(), signed_text(encoded_resource, expiry_s).as_bytes(), signature).is_ok()
    }

    /// Whether `candidate` is this key's value. The comparison reveals neither length nor content by its time.
    #[must_use]
    pub fn has_value(&self, candidate: &str) -> bool {
        // The values are the data, not the keys: HMAC pads a short key with zero bytes, data it takes as it is.
        let comparison = hmac::Key::new(hmac::HMAC_SHA256, COMPARISON_KEY);
        let expected = hmac::sign(&comparison, self.value.reveal().as_bytes());
        hmac::verify(&comparison, candidate.as_bytes(), expected.as_ref()).is_ok()
    }

    fn hmac_key(&self) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, self.value.reveal().as_bytes())
    }
}

fn signed_text(encoded_resource: &str, expiry_s: u64) -> String {
    format!("{encoded_resource}\n{expiry_s}")
}

/// Turns two values of any length into two tags of one length, which are compared instead; it is not a secret.
const COMPARISON_KEY: &[u8] = b"the value of a shared access key";

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_signed_token_equals_the_one_that_another_implementation_computed() {
        // Python: base64(hmac.new(b"SAS_KEY_VALUE", f"{quote('sb://localhost/hub', safe='')}\n1800000000", sha256))
        let key = SharedAccessKey::new("RootManageSharedAccessKey", "SAS_KEY_VALUE");
        let token = key.sign("sb://localhost/hub", UNIX_EPOCH + Duration::from_secs(1_800_000_000));
        assert_eq!(token, EXPECTED_TOKEN);
    }

    #[test]
    fn a_key_has_its_own_value_and_no_other() {
        let key = SharedAccessKey::new("name", "value");
        assert!(key.has_value("value"));
        for other in ["", "valu", "value ", "Value", "value\0"] {
            assert!(!key.has_value(other), "{other:?}");
        }
    }

    #[test]
    fn debug_output_does_not_show_the_value() {
        let key = SharedAccessKey::new("name", "hush");
        assert!(!format!("{key:?}").contains("hush"));
    }

    const EXPECTED_TOKEN: &str = "SharedAccessSignature sr=sb%3A%2F%2Flocalhost%2Fhub\
        &sig=qqqO%2BcAZE2Rdo3ROw92c17SLaV0SONma4t4D8WdZAbU%3D&se=1800000000&skn=RootManageSharedAccessKey";
}
