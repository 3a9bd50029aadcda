//! Access: who may do what with which entity of a namespace.
//!
//! Both sides of the wire need the same few rules, so they live here once: the service verifies what a client
//! presents, the client signs what it presents.
//!
//! * [`ConnectionString`] is what a person copies and pastes: endpoint, key, entity. It says where to connect
//!   and with which [`Credential`].
//! * [`SharedAccessKey`] signs tokens; [`SharedAccessSignature`] is a token that has been read and can be
//!   verified against the [`AuthorizationRule`]s of a namespace.
//! * [`Resource`] is what a token is about, with the comparison that the service applies: letter case, scheme
//!   and port do not matter, and a resource covers everything beneath it.
//! * [`NamedEntity`] is what can have a name, and which names.
//! * [`storage`] is the same for the blobs of a storage account, which sign the request itself.
//! * [`Rights`] are send, listen and manage.
//! * [`token`] has the bearer tokens of Microsoft Entra ID and of issuers like it.
//!
//! Nothing here reads a clock: the present time is always an argument. Nothing here prints a secret: `Debug` of
//! every type that holds one is redacted, and the only ways to see it are named `reveal`.

mod authorization_rule;
mod connection_string;
mod endpoint;
mod entity_name;
mod resource;
mod rights;
mod secret;
mod shared_access_key;
mod signature;
pub mod storage;
pub mod token;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC};

pub use authorization_rule::AuthorizationRule;
pub use connection_string::{ConnectionString, ConnectionStringError, Credential};
pub use endpoint::{Endpoint, EndpointError, ServiceAddress, TransportSecurity, is_loopback};
pub use entity_name::{EntityNameError, NamedEntity};
pub use resource::Resource;
pub use rights::{Right, Rights};
pub use secret::Secret;
pub use shared_access_key::SharedAccessKey;
pub use signature::{SharedAccessSignature, SignatureError, VerificationError};

/// Everything but the unreserved characters of RFC 3986 is escaped in a signature.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// The key name of a namespace's root rule, in the service and in its development emulator.
pub const ROOT_KEY_NAME: &str = "RootManageSharedAccessKey";

/// The key value that connection strings of the development emulator carry. It is public knowledge: a service
/// that accepts it must not listen beyond loopback.
pub const DEVELOPMENT_KEY_VALUE: &str = "SAS_KEY_VALUE";
