//! `parshall serve`: the embedded service on its own, until it is interrupted or the command ends that it runs for.
//!
//! * `namespace` makes hubs, queues, topics and keys of arguments or of a file, `emulator` of a file of Microsoft's
//!   emulators; `place` finds what is wrong with it in either file.
//! * `announcement` is what is printed once clients can connect; `ready_file` a file that is there from then on.
//! * `retention` is how long hubs without limits of their own retain events.
//! * `identity` issues tokens for programs that would ask Microsoft Entra ID.
//! * `capture` keeps what comes into hubs in files, as the service's Capture does.
//! * `command` runs the command that the service is for; `standard_input` ends with the process that started the service.

mod announcement;
mod capture;
mod command;
mod emulator;
mod identity;
mod namespace;
mod place;
mod ready_file;
mod retention;
mod standard_input;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use access::TransportSecurity;
use clap::builder::ArgPredicate;
use clap::{ArgGroup, Args, ValueEnum};
use hub::clock::ClockKind;
use hub::namespace::StorageConfig;
use hub::service::{Listener, Openness, Protocol, Service, ServiceConfig, ServiceMetrics, StartError};
use hub::tls::{self, TlsError};
use partition_log::disk::{StorageOptions, SyncPolicy};
use telemetry::MetricsPage;

use crate::exit::{CommandError, Exit};
use crate::listening;
use crate::logging;
use crate::open_telemetry::{METRICS_ALONE, OpenTelemetry};
use crate::output;
use crate::signals::StopSignals;
use announcement::{Announcement, Format};
use capture::Captures;
use identity::IdentityArguments;
use namespace::{HubArgument, NamespaceSource, TopicArgument};
use ready_file::ReadyFile;
use retention::RetentionArguments;
use standard_input::StandardInput;

/// The arguments of `serve`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  parshall serve                                        one hub `events` with 4 partitions
  parshall serve --hub orders:32 --hub audit            two hubs
  parshall serve --queue orders --topic news:all,audit  a queue, and a topic with two subscriptions
  parshall serve --config namespace.yaml                hubs, queues, topics and keys from a file
  parshall serve --config Config.json                   the file of one of Microsoft's emulators
  parshall serve --data-dir ./data --sync always        hubs and events survive restarts
  parshall serve --amqp 127.0.0.1:0 --http 127.0.0.1:0  any free ports, printed on standard output
  parshall serve --tls                                  with TLS, and a generated certificate
  parshall serve --blob 127.0.0.1:10000                 blob storage too, for checkpoints
  parshall serve --explorer 127.0.0.1:5400              a page to look at it all in a browser
  parshall serve --hub orders:4 -- pytest               a service for one command, which finds the
                                                        connection strings in its environment

