//! The properties that the native client knows, read.
//!
//! Names, ranges and meanings are librdkafka's. Defaults are, too, where nothing is said here:
//!
//! | property | default | |
//! |---|---|---|
//! | `linger.ms` | 0 | a send leaves at once; what is sent while the socket is busy leaves together |
//! | `enable.idempotence` | true with `acks=all` | as Java's client has it: a retry makes no duplicates |
//! | `max.in.flight.requests.per.connection` | 5 | |
//! | `max.unpacked.batch.bytes` | 32 MiB | not librdkafka's; 32 times what one message may have |
//! | `fetch.max.bytes` | 4 MiB | larger answers are no faster, and take more memory |
//! | `max.partition.fetch.bytes` | 512 KiB | likewise |
//! | `socket.connection.setup.timeout.ms` | 30000 | covers the login as well |
//! | `transaction.timeout.ms` | 60000 | |
//! | `partition.assignment.strategy` | `cooperative-sticky` | nobody stops while a group changes over |

use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use access::is_loopback;
use kafka::compression::Compression;

use super::group::{Assignor, MemberOptions};
use super::properties::{Properties, PropertyError};
use crate::identity::EVENT_HUBS_SCOPE;

/// What the native client is told.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Hosts and ports of which one at least can be reached.
    pub(crate) bootstrap: Vec<(String, u16)>,
    pub(crate) uses_tls: bool,
    pub(crate) login: Option<Login>,
    pub(crate) certificate_authority: Option<PathBuf>,
    pub(crate) client_id: String,
    pub(crate) connect_timeout: Duration,
    pub(crate) request_timeout: Duration,
    /// After how long who leads the partitions of a topic, and how many there are, is asked though nothing has failed.
    pub(crate) refresh_interval: Duration,
    pub(crate) fetch: FetchSettings,
    pub(crate) produce: ProduceSettings,
    pub(crate) group: Option<String>,
    pub(crate) member: MemberSettings,
}

/// Who the client is.
#[derive(Clone)]
pub(crate) enum Login {
    /// By SASL PLAIN.
    Plain { username: String, password: String },
    /// By SASL OAUTHBEARER, with the tokens that the identity of the process has for a scope.
    Bearer { scope: String },
}

/// How one is a member of a consumer group.
#[derive(Clone, Debug)]
pub(crate) struct MemberSettings {
    pub(crate) instance_id: Option<String>,
    pub(crate) session_timeout: Duration,
    pub(crate) heartbeat_interval: Duration,
    pub(crate) rebalance_timeout: Duration,
    pub(crate) assignors: Vec<Assignor>,
}

/// How a source fetches.
#[derive(Clone, Debug)]
pub(crate) struct FetchSettings {
    pub(crate) max_wait: Duration,
    pub(crate) min_bytes: i32,
    pub(crate) max_bytes: i32,
    pub(crate) max_partition_bytes: i32,
    /// Maximum size of the records of one batch when they are unpacked.
    pub(crate) max_unpacked_bytes: usize,
    /// Whether records of transactions that are open or aborted are left out.
    pub(crate) is_read_committed: bool,
}

/// How a sink sends.
#[derive(Clone, Debug)]
pub(crate) struct ProduceSettings {
    /// 0, 1, or -1 for all.
    pub(crate) acks: i16,
    pub(crate) linger: Duration,
    /// How large a batch becomes by waiting.
    pub(crate) batch_bytes: usize,
    pub(crate) batch_records: usize,
    /// How large one may be.
    pub(crate) max_message_bytes: usize,
    pub(crate) compression: Compression,
    /// `None` where the user has not said: as it fits the other settings.
    pub(crate) idempotence: Option<bool>,
    /// `None` likewise.
    pub(crate) max_in_flight: Option<usize>,
    /// For a sink with transactions: after how long the cluster aborts one.
    pub(crate) transaction_timeout: Duration,
}

