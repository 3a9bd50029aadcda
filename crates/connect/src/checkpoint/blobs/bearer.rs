//! The bearer token of an identity in each request.
//!
//! The official client has a policy for this, which knows no other time for renewals than its own, and asks each client's credential
//! by itself. This one asks the [`Identity`] that everything else here asks.

use std::sync::Arc;

use async_trait::async_trait;
use azure_core::error::{Error, ErrorKind};
use azure_core::http::headers::AUTHORIZATION;
use azure_core::http::policies::{Policy, PolicyResult};
use azure_core::http::{Context, Request};

use crate::identity::{Identity, STORAGE_SCOPE};

/// Adds the token.
#[derive(Debug)]
pub(super) struct BearerPolicy {
    identity: Identity,
}

impl BearerPolicy {
    pub(super) const fn new(identity: Identity) -> Self {
        Self { identity }
    }
}

#[async_trait]
impl Policy for BearerPolicy {
    async fn send(&self, context: &Context, request: &mut Request, next: &[Arc<dyn Policy>]) -> PolicyResult {
        let token = self.identity.token(STORAGE_SCOPE).await.map_err(|error| {
            let kind = match error.is_transient {
                true => ErrorKind::Io,
                false => ErrorKind::Credential,
            };
            Error::with_message(kind, error.to_string())
        })?;
        request.insert_header(AUTHORIZATION, format!("Bearer {}", token.reveal()));
        next[0].send(context, request, &next[1..]).await
    }
}
