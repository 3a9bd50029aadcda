//! A client of a bucket, and where its credentials come from.
//!
//! | | of S3 | of Google Cloud Storage |
//! |---|---|---|
//! | named | a key and its secret, perhaps a session's token | the key of a service account |
//! | found, the first that there is | `AWS_ACCESS_KEY_ID` and the other variables of the official clients; a token of web identity; the container's; the machine's | the file that `GOOGLE_APPLICATION_CREDENTIALS` names, or that of `gcloud`; the machine's |

use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, S3ConditionalPut};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::{BackoffConfig, ClientOptions, ObjectStore, RetryConfig};

use super::BucketService;
use super::transport::HyperConnector;
use crate::archive::options::{BucketCredentials, BucketPlace};
use crate::hyper_client::causes;
use crate::service::ServiceError;

/// A client of the bucket, which has not asked for anything yet.
///
/// # Errors
/// When certificates or credentials can't be read, or don't fit the service.
pub(super) fn client(place: &BucketPlace) -> Result<Arc<dyn ObjectStore>, ServiceError> {
    let client = match place.url.service() {
        BucketService::S3 => s3(place)?.build().map(|client| Arc::new(client) as Arc<dyn ObjectStore>),
        BucketService::GoogleCloudStorage => google(place)?.build().map(|client| Arc::new(client) as _),
    };
    client.map_err(|error| unusable(place, &causes(&error)))
}

fn s3(place: &BucketPlace) -> Result<AmazonS3Builder, ServiceError> {
    let mut builder = AmazonS3Builder::new();
    for (name, key) in S3_PLACES {
        builder = with_variable(builder, name, |builder, value| builder.with_config(key, value));
    }
    match &place.credentials {
        BucketCredentials::AccessKey { id, secret, session_token } => {
            builder = builder.with_access_key_id(id).with_secret_access_key(secret.reveal());
            if let Some(token) = session_token {
                builder = builder.with_token(token.reveal());
            }
        }
        BucketCredentials::Found => {
            for (name, key) in S3_CREDENTIALS {
                builder = with_variable(builder, name, |builder, value| builder.with_config(key, value));
            }
        }
        BucketCredentials::ServiceAccount(_) => {
            return Err(unusable(place, "a bucket of S3 has no service accounts"));
        }
    }
    if let Some(region) = &place.region {
        builder = builder.with_region(region);
    }
    if let Some(endpoint) = &place.endpoint {
        // That of the environment is for S3 alone, and would win.
        builder = builder.with_config(AmazonS3ConfigKey::S3Endpoint, endpoint);
    }
    Ok(builder
        .with_bucket_name(place.url.bucket())
        .with_conditional_put(S3ConditionalPut::ETagMatch)
        .with_client_options(ClientOptions::new().with_allow_http(true))
        .with_retry(once())
        .with_http_connector(connector(place)?))
}

fn google(place: &BucketPlace) -> Result<GoogleCloudStorageBuilder, ServiceError> {
    let mut builder = GoogleCloudStorageBuilder::new();
    match &place.credentials {
        BucketCredentials::ServiceAccount(key) => {
            builder = builder.with_service_account_key(key.reveal());
        }
        BucketCredentials::Found => {
            builder = with_variable(builder, "GOOGLE_APPLICATION_CREDENTIALS", |builder, file| {
                builder.with_config(GoogleConfigKey::ApplicationCredentials, file)
            });
        }
        BucketCredentials::AccessKey { .. } => {
            return Err(unusable(place, "a bucket of Google Cloud Storage has no access keys"));
        }
    }
    if let Some(endpoint) = &place.endpoint {
        builder = builder.with_base_url(endpoint);
    }
    Ok(builder
        .with_bucket_name(place.url.bucket())
        .with_client_options(ClientOptions::new().with_allow_http(true))
        .with_retry(once())
        .with_http_connector(connector(place)?))
}

fn with_variable<B>(builder: B, name: &str, with: impl FnOnce(B, String) -> B) -> B {
    match std::env::var(name) {
        Ok(value) if !value.is_empty() => with(builder, value),
        _ => builder,
    }
}

fn connector(place: &BucketPlace) -> Result<HyperConnector, ServiceError> {
    // Certificates are read only where TLS is used; services of credentials may be reached with it.
    let is_plain = place.endpoint.as_deref().is_some_and(|endpoint| endpoint.starts_with("http://"))
        && place.credentials != BucketCredentials::Found;
    let tls = match is_plain {
        true => trust::without_authorities(),
        false => trust::client_config(place.certificate_authority.as_deref()),
    };
    let tls = tls.map_err(|error| unusable(place, &error))?;
    Ok(HyperConnector { tls, timeout: place.request_timeout })
}

/// Those who ask know what may be asked again, and until when.
fn once() -> RetryConfig {
    RetryConfig { max_retries: 0, retry_timeout: Duration::ZERO, backoff: BackoffConfig::default() }
}

fn unusable(place: &BucketPlace, why: &str) -> ServiceError {
    ServiceError::fatal("archive:bucket", format!("{} can't be used: {why}", place.url))
}

/// Where buckets are, by the environment; a file goes before it.
const S3_PLACES: [(&str, AmazonS3ConfigKey); 4] = [
    ("AWS_DEFAULT_REGION", AmazonS3ConfigKey::Region),
    ("AWS_REGION", AmazonS3ConfigKey::Region),
    ("AWS_ENDPOINT_URL", AmazonS3ConfigKey::Endpoint),
    ("AWS_ENDPOINT_URL_S3", AmazonS3ConfigKey::S3Endpoint),
];

/// Credentials and where they are asked for, by the environment.
const S3_CREDENTIALS: [(&str, AmazonS3ConfigKey); 9] = [
    ("AWS_ACCESS_KEY_ID", AmazonS3ConfigKey::AccessKeyId),
    ("AWS_SECRET_ACCESS_KEY", AmazonS3ConfigKey::SecretAccessKey),
    ("AWS_SESSION_TOKEN", AmazonS3ConfigKey::Token),
    ("AWS_WEB_IDENTITY_TOKEN_FILE", AmazonS3ConfigKey::WebIdentityTokenFile),
    ("AWS_ROLE_ARN", AmazonS3ConfigKey::RoleArn),
    ("AWS_ROLE_SESSION_NAME", AmazonS3ConfigKey::RoleSessionName),
    ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", AmazonS3ConfigKey::ContainerCredentialsRelativeUri),
    ("AWS_CONTAINER_CREDENTIALS_FULL_URI", AmazonS3ConfigKey::ContainerCredentialsFullUri),
    ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", AmazonS3ConfigKey::ContainerAuthorizationTokenFile),
];
