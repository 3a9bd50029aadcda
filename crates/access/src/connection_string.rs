//! The text that a person copies from a portal, or from `parshall serve`, to connect.
//!
//! `Endpoint=sb://host[:port]/;SharedAccessKeyName=…;SharedAccessKey=…[;EntityPath=…][;UseDevelopmentEmulator=true]`
//!
//! or, where the right to use it is an identity's and no key is written down, the name of the namespace alone:
//!
//! `host[:port][;EntityPath=…][;UseDevelopmentEmulator=true]`, the same as
//! `Endpoint=sb://host[:port]/;Authentication=DefaultAzureCredential[;…]`
//!
//! Key names are case-insensitive and may come in any order. A value reaches to the next semicolon, so it may
//! contain equals signs. Errors name the key, or the position of a part whose key is not known, and never any
//! value: the part may be the tail of a secret.

use crate::{Endpoint, EndpointError, Secret, ServiceAddress, SharedAccessKey, TransportSecurity};
use std::str::FromStr;

/// A connection string, read. `Debug` hides the secret; [`reveal`](Self::reveal) writes it out again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionString {
    /// The namespace.
    pub endpoint: Endpoint,
    /// What proves the right to use it.
    pub credential: Credential,
    /// The hub, where the string is for one only.
    pub entity_path: Option<String>,
    /// [`Plain`](TransportSecurity::Plain) for strings that say `UseDevelopmentEmulator=true`.
    pub security: TransportSecurity,
}

/// What a connection string authorizes with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credential {
    /// A key, which signs tokens whenever one is needed.
    Key(SharedAccessKey),
    /// A ready token, which can't be renewed.
    Signature(Secret),
    /// Bearer tokens of Microsoft Entra ID, for the identity that the process has.
    Identity,
}

/// Why a text is not a connection string. Contains no value of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectionStringError {
    /// A part has no equals sign.
    #[error("part {position} of the connection string is not of the form key=value")]
    NotAPair {
        /// Counted from one, parts being separated by semicolons.
        position: usize,
    },
    /// A part's key is none of those that exist.
    #[error("part {position} of the connection string has an unknown key; known are {}", Part::list())]
    UnknownKey {
        /// Counted from one, parts being separated by semicolons.
        position: usize,
    },
    /// A key is there twice.
    #[error("the connection string has {key} twice")]
    Repeated {
        /// Its name.
        key: &'static str,
    },
    /// A needed key is absent.
    #[error("the connection string has no {key}")]
    Missing {
        /// Its name.
        key: &'static str,
    },
    /// A value is empty.
    #[error("{key} in the connection string is empty")]
    Empty {
        /// Its name.
        key: &'static str,
    },
    /// Two keys exclude one another.
    #[error("the connection string has both {one} and {other}; it can have one of them")]
    Conflict {
        /// One name.
        one: &'static str,
        /// The other.
        other: &'static str,
    },
    /// The endpoint can't be read.
    #[error("Endpoint in the connection string can't be used: {0}")]
    Endpoint(#[from] EndpointError),
    /// Some other kind of authentication than that by tokens of the process's identity.
    #[error(
        "Authentication in the connection string is not {DEFAULT_AZURE_CREDENTIAL}, the one kind there is"
    )]
    Authentication,
    /// Tokens would travel where others can read them.
    #[error(
        "{host} would be sent bearer tokens without TLS; UseDevelopmentEmulator=true goes with an identity only on this \
         machine's loopback addresses"
    )]
    UnprotectedToken {
        /// The host.
        host: String,
    },
    /// A switch is neither on nor off.
    #[error("{key} in the connection string is neither true nor false")]
    NotABoolean {
        /// Its name.
        key: &'static str,
    },
}