A file for --config:
  hubs:
    - name: orders
      partitions: 32
      consumer_groups: [billing]
      log: {bytes: 1 GiB, retention: 1 h, when_full: retention}
      capture: {container: captured, every: 5 min, size: 300 MiB}     # with --blob
  queues:
    - {name: jobs, lock_duration: 30 s, maximum_delivery_count: 10, requires_session: false}
  topics:
    - name: news
      subscriptions:
        - name: urgent
          rules: [{name: urgent, filter: {sql: \"priority > 5\"}, action: \"REMOVE priority\"}]
  authorization_rules:
    - {name: sender, key: \"${SENDER_KEY:?}\", rights: [send]}
  token_issuers:
    - tenant: 11111111-2222-3333-4444-555555555555   # of Entra ID; or issuer and keys
      roles: [{principal: OBJECT_ID, role: Azure Event Hubs Data Sender, scope: orders}]
  blob:
    account: {name: acme, key: \"${STORAGE_KEY:?}\"}
    containers: [checkpoints]

Logs go to standard error; PARSHALL_LOG sets the level, such as PARSHALL_LOG=debug. SIGINT
(Ctrl-C), SIGTERM or SIGHUP stops the service gracefully, with exit status 0.

With a command, nothing is announced on standard output, and these signals are passed on to it.
When it ends, the service stops, and the exit status is the command's: 128 plus the number of a
signal that ended it, 127 if there is no such command, 126 if it can't be run. Its environment has
the variables that --format env prints:
  PARSHALL_CONNECTION_STRING              for hubs, queues and topics
  PARSHALL_TLS_CONNECTION_STRING          the same over TLS
  PARSHALL_STORAGE_CONNECTION_STRING      for blobs (and PARSHALL_STORAGE_TLS_CONNECTION_STRING)
  PARSHALL_KAFKA_BOOTSTRAP_SERVERS        for Kafka (and PARSHALL_KAFKA_TLS_BOOTSTRAP_SERVERS)
  PARSHALL_CERTIFICATE_AUTHORITY          the file to trust, where the certificate was generated
  PARSHALL_HEALTH_URL, PARSHALL_METRICS_URL
  IDENTITY_ENDPOINT, IDENTITY_HEADER      for DefaultAzureCredential, with --dev-identity
  AZURE_AUTHORITY_HOST, AZURE_TENANT_ID, AZURE_CLIENT_ID, AZURE_CLIENT_SECRET
                                          the same, with --dev-identity-tls
  PARSHALL_TIME_URL                       with --time-control
  PARSHALL_EXPLORER_URL                   with --explorer
and under the names that programs commonly read:
  EVENT_HUBS_CONNECTION_STRING, EVENTHUB_CONNECTION_STRING, EVENT_HUB_CONN_STR
  SERVICE_BUS_CONNECTION_STRING, SERVICEBUS_CONNECTION_STRING, SERVICEBUS_CONNECTION_STR
  AZURE_STORAGE_CONNECTION_STRING")]
#[command(group = ArgGroup::new("encrypted").multiple(true))]
pub(crate) struct ServeArguments {
    /// The address for AMQP clients; port 0 picks a free port, and is the default with a command
    ///
    /// Addresses other than loopback need your own keys from a file, or --open-to-anyone. Example: --amqp 127.0.0.1:5673
    #[arg(
        long,
        value_name = "ADDRESS:PORT", value_parser = settings::address::parse,
        default_value = "127.0.0.1:5672",
        default_value_if("command", ArgPredicate::IsPresent, ANY_PORT),
        help_heading = "Addresses"
    )]
    amqp: SocketAddr,

    /// The address for AMQP clients with TLS [default: none]
    ///
    /// Example: --amqps 127.0.0.1:5671
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = settings::address::parse, group = "encrypted", help_heading = "Addresses")]
    amqps: Option<SocketAddr>,

    /// AMQP with TLS on port 5671, the default of all clients, in addition to --amqp
    #[arg(long, conflicts_with = "amqps", group = "encrypted", help_heading = "Addresses")]
    tls: bool,

    /// The address for AMQP over WebSocket [default: none]
    ///
    /// Used by clients with an emulator connection string. Example: --websocket 127.0.0.1:8080
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = settings::address::parse, help_heading = "Addresses")]
    websocket: Option<SocketAddr>,

    /// The address for AMQP over WebSocket with TLS [default: none]
    ///
    /// Example: --websocket-tls 127.0.0.1:8443
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = settings::address::parse, group = "encrypted", help_heading = "Addresses")]
    websocket_tls: Option<SocketAddr>,

    /// The address for Kafka clients, whose topics are the hubs [default: none]
    ///
    /// Example: --kafka 127.0.0.1:9092
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = settings::address::parse, help_heading = "Addresses")]
    kafka: Option<SocketAddr>,

    /// The address for Kafka clients with TLS [default: none]
    ///
    /// Example: --kafka-tls 127.0.0.1:9093
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = settings::address::parse, group = "encrypted", help_heading = "Addresses")]
    kafka_tls: Option<SocketAddr>,

    /// The address for /metrics, /live, /ready, /health and administration; port 0 picks a free port, and is the default with a command
    ///
    /// Example: --http 127.0.0.1:9091
    #[arg(
        long,
        value_name = "ADDRESS:PORT", value_parser = settings::address::parse,
        default_value = "127.0.0.1:5300",
        default_value_if("command", ArgPredicate::IsPresent, ANY_PORT),
        help_heading = "Addresses"
    )]
    http: SocketAddr,

    /// The address of the explorer, a page for browsers: what there is, what comes in, what waits [default: none]
    ///
    /// It asks for no key, and can send and remove messages, so that addresses other than loopback need --open-to-anyone.
    /// Example: --explorer 127.0.0.1:5400
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = settings::address::parse, help_heading = "Addresses")]
    explorer: Option<SocketAddr>,

    /// An address for events and messages over HTTP (REST) alone [default: none]
    ///
    /// They are served on the address for AMQP as well, and over TLS on that for AMQP with TLS.
    /// Example: --http-ingress 127.0.0.1:8081
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = settings::address::parse, help_heading = "Addresses")]
    http_ingress: Option<SocketAddr>,

    /// An address for events and messages over HTTP (REST) with TLS alone [default: none]
    ///
    /// Example: --http-ingress-tls 127.0.0.1:8444
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = settings::address::parse, group = "encrypted", help_heading = "Addresses")]
    http_ingress_tls: Option<SocketAddr>,

    /// The address for clients of blob storage [default: none]
    ///
    /// The account is the development emulator's unless the file has `blob:`. With --data-dir, blobs survive
    /// restarts.
    /// Example: --blob 127.0.0.1:10000
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = settings::address::parse, help_heading = "Addresses")]
    blob: Option<SocketAddr>,

    /// The address for clients of blob storage with TLS [default: none]
    ///
    /// It serves the same account as --blob. Example: --blob-tls 127.0.0.1:10443
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = settings::address::parse, group = "encrypted", help_heading = "Addresses")]
    blob_tls: Option<SocketAddr>,

    #[command(flatten)]
    identity: IdentityArguments,

    /// Listen on other addresses than loopback even with a well-known key or without verification: anyone who can
    /// reach the address has full access. For containers and closed networks
    #[arg(long, help_heading = "Addresses")]
    open_to_anyone: bool,

    /// The directory with the TLS certificate and the authority for clients to trust (ca.pem); both are generated if
    /// missing [default: parshall-tls, or `tls` in --data-dir]
    ///
    /// Example: --tls-directory ~/.parshall/tls
    #[arg(
        long,
        value_name = "DIR",
        requires = "encrypted",
        conflicts_with = "certificate",
        help_heading = "TLS"
    )]
    tls_directory: Option<PathBuf>,

    /// Also write the authority (PEM) to this file, for clients to read
    ///
    /// Example: --tls-ca /shared/parshall-ca.pem
    #[arg(
        long,
        value_name = "FILE",
        requires = "encrypted",
        conflicts_with = "certificate",
        help_heading = "TLS"
    )]
    tls_ca: Option<PathBuf>,

    /// The certificate chain (PEM) for TLS, instead of a generated one
    ///
    /// Example: --certificate server.pem --key server.key
    #[arg(long, value_name = "FILE", requires_all = ["key", "encrypted"], help_heading = "TLS")]
    certificate: Option<PathBuf>,

    /// The private key (PEM) of the certificate
    #[arg(long, value_name = "FILE", requires = "certificate", help_heading = "TLS")]
    key: Option<PathBuf>,

    /// A hub and its number of partitions, from 1 to 32768 [4]. May be repeated [default: events:4, unless there is a queue
    /// or topic, or the data directory has been used before]
    ///
    /// Example: --hub orders:32 --hub audit
    #[arg(long, value_name = "NAME[:PARTITIONS]", help_heading = "Namespace")]
    hub: Vec<HubArgument>,

    /// A queue. May be repeated
    ///
    /// Example: --queue jobs --queue results
    #[arg(long, value_name = "NAME", help_heading = "Namespace")]
    queue: Vec<String>,

    /// A topic and its subscriptions, each of which receives every message. May be repeated
    ///
    /// Example: --topic news:all,audit
    #[arg(long, value_name = "NAME[:SUBSCRIPTION,...]", help_heading = "Namespace")]
    topic: Vec<TopicArgument>,

    /// The file that describes the namespace: hubs, queues, topics, limits, keys; or the Config.json of one of
    /// Microsoft's emulators
    ///
    /// Example: --config namespace.yaml
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["hub", "queue", "topic"],
        help_heading = "Namespace"
    )]
    config: Option<PathBuf>,

    /// Whether hubs are created for topics that Kafka clients ask for and that do not exist, while there are fewer than 1000
    /// hubs [default: on; with --config, as the file says, or off]
    ///
    /// Example: --kafka-auto-create off
    #[arg(long, value_enum, value_name = "on|off", hide_possible_values = true, help_heading = "Namespace")]
    kafka_auto_create: Option<Switch>,

    /// Partitions of topics that Kafka clients ask for, or create without saying how many, from 1 to 32768 [default: 4; with
    /// --config, as the file says]
    ///
    /// Kafka's own default is 1 (num.partitions).
    ///
    /// Example: --kafka-partitions 1
    #[arg(
        long,
        value_name = "COUNT",
        value_parser = clap::value_parser!(u16).range(1..=i64::from(hub::namespace::MAXIMUM_PARTITIONS)),
        help_heading = "Namespace"
    )]
    kafka_partitions: Option<u16>,

    /// The directory for hubs, queues, topics, events and messages, which then survive restarts; created if missing
    /// [default: none, all in memory]
    ///
    /// Everything in it is served; hubs, queues and topics from the command line or a file are created if missing.
    /// Only one process can use it at a time.
    /// Example: --data-dir /var/lib/parshall
    #[arg(long, value_name = "DIR", help_heading = "Data")]
    data_dir: Option<PathBuf>,

    /// When events and messages are synced to the device: `always` (before they are acknowledged), `os` (when the
    /// operating system flushes) or an interval [default: 50 ms]
    ///
    /// Killing the process loses nothing acknowledged, whatever the setting. Example: --sync always, --sync '20 ms'
    #[arg(long, value_name = "always|os|INTERVAL", requires = "data_dir", help_heading = "Data")]
    sync: Option<SyncPolicy>,

    #[command(flatten)]
    retention: RetentionArguments,

    /// Let tests advance the service's time (`parshall time advance 1h`, and over HTTP), so that locks, schedules, times to
    /// live, tokens, leases and retention act at once; needs loopback addresses, and no --data-dir
    #[arg(long, conflicts_with = "data_dir", help_heading = "Time")]
    time_control: bool,

    /// The form of what is announced once clients can connect: addresses and connection strings
    ///
    /// Example: --format json
    #[arg(long, value_enum, default_value_t = Format::Text, help_heading = "Readiness")]
    format: Format,

    /// Also write what is announced to this file once clients can connect, and remove it at the end
    ///
    /// The file appears complete, so that waiting until it exists is enough. Only its owner can read it, since it
    /// contains keys. Example: --ready-file service.json --format json
    #[arg(long, value_name = "FILE", help_heading = "Readiness")]
    ready_file: Option<PathBuf>,

    /// Stop when standard input ends, as it does when the process that holds its other end stops, however it does
    ///
    /// For programs that start a service and must not leave it behind, even if they are killed: they give it a pipe as
    /// standard input, and keep the pipe open. What comes through it is ignored.
    #[arg(long, conflicts_with = "command", help_heading = "Readiness")]
    stop_on_stdin_close: bool,

    /// A command to run with the service: it has the connection strings in its environment, the service stops when it
    /// ends, and the exit status is the command's
    ///
    /// Example: parshall serve --hub orders:4 -- pytest tests/
    #[arg(last = true, value_name = "COMMAND", help_heading = "Readiness")]
    command: Vec<OsString>,
}

