//! Signing by the key of a storage account.
//!
//! The official client knows tokens and signatures in its URL, but not the account key, which is what connection strings carry.
//! Its pipeline takes a policy that is run for every try, after all others that add headers: this one.

use std::borrow::Cow;
use std::sync::Arc;

use access::storage::{StorageAccountKey, StorageRequest};
use async_trait::async_trait;
use azure_core::http::headers::{AUTHORIZATION, CONTENT_LENGTH, MS_DATE};
use azure_core::http::policies::{Policy, PolicyResult};
use azure_core::http::{Body, Context, Request};
use azure_core::time::{OffsetDateTime, to_rfc7231};

/// Adds date and signature.
#[derive(Debug)]
pub(super) struct SharedKeyPolicy {
    key: StorageAccountKey,
}

impl SharedKeyPolicy {
    pub(super) const fn new(key: StorageAccountKey) -> Self {
        Self { key }
    }

    fn sign(&self, request: &mut Request) {
        request.insert_header(MS_DATE, to_rfc7231(&OffsetDateTime::now_utc()));
        // It is signed, and some requests leave it to the transport.
        if let Body::Bytes(body) = request.body()
            && !body.is_empty()
        {
            let length = body.len().to_string();
            request.insert_header(CONTENT_LENGTH, length);
        }
        let query: Vec<(Cow<'_, str>, Cow<'_, str>)> = request.url().query_pairs().collect();
        let headers: Vec<_> =
            request.headers().iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let authorization = self.key.authorization(&StorageRequest {
            method: request.method().as_ref(),
            path: request.url().path(),
            query: &query,
            headers: &headers,
        });
        request.insert_header(AUTHORIZATION, authorization);
    }
}

#[async_trait]
impl Policy for SharedKeyPolicy {
    async fn send(&self, context: &Context, request: &mut Request, next: &[Arc<dyn Policy>]) -> PolicyResult {
        self.sign(request);
        next[0].send(context, request, &next[1..]).await
    }
}