impl ConnectionString {
    /// A namespace by its name, to be used with bearer tokens of the process's identity: `host[:port]`, perhaps with
    /// `;UseDevelopmentEmulator=true` for plain TCP, which only loopback addresses may have.
    ///
    /// # Errors
    /// What is wrong with it, such as that it is a connection string with a key.
    pub fn of_namespace(text: &str) -> Result<Self, ConnectionStringError> {
        let name = text.trim().split(';').next().unwrap_or_default();
        if name.contains('=') {
            return Err(EndpointError::Host.into());
        }
        text.parse()
    }

    /// Where and how to connect for AMQP: the endpoint's port, else 5671 with TLS or 5672 without.
    #[must_use]
    pub fn amqp_address(&self) -> ServiceAddress {
        self.endpoint.amqp_address(self.security)
    }

    /// Where clients connect that speak AMQP over WebSocket.
    #[must_use]
    pub fn web_socket_address(&self) -> ServiceAddress {
        self.endpoint.web_socket_address(self.security)
    }

    /// The whole text, secret included, ready to paste.
    #[must_use]
    pub fn reveal(&self) -> String {
        let mut text = format!("{}={}", Part::Endpoint.name(), self.endpoint);
        let mut add = |part: Part, value: &str| {
            text.push(';');
            text.push_str(part.name());
            text.push('=');
            text.push_str(value);
        };
        match &self.credential {
            Credential::Key(key) => {
                add(Part::SharedAccessKeyName, key.name());
                add(Part::SharedAccessKey, key.value().reveal());
            }
            Credential::Signature(token) => add(Part::SharedAccessSignature, token.reveal()),
            Credential::Identity => add(Part::Authentication, DEFAULT_AZURE_CREDENTIAL),
        }
        if let Some(entity_path) = &self.entity_path {
            add(Part::EntityPath, entity_path);
        }
        if self.security == TransportSecurity::Plain {
            add(Part::UseDevelopmentEmulator, "true");
        }
        text
    }
}

impl FromStr for ConnectionString {
    type Err = ConnectionStringError;

    fn from_str(text: &str) -> Result<Self, ConnectionStringError> {
        if let Some(name) = namespace_name(text) {
            let rest = text.trim().strip_prefix(name).unwrap_or_default();
            let endpoint = Part::Endpoint.name();
            let authentication = Part::Authentication.name();
            return format!("{endpoint}=sb://{name};{authentication}={DEFAULT_AZURE_CREDENTIAL}{rest}")
                .parse();
        }
        let mut values = Values::read(text)?;
        let endpoint: Endpoint = values.required(Part::Endpoint)?.parse()?;
        let name = values.take(Part::SharedAccessKeyName);
        let value = values.take(Part::SharedAccessKey);
        let signature = values.take(Part::SharedAccessSignature);
        let keys = [
            (Part::SharedAccessKeyName, name.is_some()),
            (Part::SharedAccessKey, value.is_some()),
            (Part::SharedAccessSignature, signature.is_some()),
        ];
        let key = keys.into_iter().find_map(|(part, is_there)| is_there.then(|| part.name()));
        let authentication = values.take(Part::Authentication);
        let credential = match signature {
            _ if authentication.is_some() => match (authentication, key) {
                (_, Some(other)) => {
                    return Err(ConnectionStringError::Conflict { one: Part::Authentication.name(), other });
                }
                (Some(kind), None) if kind.eq_ignore_ascii_case(DEFAULT_AZURE_CREDENTIAL) => {
                    Credential::Identity
                }
                _ => return Err(ConnectionStringError::Authentication),
            },
            Some(_) if value.is_some() => {
                let [one, other] = [Part::SharedAccessKey.name(), Part::SharedAccessSignature.name()];
                return Err(ConnectionStringError::Conflict { one, other });
            }
            Some(token) => Credential::Signature(token.into()),
            None => {
                let name = name.ok_or_else(|| Part::SharedAccessKeyName.missing())?;
                let value = value.ok_or_else(|| Part::SharedAccessKey.missing())?;
                Credential::Key(SharedAccessKey::new(name, value))
            }
        };
        let security = match values.take(Part::UseDevelopmentEmulator) {
            None => TransportSecurity::Tls,
            Some(flag) if flag.eq_ignore_ascii_case("true") => TransportSecurity::Plain,
            Some(flag) if flag.eq_ignore_ascii_case("false") => TransportSecurity::Tls,
            Some(_) => {
                return Err(ConnectionStringError::NotABoolean { key: Part::UseDevelopmentEmulator.name() });
            }
        };
        if credential == Credential::Identity
            && security == TransportSecurity::Plain
            && !endpoint.is_loopback()
        {
            return Err(ConnectionStringError::UnprotectedToken { host: endpoint.host().to_owned() });
        }
        let entity_path = values.take(Part::EntityPath).map(str::to_owned);
        Ok(Self { endpoint, credential, entity_path, security })
    }
}