impl Settings {
    /// Reads properties.
    ///
    /// # Errors
    /// The first that is not known, or can't have its value, or that is missing.
    pub(crate) fn read(properties: &Properties) -> Result<Self, PropertyError> {
        let mut settings = Self::default();
        let mut protocol = (false, false);
        let (mut username, mut password) = (None, None);
        let (mut is_bearer, mut scope) = (false, None);
        for (name, value) in properties.iter() {
            let produce = &mut settings.produce;
            let fetch = &mut settings.fetch;
            let member = &mut settings.member;
            match name {
                "bootstrap.servers" => settings.bootstrap = servers(name, value)?,
                "security.protocol" => protocol = security(name, value)?,
                "sasl.mechanism" | "sasl.mechanisms" => is_bearer = mechanism(name, value)?,
                "sasl.oauthbearer.scope" => scope = Some(value.to_owned()).filter(|scope| !scope.is_empty()),
                "sasl.username" => username = Some(value.to_owned()),
                "sasl.password" => password = Some(value.to_owned()),
                "ssl.ca.location" => settings.certificate_authority = Some(value.into()),
                "client.id" => value.clone_into(&mut settings.client_id),
                "socket.connection.setup.timeout.ms" => {
                    settings.connect_timeout = milliseconds(name, value, 1, 900_000)?;
                }
                "request.timeout.ms" => settings.request_timeout = milliseconds(name, value, 1, 900_000)?,
                "topic.metadata.refresh.interval.ms" => {
                    settings.refresh_interval = milliseconds(name, value, 10, 3_600_000)?;
                }
                "group.id" => settings.group = Some(value.to_owned()).filter(|group| !group.is_empty()),
                "group.instance.id" => {
                    member.instance_id = Some(value.to_owned()).filter(|id| !id.is_empty());
                }
                "session.timeout.ms" => member.session_timeout = milliseconds(name, value, 1, 3_600_000)?,
                "heartbeat.interval.ms" => {
                    member.heartbeat_interval = milliseconds(name, value, 1, 3_600_000)?;
                }
                "max.poll.interval.ms" => {
                    member.rebalance_timeout = milliseconds(name, value, 1, 86_400_000)?;
                }
                "partition.assignment.strategy" => member.assignors = assignors(name, value)?,
                "fetch.wait.max.ms" => fetch.max_wait = milliseconds(name, value, 0, 300_000)?,
                "fetch.min.bytes" => fetch.min_bytes = number(name, value, 1, 100_000_000)?,
                "fetch.max.bytes" => fetch.max_bytes = number(name, value, 1, FRAME_MAX)?,
                "max.partition.fetch.bytes" => {
                    fetch.max_partition_bytes = number(name, value, 1, FRAME_MAX)?;
                }
                UNPACKED_BATCH => fetch.max_unpacked_bytes = number(name, value, 1_000, BYTES_MAX)?,
                "isolation.level" => fetch.is_read_committed = isolation(name, value)?,
                "acks" => produce.acks = acks(name, value)?,
                "linger.ms" => produce.linger = milliseconds(name, value, 0, 900_000)?,
                "batch.size" => produce.batch_bytes = number(name, value, 1, BYTES_MAX)?,
                "batch.num.messages" => produce.batch_records = number(name, value, 1, 1_000_000)?,
                "message.max.bytes" => produce.max_message_bytes = number(name, value, 1_000, BYTES_MAX)?,
                "compression.type" => produce.compression = compression(name, value)?,
                "enable.idempotence" => produce.idempotence = Some(boolean(name, value)?),
                "max.in.flight.requests.per.connection" => {
                    produce.max_in_flight = Some(number(name, value, 1, 1_000_000)?);
                }
                // Who has transactions asks for it.
                "transactional.id" if !value.is_empty() => {}
                "transactional.id" => {
                    let advice = "leave it out for one that is made of group and topic";
                    return Err(PropertyError::new(name, "is empty", advice));
                }
                "transaction.timeout.ms" => {
                    produce.transaction_timeout = milliseconds(name, value, 1_000, 2_147_483_647)?;
                }
                "auto.offset.reset" => {
                    let advice = "where to start is said by `start` of the pipeline";
                    return Err(PropertyError::new(name, "has no effect", advice));
                }
                _ => {
                    let advice = "with `client: librdkafka` all properties of librdkafka can be set";
                    return Err(PropertyError::new(name, "the native client does not know it", advice));
                }
            }
        }
        if settings.bootstrap.is_empty() {
            let advice = "name one broker at least, as host:port";
            return Err(PropertyError::new("bootstrap.servers", "is missing", advice));
        }
        settings.member.check()?;
        settings.uses_tls = protocol.0;
        if protocol.1 {
            let missing = |name| PropertyError::new(name, "is missing", "security.protocol asks for a login");
            settings.login = Some(match is_bearer {
                true => Login::Bearer { scope: settings.bearer_scope(scope)? },
                false => Login::Plain {
                    username: username.ok_or_else(|| missing("sasl.username"))?,
                    password: password.ok_or_else(|| missing("sasl.password"))?,
                },
            });
        }
        Ok(settings)
    }

