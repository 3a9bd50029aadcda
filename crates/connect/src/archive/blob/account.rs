//! Where a container is, and how a connection to it is made.

use std::time::Duration;

use access::storage::StorageCredential;
use amqp_tokio::{ClientTls, Stream};
use http::Uri;
use rustls::pki_types::ServerName;

use crate::archive::options::BlobPlace;
use crate::service::ServiceError;

/// A container of a storage account.
#[derive(Debug)]
pub(super) struct Account {
    host: String,
    port: u16,
    tls: Option<ClientTls>,
    pub(super) credential: StorageCredential,
    /// The header `Host`.
    pub(super) host_field: String,
    /// What the path of a blob begins with: `/account/container/`, or `/container/`.
    pub(super) path: String,
    pub(super) timeout: Duration,
}

impl Account {
    /// Reads the certificates.
    ///
    /// # Errors
    /// When they can't be read, or the endpoint is none.
    pub(super) fn of(place: &BlobPlace) -> Result<Self, ServiceError> {
        let endpoint = &place.connection_string.blob_endpoint;
        let unusable = |what: String| {
            ServiceError::fatal("connection:address", format!("{endpoint} can't be used: {what}"))
        };
        let uri: Uri =
            endpoint.parse().map_err(|error: http::uri::InvalidUri| unusable(error.to_string()))?;
        let authority = uri.authority().ok_or_else(|| unusable("it names no host".to_owned()))?;
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let is_tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(unusable("it is neither http nor https".to_owned())),
        };
        let port = authority.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let host_field = match (authority.host(), authority.port_u16()) {
            (host, Some(port)) => format!("{host}:{port}"),
            (host, None) => host.to_owned(),
        };
        let tls = match is_tls {
            false => None,
            true => Some(ClientTls {
                config: trust::client_config(place.certificate_authority.as_deref()).map_err(unusable)?,
                server_name: ServerName::try_from(host.clone())
                    .map_err(|error| unusable(error.to_string()))?,
            }),
        };
        let prefix = uri.path().trim_end_matches('/');
        Ok(Self {
            host,
            port,
            tls,
            credential: place.connection_string.credential.clone(),
            host_field,
            path: format!("{prefix}/{}/", place.container),
            timeout: place.request_timeout,
        })
    }

    /// A stream of bytes to the service.
    ///
    /// # Errors
    /// When it can't be reached, or is not who it should be.
    pub(super) async fn dial(&self) -> Result<Stream, ServiceError> {
        Ok(amqp_tokio::connect(&self.host, self.port, self.tls.clone(), self.timeout).await?)
    }
}