/// The name of a namespace at the beginning of a text that is not a list of keys and values alone. Names have a dot, a port, or are
/// `localhost`: a secret without its key's name, which is a mistake that people make, has none of these.
fn namespace_name(text: &str) -> Option<&str> {
    let name = text.trim().split(';').next()?.trim();
    let is_name = name == "localhost" || name.contains(['.', ':']);
    let is_host = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte));
    (is_name && is_host).then_some(name)
}

/// The kind of authentication by the identity that the process has, as the official libraries call it.
const DEFAULT_AZURE_CREDENTIAL: &str = "DefaultAzureCredential";

/// The parts that exist, by their keys.
#[derive(Clone, Copy)]
enum Part {
    Endpoint,
    SharedAccessKeyName,
    SharedAccessKey,
    SharedAccessSignature,
    EntityPath,
    UseDevelopmentEmulator,
    Authentication,
}

impl Part {
    const EVERY: [Self; 7] = [
        Self::Endpoint,
        Self::SharedAccessKeyName,
        Self::SharedAccessKey,
        Self::SharedAccessSignature,
        Self::EntityPath,
        Self::UseDevelopmentEmulator,
        Self::Authentication,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Endpoint => "Endpoint",
            Self::SharedAccessKeyName => "SharedAccessKeyName",
            Self::SharedAccessKey => "SharedAccessKey",
            Self::SharedAccessSignature => "SharedAccessSignature",
            Self::EntityPath => "EntityPath",
            Self::UseDevelopmentEmulator => "UseDevelopmentEmulator",
            Self::Authentication => "Authentication",
        }
    }

    fn list() -> String {
        Self::EVERY.map(Self::name).join(", ")
    }

    fn missing(self) -> ConnectionStringError {
        ConnectionStringError::Missing { key: self.name() }
    }
}

/// The parts of a text, sorted by key.
struct Values<'a> {
    by_key: [Option<&'a str>; Part::EVERY.len()],
}

impl<'a> Values<'a> {
    fn read(text: &'a str) -> Result<Self, ConnectionStringError> {
        let mut by_key = [None; Part::EVERY.len()];
        for (index, part) in text.split(';').enumerate().filter(|(_, part)| !part.trim().is_empty()) {
            let position = index + 1;
            let (name, value) = part.split_once('=').ok_or(ConnectionStringError::NotAPair { position })?;
            let known = Part::EVERY
                .into_iter()
                .find(|known| known.name().eq_ignore_ascii_case(name.trim()))
                .ok_or(ConnectionStringError::UnknownKey { position })?;
            let value = value.trim();
            if value.is_empty() {
                return Err(ConnectionStringError::Empty { key: known.name() });
            }
            if by_key[known as usize].replace(value).is_some() {
                return Err(ConnectionStringError::Repeated { key: known.name() });
            }
        }
        Ok(Self { by_key })
    }