/// Whether something is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Switch {
    /// It is.
    On,
    /// It is not.
    Off,
}

/// Serves until a signal asks it to stop, or the command ends.
pub(crate) fn execute(arguments: ServeArguments, quiet: bool) -> Result<Exit, CommandError> {
    logging::start(quiet || !arguments.command.is_empty())?;
    // As many threads as the process may use processors, which limits of its container or its affinity may reduce.
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(CommandError::System)?;
    runtime.block_on(serve(arguments))
}

async fn serve(arguments: ServeArguments) -> Result<Exit, CommandError> {
    let mut signals = StopSignals::listen()?;
    let input = arguments.stop_on_stdin_close.then(StandardInput::watch).transpose()?;
    let identity = arguments.identity;
    let ready_file = arguments.ready_file.map(ReadyFile::reserve).transpose()?;
    let storage = arguments.data_dir.map(|directory| StorageConfig {
        directory,
        options: StorageOptions { sync: arguments.sync.unwrap_or_default(), ..StorageOptions::default() },
    });
    let names_nothing = arguments.hub.is_empty() && arguments.queue.is_empty() && arguments.topic.is_empty();
    let mut source = match &arguments.config {
        Some(path) => NamespaceSource::read(path)?,
        None if names_nothing && storage.as_ref().is_none_or(StorageConfig::is_new) => {
            NamespaceSource::of_default_hub()
        }
        None => NamespaceSource::of_arguments(&arguments.hub, &arguments.queue, &arguments.topic),
    };
    if storage.is_some() {
        source.config_mut().storage = storage;
    }
    arguments.retention.apply(source.config_mut());
    let creates_topics = &mut source.config_mut().creates_topics;
    match arguments.kafka_auto_create {
        Some(switch) => *creates_topics = switch == Switch::On,
        // Who names no file expects what Kafka does without one.
        None => *creates_topics |= arguments.config.is_none(),
    }
    if let Some(partitions) = arguments.kafka_partitions {
        source.config_mut().topic_partitions = partitions;
    }
    let captures = Captures::of(&mut source, arguments.blob.is_some())?;
    let amqps = match arguments.tls {
        true => Some(SocketAddr::new(arguments.amqp.ip(), AMQPS_PORT)),
        false => arguments.amqps,
    };
    let (mut authority, mut certificate_expiry) = (None, None);
    let encrypted = amqps
        .or(arguments.websocket_tls)
        .or(arguments.kafka_tls)
        .or(arguments.http_ingress_tls)
        .or(arguments.blob_tls)
        .or(identity.dev_identity_tls);
    let certificate = match encrypted {
        None => None,
        Some(_) => {
            let server = match (&arguments.certificate, &arguments.key) {
                (Some(certificate), Some(key)) => {
                    certificate_expiry = tls::expiry(certificate)?;
                    tls::load(certificate, key)?
                }
                _ => {
                    let config = source.config();
                    if let Some(storage) = &config.storage {
                        // Before the certificate gets a folder in it, so that it has the right mode.
                        make_data_directory(storage)?;
                    }
                    let directory = match (arguments.tls_directory, &config.storage) {
                        (Some(directory), _) => directory,
                        (None, Some(storage)) => storage.tls_directory(),
                        (None, None) => PathBuf::from(TLS_DIRECTORY),
                    };
                    let development = tls::development(&directory, &config.host)?;
                    if let Some(copy) = &arguments.tls_ca {
                        development.copy_authority(copy)?;
                    }
                    certificate_expiry = tls::expiry(&development.certificate)?;
                    authority = Some(development.authority);
                    development.server
                }
            };
            Some(server)
        }
    };
    let mut listeners = vec![
        Listener::plain(Protocol::Amqp, arguments.amqp),
        Listener::plain(Protocol::Operations, arguments.http),
    ];
    for (protocol, plain, encrypted) in [
        (Protocol::Amqp, None, amqps),
        (Protocol::AmqpWebSocket, arguments.websocket, arguments.websocket_tls),
        (Protocol::Kafka, arguments.kafka, arguments.kafka_tls),
        (Protocol::Rest, arguments.http_ingress, arguments.http_ingress_tls),
        (Protocol::Blob, arguments.blob, arguments.blob_tls),
        (Protocol::Identity, identity.dev_identity, identity.dev_identity_tls),
        (Protocol::Explorer, arguments.explorer, None),
    ] {
        listeners.extend(plain.map(|address| Listener::plain(protocol, address)));
        let encrypted = encrypted.zip(certificate.clone());
        listeners.extend(encrypted.map(|(address, tls)| Listener { protocol, address, tls: Some(tls) }));
    }
    let config = ServiceConfig {
        namespace: source.config().clone(),
        listeners,
        development_identity: identity.config(),
        open_to_anyone: arguments.open_to_anyone,
        certificate_expiry,
        clock: match arguments.time_control {
            true => ClockKind::Controlled,
            false => ClockKind::Machine,
        },
    };
    let service = Service::start(config).await.map_err(|error| match error {
        StartError::Namespace(error) => source.mistake(&error),
        error => error.into(),
    })?;
    let capturing = captures.start(&service);
    let telemetry = OpenTelemetry::start("parshall-service", &METRICS_ALONE, Page(service.metrics()))?;
    let storage = source.config().storage.as_ref();
    let announcement =
        Announcement::of(&service, authority.as_deref(), storage, identity.dev_identity_authority);
    let text = announcement.render(arguments.format);
    // Before it is announced, so that whoever has read the announcement finds the file.
    let ready = ready_file.map(|file| file.write(&text)).transpose()?;
    if arguments.command.is_empty() {
        output::print(&text)?;
    }
    let exit = match arguments.command.as_slice() {
        [] => {
            tokio::select! {
                _ = signals.next() => {}
                () = standard_input::end(input) => tracing::info!("standard input has ended"),
            }
            Ok(Exit::Passed)
        }
        command => command::run(command, announcement.variables(), &mut signals).await,
    };
    drop(ready);
    tracing::info!("stopping");
    let captured = capturing.stop().await;
    let last_page = service.metrics().open_metrics().await;
    service.stop().await;
    telemetry.shut_down_patiently(Some(last_page), &mut signals).await;
    captured.and(exit)
}

