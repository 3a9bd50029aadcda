//! What topics can be called, and those that come to be because someone asked for them.
//!
//! A topic's name is a hub's, of the characters that Kafka has: a hub whose name has a slash or a tilde has no name that clients
//! would let anyone create.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use access::Right;
use kafka::ErrorCode;

use super::Counters;
use super::admin::{Refusal, refusal};
use super::session::Session;
use crate::namespace::{Hub, HubConfig, Namespace};

/// Whether a topic can be called that, as far as Kafka knows.
pub(super) fn check(name: &str) -> Result<(), Refusal> {
    let is_name = (1..=NAME_MAX).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
        && !matches!(name, "." | "..");
    match is_name {
        true => Ok(()),
        false => {
            let message = format!(
                "a name has 1 to {NAME_MAX} letters, digits, '.', '_' and '-', and is not '.' or '..'"
            );
            Err((ErrorCode::InvalidTopicException, message))
        }
    }
}

/// Creates a topic that a client has asked for, where that is done: for who may send to it, and only so many.
pub(super) fn create(
    namespace: &Namespace,
    session: &Session,
    counters: &Counters,
    name: &str,
) -> Result<Arc<Hub>, ErrorCode> {
    let may_create = || [Right::Manage, Right::Send].into_iter().any(|right| session.allows(name, right));
    if !namespace.creates_topics() || !may_create() {
        return Err(ErrorCode::UnknownTopicOrPartition);
    }
    check(name).map_err(|(error, _)| error)?;
    if namespace.hubs().len() >= CREATED_MAX {
        tracing::warn!(name, "a topic was asked for and not created: there are {CREATED_MAX} hubs");
        return Err(ErrorCode::PolicyViolation);
    }
    let config = HubConfig::new(name, namespace.topic_partitions());
    match namespace.create_hub(&config, namespace.clock().unix_time()) {
        Ok(hub) => {
            counters.created_topics.fetch_add(1, Ordering::Relaxed);
            tracing::info!(hub = name, "hub created, since a client of Kafka asked for it");
            Ok(hub)
        }
        Err(error) => {
            // Another client was faster, or its name differs in letter case alone from one that there is.
            if let Some(hub) = super::topics::named(namespace, name) {
                return Ok(hub);
            }
            let (code, message) = refusal(error);
            tracing::debug!(name, "a topic was asked for and not created: {message}");
            Err(match code {
                ErrorCode::KafkaStorageError => code,
                _ => ErrorCode::InvalidTopicException,
            })
        }
    }
}

/// The longest name, as Kafka has it.
const NAME_MAX: usize = 249;

/// Hubs beyond which none is created because someone asked for it: a client that asks for names at random ends here.
const CREATED_MAX: usize = 1_000;
