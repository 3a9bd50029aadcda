//! What a connection is told at its start: who it is, how it authenticates, what it allows.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::partial::PartialBytes;
use crate::codec::{Symbol, Value};
use crate::frame::MIN_MAX_FRAME_SIZE;

/// Settings of either side.
#[derive(Debug, Clone)]
pub struct Config {
    /// Who we are.
    pub container_id: String,
    /// The virtual host that a client wants.
    pub hostname: Option<String>,
    /// Largest frame, in bytes, that we accept.
    pub max_frame_size: u32,
    /// Highest channel number, so one less than the number of sessions.
    pub channel_max: u16,
    /// Highest link handle of a session.
    pub handle_max: u32,
    /// Most links of all sessions together.
    pub links_max: usize,
    /// Most bytes of messages of which not all frames have come, over all links. A peer that exceeds it is closed.
    pub partial_bytes_max: usize,
    /// The same for all connections that share this bound. A message that exceeds it is refused with
    /// `com.microsoft:server-busy`.
    pub partial_bytes: Option<Arc<PartialBytes>>,
    /// The silence after which we say that we close. The specification has the peer told half of the truth,
    /// so the connection ends after twice this.
    pub idle_timeout: Option<Duration>,
    /// The silence after which the peer is asked for a flow. One that has answered before and does not within the same time again
    /// [is silent](super::Connection::is_silent); the connection goes on all the same. `None`: it is not asked.
    pub probe_after: Option<Duration>,
    /// How long the peer may take until it has sent its open.
    pub handshake_timeout: Duration,
    /// Transfers that a session accepts before it must replenish its window.
    pub incoming_window: u32,
    /// What to do with transfers beyond the link credit.
    pub credit_overrun: CreditOverrun,
    /// Who answers a receiver that settles after us.
    pub outcome_answers: OutcomeAnswers,
    /// Connection properties.
    pub properties: Vec<(Symbol, Value)>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            container_id: String::new(),
            hostname: None,
            // What the Event Hubs service announces, and what its clients split at.
            max_frame_size: 65_536,
            channel_max: 255,
            handle_max: 1_023,
            links_max: 4_096,
            // Sixteen messages of the largest size that Event Hubs takes.
            partial_bytes_max: 16 * 1024 * 1024,
            partial_bytes: None,
            // What the Event Hubs service announces.
            idle_timeout: Some(Duration::from_secs(240)),
            probe_after: None,
            handshake_timeout: Duration::from_secs(30),
            incoming_window: 65_536,
            credit_overrun: CreditOverrun::Detach,
            outcome_answers: OutcomeAnswers::Echo,
            properties: Vec::new(),
        }
    }
}

const _: () = assert!(MIN_MAX_FRAME_SIZE == 512);

/// What to do with a transfer for which the link has no credit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CreditOverrun {
    /// Detach the link with `amqp:link:transfer-limit-exceeded`.
    Detach,
    /// Take it. The Python client of Event Hubs does not look at its credit.
    Tolerate,
}

/// Who answers a receiver that gives an outcome and settles after us (specification section 2.6.12).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutcomeAnswers {
    /// The connection, at once and with the same outcome; the application hears of it by
    /// [`Event::Outcome`](super::Event::Outcome).
    Echo,
    /// The application, with [`answer_outcome`](super::Connection::answer_outcome) to each
    /// [`Event::OutcomeProposed`](super::Event::OutcomeProposed): it may be something else that becomes of the delivery.
    Application,
}

/// How a client authenticates at the SASL layer. Event Hubs clients choose anonymous and authorise by token afterwards.
#[derive(Clone, PartialEq, Eq)]
pub enum SaslClient {
    /// No SASL layer: start with the AMQP header.
    None,
    /// ANONYMOUS.
    Anonymous,
    /// MSSBCBS, which is ANONYMOUS by another name.
    Mssbcbs,
    /// PLAIN.
    Plain {
        /// User name; for Event Hubs the name of the key.
        username: String,
        /// Password; for Event Hubs the key.
        password: String,
    },
}

impl fmt::Debug for SaslClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::Anonymous => f.write_str("Anonymous"),
            Self::Mssbcbs => f.write_str("Mssbcbs"),
            Self::Plain { username, .. } => {
                f.debug_struct("Plain").field("username", username).finish_non_exhaustive()
            }
        }
    }
}

/// What a client showed at the SASL layer.
#[derive(Clone, PartialEq, Eq)]
pub enum Credentials {
    /// No SASL layer, ANONYMOUS or MSSBCBS.
    Anonymous,
    /// PLAIN.
    Plain {
        /// User name.
        username: String,
        /// Password.
        password: String,
    },
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Anonymous => f.write_str("Anonymous"),
            Self::Plain { username, .. } => {
                f.debug_struct("Plain").field("username", username).finish_non_exhaustive()
            }
        }
    }
}

/// Decides at once whether credentials are good.
pub type VerifyCredentials = Arc<dyn Fn(&Credentials) -> bool + Send + Sync>;

/// How a server authenticates. It offers ANONYMOUS, MSSBCBS and PLAIN, in this order, since some clients take the
/// first that they know; a bare AMQP header counts as anonymous.
#[derive(Clone)]
pub struct SaslServer {
    /// The decision.
    pub verify: VerifyCredentials,
}

impl fmt::Debug for SaslServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SaslServer").finish_non_exhaustive()
    }
}
