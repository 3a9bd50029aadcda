//! From the first byte to open (specification sections 2.2, 2.4 and 5.3).
//!
//! ```text
//! client  SASL header ─▶ mechanisms ─▶ init ─▶ outcome ─▶ AMQP header + open ─▶ header, open
//! server  SASL or AMQP header ─▶ mechanisms ─▶ init ─▶ outcome ─▶ AMQP header ─▶ open
//! ```
//!
//! The client sends AMQP header and open together as soon as it is authenticated;
//! the server takes whatever a client pipelines.

use std::time::Instant;

use super::{Config, Connection, ConnectionError, Credentials, Event, SaslClient, SaslServer};
use crate::codec::{Reader, Symbol};
use crate::frame::{self, FrameHeader, PROTOCOL_AMQP, PROTOCOL_SASL};
use crate::performative::{Open, SaslCode, SaslInit, SaslMechanisms, SaslOutcome, descriptor};

/// Where the connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Client: the server's SASL header is awaited.
    ClientSaslHeader,
    /// Client: the mechanisms are awaited.
    ClientMechanisms,
    /// Client: the outcome is awaited.
    ClientOutcome,
    /// Server: the client's first header is awaited, SASL or AMQP.
    ServerHeader,
    /// Server: the client's choice of mechanism is awaited.
    ServerInit,
    /// The AMQP header is awaited.
    AmqpHeader,
    /// The peer's open is awaited.
    AwaitOpen,
    /// Both have opened.
    Open,
    /// Our close has gone out.
    CloseSent,
    /// Over.
    Closed,
}

impl Stage {
    pub(super) const fn expects_header(self) -> bool {
        matches!(self, Self::ClientSaslHeader | Self::ServerHeader | Self::AmqpHeader)
    }

    pub(super) const fn expects_sasl(self) -> bool {
        matches!(self, Self::ClientMechanisms | Self::ClientOutcome | Self::ServerInit)
    }
}

/// What belongs to one side of the handshake only.
#[derive(Debug)]
pub(super) enum Side {
    Client(SaslClient),
    Server(SaslServer),
}

impl Connection {
    /// The client side of a connection.
    pub fn client(config: Config, sasl: SaslClient, now: Instant) -> Self {
        let mut connection = match sasl {
            SaslClient::None => Self::new(config, Side::Client(sasl), Stage::AmqpHeader, now),
            _ => Self::new(config, Side::Client(sasl), Stage::ClientSaslHeader, now),
        };
        if connection.stage == Stage::AmqpHeader {
            connection.write_header_and_open();
        } else {
            connection.output.bytes.extend_from_slice(&PROTOCOL_SASL);
        }
        connection
    }

    /// The server side of a connection.
    pub fn server(config: Config, sasl: SaslServer, now: Instant) -> Self {
        Self::new(config, Side::Server(sasl), Stage::ServerHeader, now)
    }

    pub(super) fn on_protocol_header(&mut self, header: [u8; 8]) -> Result<(), ConnectionError> {
        match (self.stage, header) {
            (Stage::ClientSaslHeader, PROTOCOL_SASL) => self.stage = Stage::ClientMechanisms,
            (Stage::ServerHeader, PROTOCOL_SASL) => {
                self.output.bytes.extend_from_slice(&PROTOCOL_SASL);
                let offer = SaslMechanisms { mechanisms: vec![ANONYMOUS, MSSBCBS, PLAIN] };
                frame::write_frame(&mut self.output.bytes, frame::TYPE_SASL, 0, |out| offer.encode(out));
                self.stage = Stage::ServerInit;
            }
            (Stage::ServerHeader, PROTOCOL_AMQP) => {
                self.authenticate(Credentials::Anonymous)
                    .inspect_err(|_| self.output.bytes.extend_from_slice(&PROTOCOL_SASL))?;
                self.write_header_and_open();
                self.stage = Stage::AwaitOpen;
            }
            (Stage::AmqpHeader, PROTOCOL_AMQP) => {
                if matches!(self.side, Side::Server(_)) {
                    self.write_header_and_open();
                }
                self.stage = Stage::AwaitOpen;
            }
            (_, header) => {
                self.answer_with_header();
                return Err(ConnectionError::ProtocolHeader(header));
            }
        }
        Ok(())
    }

    pub(super) fn on_other_protocol(&mut self, first: [u8; 4]) -> ConnectionError {
        self.answer_with_header();
        ConnectionError::NotAmqp(first)
    }

    /// The specification has a server answer with the header that it would have liked.
    fn answer_with_header(&mut self) {
        if self.stage == Stage::ServerHeader {
            self.output.bytes.extend_from_slice(&PROTOCOL_SASL);
        }
    }