    /// What tokens for the brokers are for: what is `given`, or the namespace of Event Hubs that the first one is.
    fn bearer_scope(&self, given: Option<String>) -> Result<String, PropertyError> {
        let beyond = self.bootstrap.iter().find(|(host, _)| !self.uses_tls && !is_loopback(host));
        if let Some((host, _)) = beyond {
            let reason = format!("{host} would be sent bearer tokens without TLS");
            return Err(PropertyError::new("security.protocol", reason, "set it to sasl_ssl"));
        }
        Ok(given.unwrap_or_else(|| match self.bootstrap.first() {
            Some((host, _)) if !is_loopback(host) => format!("https://{host}/.default"),
            _ => EVENT_HUBS_SCOPE.to_owned(),
        }))
    }

    /// Whether what is said of producing goes with transactions.
    ///
    /// # Errors
    /// The setting that does not.
    pub(crate) fn check_transactions(&self) -> Result<(), PropertyError> {
        let produce = &self.produce;
        if !produce.is_idempotent() {
            let (name, advice) = match (produce.acks, produce.idempotence) {
                (-1, Some(_)) => ("enable.idempotence", "leave it out, or set it to true"),
                (-1, None) => ("max.in.flight.requests.per.connection", "set it to 5 at the most"),
                _ => ("acks", "leave it out, or set it to all"),
            };
            return Err(PropertyError::new(name, "does not go with exactly-once delivery", advice));
        }
        if produce.transaction_timeout < 2 * self.request_timeout {
            let reason = "is shorter than twice request.timeout.ms, after which a request may be asked again";
            let advice = "make it longer, or request.timeout.ms shorter";
            return Err(PropertyError::new("transaction.timeout.ms", reason, advice));
        }
        Ok(())
    }

    /// Reads the properties that say how to connect, and those of these names: others are another client's, or another end's.
    ///
    /// # Errors
    /// As with [`read`](Self::read).
    pub(crate) fn of_connections(properties: &Properties, more: &[&str]) -> Result<Self, PropertyError> {
        let is_needed = |name: &str| OF_CONNECTIONS.contains(&name) || more.contains(&name);
        Self::read(&properties.iter().filter(|(name, _)| is_needed(name)).collect())
    }

    /// Whether what is said of producing goes together.
    ///
    /// # Errors
    /// The setting that asks for what another one rules out.
    pub(crate) fn check_sink(&self) -> Result<(), PropertyError> {
        let produce = &self.produce;
        let name = "enable.idempotence";
        if produce.idempotence != Some(true) {
            return Ok(());
        }
        if produce.acks != -1 {
            return Err(PropertyError::new(name, "needs acks=all", "leave out acks, or set it to all"));
        }
        if produce.max_in_flight.is_some_and(|requests| requests > IN_FLIGHT_OF_IDEMPOTENT) {
            let reason = "a broker remembers the last five batches of a producer";
            let advice = "set max.in.flight.requests.per.connection to 5 at the most";
            return Err(PropertyError::new(name, reason, advice));
        }
        Ok(())
    }
}

impl MemberSettings {
    /// A member that reads a topic.
    pub(crate) fn options(&self, topic: &str) -> MemberOptions {
        MemberOptions {
            instance_id: self.instance_id.clone(),
            topics: vec![topic.into()],
            assignors: self.assignors.clone(),
            session_timeout: self.session_timeout,
            rebalance_timeout: self.rebalance_timeout,
            heartbeat_interval: self.heartbeat_interval,
        }
    }

    /// One heartbeat may be lost without the end of the session.
    fn check(&self) -> Result<(), PropertyError> {
        match self.session_timeout > 2 * self.heartbeat_interval {
            true => Ok(()),
            false => Err(PropertyError::new(
                "heartbeat.interval.ms",
                "one heartbeat that is lost would end the session",
                "allowed is less than half of session.timeout.ms; a third of it is usual",
            )),
        }
    }
}

impl ProduceSettings {
    /// Whether batches are numbered, so that a broker knows those that it has.
    pub(crate) fn is_idempotent(&self) -> bool {
        let fits =
            self.acks == -1 && self.max_in_flight.is_none_or(|requests| requests <= IN_FLIGHT_OF_IDEMPOTENT);
        self.idempotence.unwrap_or(fits)
    }

