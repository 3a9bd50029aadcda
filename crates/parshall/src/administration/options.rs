//! What can be chosen of a queue, a topic or a subscription.

use std::time::Duration;

use clap::{Args, ValueEnum};
use connect::service_bus::administration::entity::{EntityDescription, Status, UNLIMITED};

/// What can be chosen of everything.
#[derive(Debug, Args)]
pub(super) struct EntityOptions {
    /// How long messages wait, unless their senders say less; `unlimited` for ever
    ///
    /// Example: --default-time-to-live '1 h'
    #[arg(long, value_name = "TIME", value_parser = limit)]
    default_time_to_live: Option<Duration>,

    /// What may be done with it
    #[arg(long, value_enum)]
    status: Option<StatusArgument>,

    /// Delete it after it has been idle for this long; `unlimited` never
    ///
    /// Example: --auto-delete-on-idle '10 min'
    #[arg(long, value_name = "TIME", value_parser = limit)]
    auto_delete_on_idle: Option<Duration>,

    /// A note to keep with it
    #[arg(long, value_name = "TEXT")]
    user_metadata: Option<String>,
}

/// What can be chosen of what messages are received from.
#[derive(Debug, Args)]
pub(super) struct ReceivingOptions {
    /// How long a received message is locked
    ///
    /// Example: --lock-duration '30 s'
    #[arg(long, value_name = "TIME", value_parser = units::duration::parse)]
    lock_duration: Option<Duration>,

    /// After how many failed deliveries a message goes to the dead-letter queue
    #[arg(long, value_name = "N")]
    max_delivery_count: Option<u32>,

    /// Whether messages whose time to live is over go to the dead-letter queue
    #[arg(long, value_name = "true|false")]
    dead_letter_expired: Option<bool>,

    /// The queue or topic that messages go on to; an empty name ends that
    #[arg(long, value_name = "NAME")]
    forward_to: Option<String>,

    /// The queue or topic that dead letters go on to; an empty name ends that
    #[arg(long, value_name = "NAME")]
    forward_dead_letters_to: Option<String>,
}

/// What can be chosen of what is sent to.
#[derive(Debug, Args)]
pub(super) struct SendingOptions {
    /// How many MiB of messages may wait: 1024, 2048, 3072, 4096 or 5120
    #[arg(long, value_name = "MIB")]
    max_size: Option<u64>,
}

/// What can be chosen of what is sent to, once.
#[derive(Debug, Args)]
pub(super) struct DuplicateDetection {
    /// Drop a message whose id was sent within so long
    ///
    /// Example: --duplicate-detection '10 min'
    #[arg(long, value_name = "TIME", value_parser = units::duration::parse)]
    duplicate_detection: Option<Duration>,
}

/// What may be done with an entity.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum StatusArgument {
    /// Everything
    Active,
    /// Nothing
    Disabled,
    /// Receiving only
    SendDisabled,
    /// Sending only
    ReceiveDisabled,
}

impl EntityOptions {
    pub(super) fn apply(&self, description: &mut EntityDescription) {
        set(&mut description.default_time_to_live, self.default_time_to_live);
        set(&mut description.auto_delete_on_idle, self.auto_delete_on_idle);
        set(&mut description.user_metadata, self.user_metadata.clone());
        let status = self.status.map(|status| match status {
            StatusArgument::Active => Status::Active,
            StatusArgument::Disabled => Status::Disabled,
            StatusArgument::SendDisabled => Status::SendDisabled,
            StatusArgument::ReceiveDisabled => Status::ReceiveDisabled,
        });
        set(&mut description.status, status);
    }
}

impl ReceivingOptions {
    pub(super) fn apply(&self, description: &mut EntityDescription) {
        set(&mut description.lock_duration, self.lock_duration);
        set(&mut description.maximum_delivery_count, self.max_delivery_count);
        set(&mut description.dead_lettering_on_expiration, self.dead_letter_expired);
        for (told, wanted) in [
            (&mut description.forward_to, &self.forward_to),
            (&mut description.forward_dead_letters_to, &self.forward_dead_letters_to),
        ] {
            if let Some(name) = wanted {
                // Left out, it ends.
                *told = Some(name.clone()).filter(|name| !name.is_empty());
            }
        }
    }
}

impl SendingOptions {
    pub(super) fn apply(&self, description: &mut EntityDescription) {
        set(&mut description.maximum_mebibytes, self.max_size);
    }
}

impl DuplicateDetection {
    pub(super) fn apply(&self, description: &mut EntityDescription) {
        if let Some(window) = self.duplicate_detection {
            description.requires_duplicate_detection = Some(true);
            description.duplicate_detection_window = Some(window);
        }
    }
}

fn set<T>(field: &mut Option<T>, value: Option<T>) {
    if value.is_some() {
        *field = value;
    }
}

/// A length of time, or none.
fn limit(text: &str) -> Result<Duration, units::duration::DurationError> {
    match text {
        "unlimited" => Ok(UNLIMITED),
        text => units::duration::parse(text),
    }
}
