//! The stored access policies of a container.

use super::{Document, texts};
use blob_store::StoredPolicy;

/// The access policies of a container.
pub(in super::super) fn policies(policies: &[StoredPolicy]) -> String {
    Document::text(POLICIES, &[], |document| {
        for policy in policies {
            document.parent("SignedIdentifier", |document| {
                document.element("Id", &policy.id);
                document.parent("AccessPolicy", |document| {
                    for (name, value) in [
                        ("Start", &policy.start),
                        ("Expiry", &policy.expiry),
                        ("Permission", &policy.permission),
                    ] {
                        if let Some(value) = value {
                            document.element(name, value);
                        }
                    }
                });
            });
        }
    })
}

/// Reads access policies; `None` if the document is another, or has more policies than a container can have.
pub(in super::super) fn read_policies(document: &[u8]) -> Option<Vec<StoredPolicy>> {
    let mut policies: Vec<StoredPolicy> = Vec::new();
    for (path, text) in texts(document, POLICIES)? {
        let text = text.trim();
        if path == "SignedIdentifier/Id" {
            let is_id = (1..=POLICY_ID_MAX).contains(&text.chars().count());
            if !is_id || policies.len() == POLICIES_MAX || policies.iter().any(|policy| policy.id == text) {
                return None;
            }
            policies.push(StoredPolicy { id: text.to_owned(), start: None, expiry: None, permission: None });
            continue;
        }
        let policy = policies.last_mut()?;
        let value = Some(text.to_owned()).filter(|text| !text.is_empty());
        match path.as_str() {
            "SignedIdentifier/AccessPolicy/Start" => policy.start = value,
            "SignedIdentifier/AccessPolicy/Expiry" => policy.expiry = value,
            "SignedIdentifier/AccessPolicy/Permission" => policy.permission = value,
            "SignedIdentifier/AccessPolicy" => {}
            _ => return None,
        }
    }
    Some(policies)
}

const POLICIES: &str = "SignedIdentifiers";

/// Policies of a container, as in the service.
const POLICIES_MAX: usize = 5;

/// Characters of the name of a policy, as in the service.
const POLICY_ID_MAX: usize = 64;