    /// How many requests may wait for their answer on one connection.
    pub(crate) fn max_in_flight(&self) -> usize {
        self.max_in_flight.unwrap_or(IN_FLIGHT_OF_IDEMPOTENT)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            bootstrap: Vec::new(),
            uses_tls: false,
            login: None,
            certificate_authority: None,
            client_id: "parshall".to_owned(),
            connect_timeout: Duration::from_secs(30),
            request_timeout: Duration::from_secs(30),
            refresh_interval: Duration::from_secs(300),
            fetch: FetchSettings {
                max_wait: Duration::from_millis(500),
                min_bytes: 1,
                max_bytes: 4 << 20,
                max_partition_bytes: 512 << 10,
                max_unpacked_bytes: 32 << 20,
                is_read_committed: true,
            },
            produce: ProduceSettings {
                acks: -1,
                linger: Duration::ZERO,
                batch_bytes: 1_000_000,
                batch_records: 10_000,
                max_message_bytes: 1_000_000,
                compression: Compression::None,
                idempotence: None,
                max_in_flight: None,
                transaction_timeout: Duration::from_secs(60),
            },
            group: None,
            member: MemberSettings {
                instance_id: None,
                session_timeout: Duration::from_secs(45),
                heartbeat_interval: Duration::from_secs(3),
                rebalance_timeout: Duration::from_secs(300),
                assignors: vec![Assignor::CooperativeSticky],
            },
        }
    }
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Plain { username, .. } => {
                f.debug_struct("Plain").field("username", username).finish_non_exhaustive()
            }
            Self::Bearer { scope } => f.debug_struct("Bearer").field("scope", scope).finish(),
        }
    }
}

/// The largest answer that is taken from a broker, without what stands around the records.
pub(crate) const FRAME_MAX: i32 = 100_000_000;

/// Names of the properties that say how to connect.
const OF_CONNECTIONS: [&str; 11] = [
    "bootstrap.servers",
    "security.protocol",
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.username",
    "sasl.password",
    "sasl.oauthbearer.scope",
    "ssl.ca.location",
    "client.id",
    "socket.connection.setup.timeout.ms",
    "request.timeout.ms",
];

/// The bound of what one compressed batch may become.
pub(crate) const UNPACKED_BATCH: &str = "max.unpacked.batch.bytes";

/// The longest batch that librdkafka lets one ask for.
const BYTES_MAX: usize = 1_000_000_000;

/// The batches of a producer that a broker remembers: of more, it could not tell which it has.
const IN_FLIGHT_OF_IDEMPOTENT: usize = 5;

fn servers(name: &str, value: &str) -> Result<Vec<(String, u16)>, PropertyError> {
    let servers = value.split(',').map(str::trim).filter(|server| !server.is_empty());
    servers.map(|server| address(name, server)).collect()
}

/// Host and port, as librdkafka reads them: behind a protocol that it passes over, the port may be left out.
fn address(name: &str, server: &str) -> Result<(String, u16), PropertyError> {
    let wrong = || {
        let advice = "each is host:port, separated by commas; an IPv6 address stands in brackets";
        PropertyError::new(name, format!("{server:?} is no address"), advice)
    };
    let rest = server.split_once("://").map_or(server, |(_protocol, rest)| rest);
    let (host, port) = match rest.strip_prefix('[') {
        Some(rest) => rest.split_once(']').ok_or_else(wrong)?,
        None => rest.split_at(rest.rfind(':').unwrap_or(rest.len())),
    };
    let port = match port {
        "" => DEFAULT_PORT,
        port => port.strip_prefix(':').and_then(|port| port.parse().ok()).ok_or_else(wrong)?,
    };
    if host.is_empty() || port == 0 {
        return Err(wrong());
    }
    Ok((host.to_owned(), port))
}

const DEFAULT_PORT: u16 = 9092;

/// Whether it is over TLS, and whether with a login.
fn security(name: &str, value: &str) -> Result<(bool, bool), PropertyError> {
    match value.to_ascii_lowercase().as_str() {
        "plaintext" => Ok((false, false)),
        "ssl" => Ok((true, false)),
        "sasl_plaintext" => Ok((false, true)),
        "sasl_ssl" => Ok((true, true)),
        _ => Err(one_of(name, value, "plaintext, ssl, sasl_plaintext, sasl_ssl")),
    }
}