/// The metrics of a service, for those who export them.
#[derive(Debug)]
struct Page(ServiceMetrics);

impl MetricsPage for Page {
    async fn page(&self) -> Option<String> {
        Some(self.0.open_metrics().await)
    }
}

fn make_data_directory(storage: &StorageConfig) -> Result<(), CommandError> {
    storage.make_directory().map_err(|error| CommandError::Unavailable {
        message: format!("the data directory {} can't be created: {error}", storage.directory.display()),
    })
}

impl From<StartError> for CommandError {
    fn from(error: StartError) -> Self {
        let message = error.to_string();
        match error {
            StartError::Listen { protocol, security, address, source } => {
                let advice = listening::advice(&source, address, option_of(protocol, security));
                Self::Listen { message, advice }
            }
            StartError::Blobs { .. } | StartError::Container { .. } => Self::Unavailable { message },
            StartError::OpenToAnyone {
                openness: Openness::DevelopmentIdentity | Openness::Explorer, ..
            } => {
                let advice = "listen on a loopback address, or allow it with --open-to-anyone".to_owned();
                Self::Usage { message, advice: Some(advice) }
            }
            StartError::OpenToAnyone { .. } => {
                let advice = "give --config a file with your own keys, listen on a loopback address, or allow it with \
                              --open-to-anyone"
                    .to_owned();
                Self::Usage { message, advice: Some(advice) }
            }
            StartError::Issuer(_) => Self::Unavailable { message },
            StartError::TimeBeyondLoopback { protocol, security, .. } => {
                let option = option_of(protocol, security).trim_end();
                let advice = format!(
                    "give {option} a loopback address such as 127.0.0.1, or leave out --time-control"
                );
                Self::Usage { message, advice: Some(advice) }
            }
            StartError::TimeOfKeptData { .. } => {
                let advice = "leave out --data-dir or --time-control".to_owned();
                Self::Usage { message, advice: Some(advice) }
            }
            StartError::Namespace(_)
            | StartError::Tls(_)
            | StartError::WithoutAmqp
            | StartError::WithoutIssuer
            | StartError::WithoutTls { .. } => Self::Usage { message, advice: None },
        }
    }
}

