//! What the environment says is to be done. The names are those of `docs/external-systems.md`; what begins with `PEER_`
//! is this program's own.

use std::env;
use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

/// All of it.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What to receive from.
    pub source: Hub,
    /// How many partitions that has.
    pub source_partitions: usize,
    /// The consumer group to receive through.
    pub consumer_group: String,
    /// What to send to.
    pub destination: Hub,
    /// The partitions of the destination over which each batch is spread.
    pub fan_out: usize,
    /// The certificate authority to trust, where that of the system will not do.
    pub authority: Option<String>,
    /// Where checkpoints are kept; in memory, if nowhere.
    pub checkpoints: Option<Container>,
    /// How many processors share the partitions.
    pub instances: usize,
    /// Events of a full batch.
    pub batch: usize,
    /// How long a batch waits to be full.
    pub max_wait: Duration,
    /// Events to fetch ahead per partition.
    pub prefetch: u32,
    /// The probability that a send fails on purpose.
    pub failure_ratio: f64,
    /// How long a partition rests after a failed batch.
    pub restart_after: Duration,
    /// After how long without renewal a partition is anyone's.
    pub expiration: Duration,
    /// What is random begins with it.
    pub seed: u64,
    /// Whether one core is all there is.
    pub one_core: bool,
}

/// A hub and the connection string of its namespace.
#[derive(Debug, Clone)]
pub struct Hub {
    pub connection_string: String,
    pub name: String,
}

/// A blob container and the connection string of its account.
#[derive(Debug, Clone)]
pub struct Container {
    pub connection_string: String,
    pub name: String,
}

impl Settings {
    /// Reads the environment; a mistake is told with the variable's name.
    pub fn from_environment() -> Result<Self, String> {
        let restart_after = milliseconds("PARSHALL_RESTART_AFTER_MS", 0)?;
        let expiration = SHORTEST_EXPIRATION.as_millis() as u64;
        let failure_ratio = or("PARSHALL_FAILURE_RATIO", 0.0)?;
        if !(0.0..=1.0).contains(&failure_ratio) {
            return Err(format!("PARSHALL_FAILURE_RATIO is not within 0 and 1: {failure_ratio}"));
        }
        Ok(Self {
            source: Hub {
                connection_string: required("PARSHALL_SOURCE_CONNECTION_STRING")?,
                name: required("PARSHALL_SOURCE_HUB")?,
            },
            source_partitions: at_least_one(
                "PARSHALL_SOURCE_PARTITIONS",
                required("PARSHALL_SOURCE_PARTITIONS")?,
            )?,
            consumer_group: or("PARSHALL_CONSUMER_GROUP", "$Default".to_owned())?,
            destination: Hub {
                connection_string: required("PARSHALL_DESTINATION_CONNECTION_STRING")?,
                name: required("PARSHALL_DESTINATION_HUB")?,
            },
            fan_out: at_least_one("PARSHALL_FAN_OUT", required("PARSHALL_FAN_OUT")?)?,
            authority: optional("PARSHALL_TLS_CA_FILE"),
            checkpoints: match optional("PARSHALL_CHECKPOINT_CONNECTION_STRING") {
                Some(connection_string) => Some(Container {
                    connection_string,
                    name: or("PARSHALL_CHECKPOINT_CONTAINER", "checkpoints".to_owned())?,
                }),
                None => None,
            },
            instances: at_least_one("PARSHALL_INSTANCES", or("PARSHALL_INSTANCES", 2)?)?,
            batch: at_least_one("PARSHALL_BATCH", or("PARSHALL_BATCH", 128)?)?,
            max_wait: milliseconds("PARSHALL_MAX_WAIT_MS", 10)?,
            prefetch: or("PARSHALL_PREFETCH", 1)?,
            failure_ratio,
            restart_after,
            expiration: milliseconds("PEER_OWNERSHIP_EXPIRATION_MS", expiration)?,
            seed: or("PARSHALL_SEED", 1)?,
            one_core: or("PARSHALL_CORES", 2.0)? <= 1.0,
        })
    }

    /// How often ownership is renewed and shared anew: often enough to miss a few times.
    pub fn balancing_interval(&self) -> Duration {
        self.expiration / 4
    }
}

fn optional(name: &str) -> Option<String> {
    env::var(name).ok().filter(|text| !text.is_empty())
}

fn required<T: FromStr<Err: Display>>(name: &str) -> Result<T, String> {
    let text = optional(name).ok_or_else(|| format!("{name} is not set"))?;
    parse(name, &text)
}

fn or<T: FromStr<Err: Display>>(name: &str, otherwise: T) -> Result<T, String> {
    optional(name).map_or(Ok(otherwise), |text| parse(name, &text))
}

fn parse<T: FromStr<Err: Display>>(name: &str, text: &str) -> Result<T, String> {
    text.parse().map_err(|error| format!("{name} can't be {text}: {error}"))
}

fn milliseconds(name: &str, otherwise: u64) -> Result<Duration, String> {
    or(name, otherwise).map(Duration::from_millis)
}

fn at_least_one(name: &str, number: usize) -> Result<usize, String> {
    if number == 0 { Err(format!("{name} can't be 0")) } else { Ok(number) }
}

/// Much less, and a busy moment costs a partition its owner.
const SHORTEST_EXPIRATION: Duration = Duration::from_secs(10);