    fn take(&mut self, part: Part) -> Option<&'a str> {
        self.by_key[part as usize].take()
    }

    fn required(&mut self, part: Part) -> Result<&'a str, ConnectionStringError> {
        self.take(part).ok_or_else(|| part.missing())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const EMULATOR: &str = "Endpoint=sb://localhost;SharedAccessKeyName=RootManageSharedAccessKey;\
        SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;";

    fn refusal(text: &str) -> ConnectionStringError {
        text.parse::<ConnectionString>().unwrap_err()
    }

    #[test]
    fn the_emulators_string_means_plain_tcp_on_the_default_port() {
        let parsed: ConnectionString = EMULATOR.parse().unwrap();
        let address =
            ServiceAddress { host: "localhost".into(), port: 5672, security: TransportSecurity::Plain };
        assert_eq!(parsed.amqp_address(), address);
        let key = SharedAccessKey::new(crate::ROOT_KEY_NAME, crate::DEVELOPMENT_KEY_VALUE);
        assert_eq!(parsed.credential, Credential::Key(key));
        assert_eq!(parsed.entity_path, None);
    }

    #[test]
    fn a_namespace_string_means_tls_and_its_key_keeps_its_equals_signs() {
        let parsed: ConnectionString = "endpoint=sb://ns.servicebus.windows.net/;SHAREDACCESSKEYNAME=send;\
            sharedAccessKey=Zm9v+/==;EntityPath=hub"
            .parse()
            .unwrap();
        assert_eq!(parsed.amqp_address().security, TransportSecurity::Tls);
        assert_eq!(parsed.amqp_address().port, 5671);
        assert_eq!(parsed.credential, Credential::Key(SharedAccessKey::new("send", "Zm9v+/==")));
        assert_eq!(parsed.entity_path.as_deref(), Some("hub"));
    }

    #[test]
    fn a_named_port_wins_over_either_default() {
        let text = EMULATOR.replace("localhost", "localhost:15672");
        assert_eq!(text.parse::<ConnectionString>().unwrap().amqp_address().port, 15672);
    }

    #[test]
    fn a_ready_token_takes_the_place_of_a_key() {
        let text = "Endpoint=sb://ns/;SharedAccessSignature=SharedAccessSignature sr=a&sig=b%3D&se=1&skn=c";
        let parsed: ConnectionString = text.parse().unwrap();
        assert_eq!(
            parsed.credential,
            Credential::Signature("SharedAccessSignature sr=a&sig=b%3D&se=1&skn=c".into())
        );
        assert_eq!(parsed.reveal(), text);
    }

    #[test]
    fn the_name_of_a_namespace_means_the_identity_of_the_process() {
        let azure = ConnectionString::of_namespace("ns.servicebus.windows.net").unwrap();
        assert_eq!(azure.credential, Credential::Identity);
        assert_eq!((azure.amqp_address().port, azure.security), (5671, TransportSecurity::Tls));
        assert_eq!(
            azure.reveal(),
            "Endpoint=sb://ns.servicebus.windows.net/;Authentication=DefaultAzureCredential"
        );
        assert_eq!(azure.reveal().parse(), Ok(azure));
        let here =
            ConnectionString::of_namespace("localhost:5679;EntityPath=orders;UseDevelopmentEmulator=true");
        let here = here.unwrap();
        assert_eq!((here.amqp_address().port, here.security), (5679, TransportSecurity::Plain));
        assert_eq!(here.entity_path.as_deref(), Some("orders"));
        assert_eq!(here.reveal().parse(), Ok(here));
        assert_eq!(ConnectionString::of_namespace("[::1]:5672").unwrap().endpoint.host(), "::1");
    }

    #[test]
    fn an_identity_goes_neither_with_a_key_nor_over_a_network_without_tls() {
        let identity = "Endpoint=sb://ns.example.com/;Authentication=defaultazurecredential";
        assert_eq!(identity.parse::<ConnectionString>().unwrap().credential, Credential::Identity);
        for other in ["SharedAccessKey", "SharedAccessKeyName", "SharedAccessSignature"] {
            let conflict = ConnectionStringError::Conflict { one: "Authentication", other };
            assert_eq!(refusal(&format!("{identity};{other}=x")), conflict);
        }
        assert_eq!(refusal("Endpoint=sb://ns/;Authentication=hush"), ConnectionStringError::Authentication);
        let plain = refusal(&format!("{identity};UseDevelopmentEmulator=true"));
        assert_eq!(plain, ConnectionStringError::UnprotectedToken { host: "ns.example.com".to_owned() });
        let key = ConnectionString::of_namespace(EMULATOR).unwrap_err();
        assert_eq!(key, EndpointError::Host.into());
        for mistake in ["c2VjcmV0", "ns.example.com/hub", "hush"] {
            assert!(mistake.parse::<ConnectionString>().is_err(), "{mistake}");
        }
    }

    #[test]
    fn errors_say_which_key_is_wrong() {
        assert_eq!(refusal(""), ConnectionStringError::Missing { key: "Endpoint" });
        let no_key = "Endpoint=sb://ns/;SharedAccessKeyName=a";
        assert_eq!(refusal(no_key), ConnectionStringError::Missing { key: "SharedAccessKey" });
        let no_name = "Endpoint=sb://ns/;SharedAccessKey=a";
        assert_eq!(refusal(no_name), ConnectionStringError::Missing { key: "SharedAccessKeyName" });
        let empty = EMULATOR.replace("SAS_KEY_VALUE", " ");
        assert_eq!(refusal(&empty), ConnectionStringError::Empty { key: "SharedAccessKey" });
        let twice = format!("{EMULATOR}endpoint=sb://other/");
        assert_eq!(refusal(&twice), ConnectionStringError::Repeated { key: "Endpoint" });
        let both = format!("{EMULATOR}SharedAccessSignature=x");
        let conflict =
            ConnectionStringError::Conflict { one: "SharedAccessKey", other: "SharedAccessSignature" };
        assert_eq!(refusal(&both), conflict);
        let neither = EMULATOR.replace("=true", "=maybe");
        assert_eq!(refusal(&neither), ConnectionStringError::NotABoolean { key: "UseDevelopmentEmulator" });
        assert_eq!(refusal(&EMULATOR.replace("sb:", "http:")), EndpointError::Scheme.into());
        assert_eq!(refusal(&format!("{EMULATOR}hush")), ConnectionStringError::NotAPair { position: 5 });
    }

    #[test]
    fn neither_errors_nor_debug_output_show_a_secret() {
        for text in [
            EMULATOR.replace("SAS_KEY_VALUE", "se;hush=cret"),
            EMULATOR.replace("SAS_KEY_VALUE", "se;hush"),
            EMULATOR.replace("SharedAccessKey=SAS", "SharedAccessKe=hush"),
            EMULATOR.replace("SharedAccessKey=SAS_KEY_VALUE", "SharedAccessKey=hush;SharedAccessKey=hush"),
        ] {
            let error = refusal(&text);
            assert!(!format!("{error} {error:?}").contains("hush"), "{error}");
        }
        let parsed: ConnectionString = EMULATOR.replace("SAS_KEY_VALUE", "hush").parse().unwrap();
        assert!(!format!("{parsed:?}").contains("hush"));
        assert!(parsed.reveal().contains("hush"));
    }

    proptest! {
        #[test]
        fn what_is_revealed_reads_back_the_same(
            host in "[a-z][a-z0-9.-]{0,30}",
            port in proptest::option::of(1_u16..),
            name in "[!-:<-~]{1,20}",
            value in "[!-:<-~]{1,60}",
            entity_path in proptest::option::of("[a-z0-9][a-z0-9._/-]{0,20}"),
            plain: bool,
        ) {
            let original = ConnectionString {
                endpoint: Endpoint::new(host, port).unwrap(),
                credential: Credential::Key(SharedAccessKey::new(name, value)),
                entity_path,
                security: if plain { TransportSecurity::Plain } else { TransportSecurity::Tls },
            };
            prop_assert_eq!(original.reveal().parse::<ConnectionString>(), Ok(original));
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "((Endpoint|SharedAccessKey|EntityPath)?=?(sb://)?\\PC{0,10};?){0,6}") {
            let _ = text.parse::<ConnectionString>();
        }
    }
}