impl From<TlsError> for CommandError {
    fn from(error: TlsError) -> Self {
        let message = error.to_string();
        match error {
            TlsError::File { .. } => Self::Unavailable { message },
            TlsError::Pem { .. }
            | TlsError::Pair { .. }
            | TlsError::Incomplete { .. }
            | TlsError::Unfit { .. }
            | TlsError::Taken { .. }
            | TlsError::Making { .. } => Self::Usage { message, advice: None },
        }
    }
}

/// The option that names an address, up to the address.
const fn option_of(protocol: Protocol, security: TransportSecurity) -> &'static str {
    match (protocol, security) {
        (Protocol::Amqp, TransportSecurity::Plain) => "--amqp ",
        (Protocol::Amqp, TransportSecurity::Tls) => "--amqps ",
        (Protocol::AmqpWebSocket, TransportSecurity::Plain) => "--websocket ",
        (Protocol::AmqpWebSocket, TransportSecurity::Tls) => "--websocket-tls ",
        (Protocol::Kafka, TransportSecurity::Plain) => "--kafka ",
        (Protocol::Kafka, TransportSecurity::Tls) => "--kafka-tls ",
        (Protocol::Rest, TransportSecurity::Plain) => "--http-ingress ",
        (Protocol::Rest, TransportSecurity::Tls) => "--http-ingress-tls ",
        (Protocol::Blob, TransportSecurity::Plain) => "--blob ",
        (Protocol::Blob, TransportSecurity::Tls) => "--blob-tls ",
        (Protocol::Identity, TransportSecurity::Plain) => "--dev-identity ",
        (Protocol::Identity, TransportSecurity::Tls) => "--dev-identity-tls ",
        (Protocol::Operations, _) => "--http ",
        (Protocol::Explorer, _) => "--explorer ",
    }
}

const TLS_DIRECTORY: &str = "parshall-tls";

/// Where the command of a service finds it.
const ANY_PORT: &str = "127.0.0.1:0";

/// The registered port, the only one that older clients know.
const AMQPS_PORT: u16 = 5671;