/// Whether the login is by tokens.
fn mechanism(name: &str, value: &str) -> Result<bool, PropertyError> {
    match value.to_ascii_uppercase().as_str() {
        "PLAIN" => Ok(false),
        "OAUTHBEARER" => Ok(true),
        _ => Err(PropertyError::new(
            name,
            format!("the native client does not know {value:?}"),
            "use PLAIN or OAUTHBEARER, or another one with `client: librdkafka`",
        )),
    }
}

fn isolation(name: &str, value: &str) -> Result<bool, PropertyError> {
    match value {
        "read_committed" => Ok(true),
        "read_uncommitted" => Ok(false),
        _ => Err(one_of(name, value, "read_committed, read_uncommitted")),
    }
}

fn acks(name: &str, value: &str) -> Result<i16, PropertyError> {
    match value {
        "0" => Ok(0),
        "1" => Ok(1),
        "-1" | "all" => Ok(-1),
        _ => Err(one_of(name, value, "0, 1, all")),
    }
}

fn compression(name: &str, value: &str) -> Result<Compression, PropertyError> {
    let all = (0..).map_while(Compression::of);
    let found = all.into_iter().find(|compression| compression.name() == value);
    found.ok_or_else(|| one_of(name, value, "none, gzip, snappy, lz4, zstd"))
}

/// Those that are listed, the one that is liked most first.
fn assignors(name: &str, value: &str) -> Result<Vec<Assignor>, PropertyError> {
    let mut found = Vec::new();
    for part in value.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let allowed = Assignor::ALL.map(Assignor::name).join(", ");
        let assignor = Assignor::of(part).ok_or_else(|| one_of(name, part, &allowed))?;
        if !found.contains(&assignor) {
            found.push(assignor);
        }
    }
    match found.is_empty() {
        true => Err(PropertyError::new(name, "it is empty", "leave it out for cooperative-sticky")),
        false => Ok(found),
    }
}

fn boolean(name: &str, value: &str) -> Result<bool, PropertyError> {
    value.parse().map_err(|_neither| one_of(name, value, "true, false"))
}

fn milliseconds(name: &str, value: &str, least: u64, most: u64) -> Result<Duration, PropertyError> {
    number(name, value, least, most).map(Duration::from_millis)
}

fn number<T: FromStr + PartialOrd + Display>(
    name: &str,
    value: &str,
    least: T,
    most: T,
) -> Result<T, PropertyError> {
    let parsed = value.parse().ok().filter(|number| (&least..=&most).contains(&number));
    parsed.ok_or_else(|| {
        PropertyError::new(
            name,
            format!("it can't be {value:?}"),
            format!("a whole number from {least} to {most}"),
        )
    })
}