    pub(super) fn on_sasl_frame(&mut self, header: &FrameHeader, body: &[u8]) -> Result<(), ConnectionError> {
        if header.kind != frame::TYPE_SASL {
            return Err(ConnectionError::FrameType(header.kind));
        }
        let mut reader = Reader::new(body);
        let descriptor = reader.descriptor()?;
        match (self.stage, descriptor) {
            (Stage::ClientMechanisms, descriptor::SASL_MECHANISMS) => {
                let offer = SaslMechanisms::decode(&mut reader)?;
                self.choose_mechanism(&offer)
            }
            (Stage::ClientOutcome, descriptor::SASL_OUTCOME) => {
                match SaslOutcome::decode(&mut reader)?.code {
                    SaslCode::Ok => {
                        self.stage = Stage::AmqpHeader;
                        self.write_header_and_open();
                        Ok(())
                    }
                    code => Err(ConnectionError::SaslRefused(code)),
                }
            }
            (Stage::ServerInit, descriptor::SASL_INIT) => {
                let init = SaslInit::decode(&mut reader)?;
                let verdict = credentials_of(&init).ok_or(ConnectionError::SaslRefused(SaslCode::Auth));
                let verdict = verdict.and_then(|credentials| self.authenticate(credentials));
                let code = if verdict.is_ok() { SaslCode::Ok } else { SaslCode::Auth };
                frame::write_frame(&mut self.output.bytes, frame::TYPE_SASL, 0, |out| {
                    SaslOutcome { code }.encode(out)
                });
                self.stage = Stage::AmqpHeader;
                verdict
            }
            _ => Err(ConnectionError::UnexpectedPerformative { descriptor, place: "in the SASL layer" }),
        }
    }

    pub(super) fn on_open(&mut self, open: Open) {
        self.remote_max_frame_size = open.max_frame_size.max(frame::MIN_MAX_FRAME_SIZE);
        self.remote_channel_max = open.channel_max;
        self.remote_idle_timeout = open.idle_timeout;
        self.remote_product = open.property("product").map(str::to_owned);
        self.stage = Stage::Open;
        self.push(Event::Opened(Box::new(open)));
    }

    /// Header and open go out together on both sides, so where the header went out the open did too.
    pub(super) fn write_open_if_owed(&mut self) {
        if !self.open_sent {
            self.write_header_and_open();
        }
    }

    fn write_header_and_open(&mut self) {
        self.open_sent = true;
        self.output.bytes.extend_from_slice(&PROTOCOL_AMQP);
        let open = Open {
            container_id: self.config.container_id.clone(),
            hostname: self.config.hostname.clone(),
            max_frame_size: self.config.max_frame_size,
            channel_max: self.config.channel_max,
            idle_timeout: self.config.idle_timeout,
            properties: self.config.properties.clone(),
            ..Open::default()
        };
        frame::write_frame(&mut self.output.bytes, frame::TYPE_AMQP, 0, |out| open.encode(out));
    }

    fn choose_mechanism(&mut self, offer: &SaslMechanisms) -> Result<(), ConnectionError> {
        let Side::Client(sasl) = &self.side else {
            return Err(ConnectionError::NoSaslMechanism(String::new()));
        };
        let (mechanism, response) = match sasl {
            SaslClient::None | SaslClient::Anonymous => (ANONYMOUS, Some(Vec::new())),
            SaslClient::Mssbcbs => (MSSBCBS, Some(Vec::new())),
            SaslClient::Plain { username, password } => {
                (PLAIN, Some([&b""[..], username.as_bytes(), password.as_bytes()].join(&0)))
            }
        };
        if !offer.mechanisms.contains(&mechanism) {
            let offered: Vec<_> = offer.mechanisms.iter().map(Symbol::as_str).collect();
            return Err(ConnectionError::NoSaslMechanism(offered.join(", ")));
        }
        let init = SaslInit { mechanism, initial_response: response, hostname: self.config.hostname.clone() };
        frame::write_frame(&mut self.output.bytes, frame::TYPE_SASL, 0, |out| init.encode(out));
        self.stage = Stage::ClientOutcome;
        Ok(())
    }

    fn authenticate(&mut self, credentials: Credentials) -> Result<(), ConnectionError> {
        let Side::Server(sasl) = &self.side else {
            return Ok(());
        };
        if !(sasl.verify)(&credentials) {
            return Err(ConnectionError::SaslRefused(SaslCode::Auth));
        }
        self.credentials = Some(credentials);
        Ok(())
    }
}

/// What a client showed; `None` where it is of no mechanism of ours or malformed.
fn credentials_of(init: &SaslInit) -> Option<Credentials> {
    if init.mechanism == ANONYMOUS || init.mechanism == MSSBCBS {
        return Some(Credentials::Anonymous);
    }
    if init.mechanism != PLAIN {
        return None;
    }
    // authorisation identity NUL authentication identity NUL password (RFC 4616)
    let response = init.initial_response.as_deref()?;
    let mut parts = response.splitn(3, |byte| *byte == 0);
    let (_, username, password) = (parts.next()?, parts.next()?, parts.next()?);
    Some(Credentials::Plain {
        username: std::str::from_utf8(username).ok()?.to_owned(),
        password: std::str::from_utf8(password).ok()?.to_owned(),
    })
}

const ANONYMOUS: Symbol = Symbol::from_static("ANONYMOUS");
const MSSBCBS: Symbol = Symbol::from_static("MSSBCBS");
const PLAIN: Symbol = Symbol::from_static("PLAIN");
