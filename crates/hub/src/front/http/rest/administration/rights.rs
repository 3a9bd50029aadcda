//! What a client is told that lacks the right `Manage`, in the words of the service.
//!
//! Of queues and topics the service says which claims it wants. Of subscriptions and rules it names the operation, and does so in the
//! line of the status, where its own clients look for it.

use super::path::Path;
use crate::front::http::rest::counters::Operation;
use crate::front::http::rest::refusal::Refusal;
use crate::namespace::Namespace;

/// Returns the refusal of changing or deleting what is at `path`; `host` is the host name that the client uses.
pub(in crate::front::http::rest) fn unchangeable(host: &str, path: &str, operation: Operation) -> Refusal {
    let (beneath, claim) = match operation {
        Operation::Delete => ("Delete", "EntityDelete"),
        _ => ("CreateOrUpdate", "EntityWrite"),
    };
    match Path::of(path) {
        Path::Subscription(..) => of_operation(host, path, beneath, "Subscription"),
        Path::Rule(..) => of_operation(host, path, beneath, "Rule"),
        _ => Refusal::new(401, format!("Authorization failed for specified action: Manage,{claim}.")),
    }
}

/// The refusal of telling what is at `path`; `None` where that needs no such right, or nothing is there.
pub(super) fn unreadable(namespace: &Namespace, host: &str, path: &str) -> Option<Refusal> {
    Some(match Path::of(path) {
        Path::NamespaceInfo => return None,
        Path::Entity(name) if namespace.queue_or_topic(name).is_none() => return None,
        Path::Entity(_) | Path::Queues | Path::Topics => {
            Refusal::new(401, "Manage,EntityRead claims required for this operation.")
        }
        Path::Subscription(..) => of_operation(host, path, "Get", "Subscription"),
        Path::Subscriptions(_) => of_operation(host, path, "Enumerate", "Subscriptions"),
        Path::Rule(..) => of_operation(host, path, "Get", "Rule"),
        Path::Rules(..) => of_operation(host, path, "Enumerate", "Rules"),
    })
}

fn of_operation(host: &str, path: &str, verb: &str, what: &str) -> Refusal {
    let detail = format!(
        "SubCode=40100: Unauthorized : Unauthorized access for '{verb}{what}' operation on endpoint 'sb://{host}/{path}'."
    );
    Refusal { is_reason: true, ..Refusal::new(401, detail) }
}
