//! Access to a storage account: who signs a request to blob storage, and what a person copies to be allowed to.
//!
//! * [`StorageConnectionString`] says where the blobs are and with which [`StorageCredential`].
//! * [`StorageAccountKey`] signs a [`StorageRequest`] by the scheme `SharedKey`; the service signs what it has received by
//!   the same rules and compares, and looks at the date ([`SharedKeyError`]).
//! * [`StorageSignature`] is a shared access signature: rights in the query of an URL, for a while. [`StorageRights`] are
//!   what it grants, on which [`StorageLevel`].
//! * [`UserDelegationKey`] describes the keys with which principals sign such signatures.

mod account_key;
mod connection_string;
mod delegation;
mod rights;
mod shared_key;
mod signature;

pub use account_key::{StorageAccountKey, StorageKeyError, StorageRequest};
pub use connection_string::{StorageConnectionString, StorageConnectionStringError, StorageCredential};
pub use delegation::UserDelegationKey;
pub use rights::{StorageLevel, StorageRight, StorageRights};
pub use shared_key::SharedKeyError;
pub use signature::{
    AccountSignature, ResponseOverrides, StorageDenial, StorageResource, StorageSignature,
    StorageSignatureError, StoredAccess, decode_parameter,
};

/// The account of the development emulator.
pub const DEVELOPMENT_ACCOUNT: &str = "devstoreaccount1";

/// Its key. It is public knowledge: a service that accepts it must not listen beyond loopback.
pub const DEVELOPMENT_ACCOUNT_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// Where the development emulator serves blobs.
pub const DEVELOPMENT_BLOB_ENDPOINT: &str = "http://127.0.0.1:10000/devstoreaccount1";