fn one_of(name: &str, value: &str, allowed: &str) -> PropertyError {
    PropertyError::new(name, format!("it can't be {value:?}"), format!("one of {allowed}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(properties: &[(&str, &str)]) -> Result<Settings, PropertyError> {
        let all = [("bootstrap.servers", "one:1,[::1]:2, SASL_SSL://ns.example.com:9093 ,four")];
        Settings::read(&all.iter().chain(properties).copied().collect())
    }

    #[test]
    fn servers_are_hosts_with_ports() {
        let settings = read(&[]).unwrap();
        let expected = [("one", 1), ("::1", 2), ("ns.example.com", 9093), ("four", 9092)];
        let found: Vec<_> = settings.bootstrap.iter().map(|(host, port)| (host.as_str(), *port)).collect();
        assert_eq!(found, expected);
        for wrong in ["", ":9092", "host:port", "host:0", "[::1", "host:65536"] {
            assert_eq!(
                read(&[("bootstrap.servers", wrong)]).unwrap_err().name,
                "bootstrap.servers",
                "{wrong}"
            );
        }
    }

    #[test]
    fn documented_properties_are_those_that_are_read() {
        let documentation = include_str!("../../../../docs/kafka-client.md");
        let rows = documentation.lines().filter_map(|line| line.strip_prefix("| `")?.split_once(" | "));
        let names = |row: (&'static str, &str)| row.0.split('`').map(|part| part.trim_matches([',', ' ']));
        for name in rows.flat_map(names).filter(|name| !name.is_empty()) {
            if let Err(error) = Settings::read(&[(name, "?")].into_iter().collect()) {
                assert!(!error.reason.contains("does not know it"), "{name} is in the documentation");
            }
        }
        let bound = read(&[]).expect("it is complete").fetch.max_unpacked_bytes;
        assert!(documentation.contains(&format!("| `{UNPACKED_BATCH}` | {bound} |")));
    }

    #[test]
    fn a_login_goes_with_the_protocol_that_asks_for_it() {
        let login = [("sasl.username", "$ConnectionString"), ("sasl.password", "secret")];
        let with = |protocol| read(&[login[0], login[1], ("security.protocol", protocol)]).unwrap();
        for (protocol, uses_tls, has_login) in [
            ("plaintext", false, false),
            ("SSL", true, false),
            ("sasl_plaintext", false, true),
            ("SASL_SSL", true, true),
        ] {
            let settings = with(protocol);
            assert_eq!((settings.uses_tls, settings.login.is_some()), (uses_tls, has_login), "{protocol}");
            assert!(!format!("{settings:?}").contains("secret"));
        }
        let missing = read(&[login[0], ("security.protocol", "sasl_ssl")]).unwrap_err();
        assert_eq!(missing.name, "sasl.password");
        assert_eq!(read(&[("sasl.mechanism", "SCRAM-SHA-256")]).unwrap_err().name, "sasl.mechanism");
        assert!(read(&[("sasl.mechanisms", "PLAIN")]).is_ok());
    }

    #[test]
    fn a_value_that_can_not_be_says_what_can() {
        for (name, value, allowed) in [
            ("acks", "2", "all"),
            ("linger.ms", "-1", "900000"),
            ("compression.type", "lzma", "zstd"),
            ("enable.idempotence", "yes", "true"),
            ("fetch.min.bytes", "0", "from 1"),
            ("isolation.level", "serializable", "read_committed"),
            ("security.protocol", "tls", "sasl_ssl"),
            ("auto.offset.reset", "earliest", "start"),
            ("statistics.interval.ms", "500", "client: librdkafka"),
            ("heartbeat.interval.ms", "22500", "a third"),
            ("session.timeout.ms", "0", "from 1"),
            ("partition.assignment.strategy", "range,roundrobin", "cooperative-sticky, range"),
            ("partition.assignment.strategy", ",", "leave it out"),
        ] {
            let error = read(&[(name, value)]).unwrap_err();
            assert_eq!(error.name, name);
            assert!(error.advice.contains(allowed), "{error}");
        }
    }

    #[test]
    fn transactions_need_numbers_and_time() {
        let check = |properties: &[_]| {
            let mistake = read(properties).and_then(|settings| settings.check_transactions());
            mistake.map_err(|error| error.name)
        };
        assert_eq!(check(&[]), Ok(()));
        assert_eq!(check(&[("acks", "all"), ("transactional.id", "mover")]), Ok(()));
        assert_eq!(check(&[("transaction.timeout.ms", "20000"), ("request.timeout.ms", "10000")]), Ok(()));
        for (name, value) in [
            ("acks", "1"),
            ("enable.idempotence", "false"),
            ("max.in.flight.requests.per.connection", "6"),
            ("transaction.timeout.ms", "59999"),
            ("transaction.timeout.ms", "999"),
            ("transactional.id", ""),
        ] {
            assert_eq!(check(&[(name, value)]), Err(name.to_owned()), "{value}");
        }
    }

    #[test]
    fn idempotence_is_on_where_it_can_be() {
        let is_idempotent = |properties: &[_]| {
            let settings = read(properties).unwrap();
            settings.check_sink().map(|()| settings.produce.is_idempotent())
        };
        let in_flight = "max.in.flight.requests.per.connection";
        assert_eq!(is_idempotent(&[]), Ok(true));
        assert_eq!(is_idempotent(&[("acks", "1")]), Ok(false));
        assert_eq!(is_idempotent(&[(in_flight, "6")]), Ok(false));
        assert_eq!(is_idempotent(&[(in_flight, "5"), ("enable.idempotence", "true")]), Ok(true));
        for contradiction in [
            &[("enable.idempotence", "true"), ("acks", "0")][..],
            &[("enable.idempotence", "true"), (in_flight, "6")],
        ] {
            assert!(is_idempotent(contradiction).is_err(), "{contradiction:?}");
        }
    }
}
