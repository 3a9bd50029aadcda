//! The token endpoints of a development issuer, as the official clients ask for them.
//!
//! ```text
//!   POST {authority}/oauth2/v2.0/token      a client id and a secret (EnvironmentCredential, ClientSecretCredential)
//!                                           or a federated token (WorkloadIdentityCredential)
//!   POST {authority}/oauth2/token           the same, as older clients and those of AD FS have it
//!   GET  /msi/token                         a managed identity: IDENTITY_ENDPOINT, with the secret in a header
//!   GET  {authority}[/v2.0]/.well-known/openid-configuration, {authority}/discovery[/v2.0]/keys, /common/discovery/instance
//!   GET  /.well-known/webfinger             that an authority of AD FS is one, for MSAL.NET
//! ```
//!
//! An authority is `/{tenant}`, or `/dstsv2/{tenant}`, which is the form that MSAL.NET takes on trust: each library decides by the path how
//! it is to be validated. So any path is one.
//!
//! Errors have the shape and the numbers of Entra ID, which clients show.

mod form;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use access::TransportSecurity;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HOST, HeaderMap, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use listen::http::{PAGE_LIMITS, RequestBody};
use listen::{AcceptFailures, MetricsWriter};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use serde_json::{Value, json};

use super::server::{self, Client, Service};
use crate::front::listener::{Connection, Front, Gate, WhenFull};
use crate::identity::{DevelopmentIssuer, Grant};
use form::Form;

/// The front end of a development issuer.
#[derive(Debug)]
pub(crate) struct IdentityFront {
    issuer: Arc<DevelopmentIssuer>,
    gate: Gate,
    issued: AtomicU64,
    refused: AtomicU64,
}

/// A refusal: its status, the error's name in OAuth 2.0, its number at Entra ID and its text.
#[derive(Clone, Copy, Debug)]
struct Refusal {
    status: StatusCode,
    error: &'static str,
    number: u32,
    text: &'static str,
}

impl IdentityFront {
    /// Gives tokens of `issuer` to at most this many connections at once.
    pub(crate) fn new(
        issuer: Arc<DevelopmentIssuer>,
        connections: u64,
        accept_failures: Arc<AcceptFailures>,
    ) -> Arc<Self> {
        let gate = Gate::new(connections, WhenFull::Wait, accept_failures);
        Arc::new(Self { issuer, gate, issued: AtomicU64::new(0), refused: AtomicU64::new(0) })
    }

    async fn reply(&self, request: Request<RequestBody>, authority: &str) -> Result<Value, Refusal> {
        let (head, body) = request.into_parts();
        let path: Vec<&str> = head.uri.path().split('/').filter(|segment| !segment.is_empty()).collect();
        match (&head.method, path.as_slice()) {
            (&Method::POST, [_, .., "oauth2", "token"] | [_, .., "oauth2", "v2.0", "token"]) => {
                let body = Limited::new(body, LONGEST_FORM).collect().await.map_err(|_cause| UNREADABLE)?;
                self.grant_to_client(&Form::parse(&body.to_bytes()))
            }
            (&Method::GET, ["msi", "token"]) => {
                let form = Form::parse(head.uri.query().unwrap_or_default().as_bytes());
                self.grant_to_machine(&head.headers, &form)
            }
            (&Method::GET, [tenant @ .., "v2.0", ".well-known", "openid-configuration"]) => {
                Ok(configuration(authority, tenant, "/oauth2/v2.0"))
            }
            (&Method::GET, [tenant @ .., ".well-known", "openid-configuration"]) => {
                Ok(configuration(authority, tenant, "/oauth2"))
            }
            (&Method::GET, [_, .., "discovery", "keys"] | [_, .., "discovery", "v2.0", "keys"]) => {
                Ok(self.issuer.published_keys())
            }
            (&Method::GET, ["common", "discovery", "instance"]) => Ok(instance(authority, &head.uri)),
            (&Method::GET, [".well-known", "webfinger"]) => Ok(web_finger(&head.uri)),
            _ => Err(NOT_FOUND),
        }
    }

    /// A token for an application that shows its secret.
    fn grant_to_client(&self, form: &Form) -> Result<Value, Refusal> {
        if form.get("grant_type") != Some("client_credentials") {
            return Err(GRANT_TYPE);
        }
        if !form.get("client_id").is_some_and(|client| self.issuer.is_client(client)) {
            return Err(WRONG_CLIENT);
        }
        // A federated token is whatever a cluster signs; here it is the secret itself, in the file that holds it.
        let secret = match form.get("client_assertion_type") {
            None => form.get("client_secret"),
            Some(JWT_BEARER) => form.get("client_assertion").map(str::trim),
            Some(_) => return Err(ASSERTION_TYPE),
        };
        if !secret.is_some_and(|secret| self.issuer.is_secret(secret)) {
            return Err(WRONG_SECRET);
        }
        let audience = form.get("scope").and_then(resource_of_scopes).or_else(|| form.get("resource"));
        let audience = audience.filter(|audience| !audience.is_empty()).ok_or(WRONG_SCOPE)?;
        let Grant { token, lifetime, .. } = self.grant(audience, self.issuer.variables().client)?;
        let seconds = lifetime.as_secs();
        Ok(json!({
            "token_type": "Bearer", "expires_in": seconds, "ext_expires_in": seconds, "access_token": token,
        }))
    }

    /// A token for a program that finds itself on a machine with an identity.
    fn grant_to_machine(&self, headers: &HeaderMap, form: &Form) -> Result<Value, Refusal> {
        let header = headers.get("x-identity-header").and_then(|header| header.to_str().ok());
        if !header.is_some_and(|header| self.issuer.is_secret(header)) {
            return Err(WRONG_HEADER);
        }
        // A deployment names the identities that users have assigned to it, by whatever ids they have in the cloud.
        let client = match form.get("client_id") {
            None => self.issuer.variables().client,
            Some(client) if is_uuid(client) => client,
            Some(_) => return Err(NO_CLIENT),
        };
        let resource = form.get("resource").filter(|resource| !resource.is_empty()).ok_or(WRONG_SCOPE)?;
        let Grant { token, until, .. } = self.grant(resource, client)?;
        let until = until.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        Ok(json!({
            "token_type": "Bearer", "expires_on": until.to_string(), "resource": resource, "access_token": token,
            "client_id": client,
        }))
    }

    fn grant(&self, audience: &str, principal: &str) -> Result<Grant, Refusal> {
        let grant = self.issuer.grant(audience, principal, SystemTime::now()).map_err(|_none| BROKEN)?;
        self.issued.fetch_add(1, Ordering::Relaxed);
        Ok(grant)
    }
}

/// The resource that a client asks for by its scopes: all that it grants there, or, as the clients for C++ ask AD FS, the resource alone. Some
/// add scopes of OpenID, which make no difference here.
fn resource_of_scopes(scopes: &str) -> Option<&str> {
    let mut all = scopes.split(' ').filter_map(|scope| scope.strip_suffix("/.default"));
    all.next().or_else(|| scopes.split(' ').find(|scope| scope.contains("://")))
}

/// Whether this is a UUID, in the form of ids of applications.
fn is_uuid(text: &str) -> bool {
    let is_right = |(at, byte): (usize, u8)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    text.len() == 36 && text.bytes().enumerate().all(is_right)
}

/// What a client needs to know of an authority, in the words of OpenID Connect.
fn configuration(authority: &str, tenant: &[&str], version: &str) -> Value {
    let issuer = format!("{authority}/{}", tenant.join("/"));
    json!({
        "issuer": issuer,
        "authorization_endpoint": format!("{issuer}{version}/authorize"),
        "token_endpoint": format!("{issuer}{version}/token"),
        "jwks_uri": format!("{issuer}/discovery/v2.0/keys"),
        "token_endpoint_auth_methods_supported": ["client_secret_post"],
        "response_types_supported": ["token"],
        "subject_types_supported": ["pairwise"],
        "id_token_signing_alg_values_supported": ["ES256"],
    })
}

/// Where the authority says that it is one of the known ones.
fn instance(authority: &str, asked: &hyper::Uri) -> Value {
    let form = Form::parse(asked.query().unwrap_or_default().as_bytes());
    let tenant = form
        .get("authorization_endpoint")
        .and_then(|endpoint| endpoint.split_once("://")?.1.split_once('/'))
        .map_or("common", |(_, path)| path.split_once("/oauth2").map_or(path, |(tenant, _)| tenant));
    let host = authority.split_once("://").map_or(authority, |(_, host)| host);
    json!({
        "tenant_discovery_endpoint": format!("{authority}/{tenant}/v2.0/.well-known/openid-configuration"),
        "api-version": "1.1",
        "metadata": [{"preferred_network": host, "preferred_cache": host, "aliases": [host]}],
    })
}

/// That whoever is asked about is an authority that is trusted ([MS-OAPX] 3.2.5.1, RFC 7033).
fn web_finger(asked: &hyper::Uri) -> Value {
    let form = Form::parse(asked.query().unwrap_or_default().as_bytes());
    let (relation, resource) =
        (form.get("rel").unwrap_or(TRUSTED_REALM), form.get("resource").unwrap_or_default());
    json!({"subject": resource, "links": [{"rel": relation, "href": resource}]})
}

impl Front for IdentityFront {
    fn gate(&self) -> &Gate {
        &self.gate
    }

    async fn serve_connection(&self, connection: Connection) {
        server::serve(self, connection, &PAGE_LIMITS).await;
    }
}

impl Service for IdentityFront {
    type Body = Full<Bytes>;

    async fn answer(&self, request: Request<RequestBody>, client: &Client<'_>) -> Response<Full<Bytes>> {
        let scheme = match client.peer.security {
            TransportSecurity::Plain => "http",
            TransportSecurity::Tls => "https",
        };
        let host = request.headers().get(HOST).and_then(|host| host.to_str().ok()).unwrap_or("localhost");
        let authority = format!("{scheme}://{host}");
        let (status, body) = match self.reply(request, &authority).await {
            Ok(body) => (StatusCode::OK, body),
            Err(refusal) => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                tracing::debug!(peer = %client.peer.address, text = refusal.text, "a token was refused");
                (refusal.status, refusal.body())
            }
        };
        let mut response = Response::new(Full::new(body.to_string().into()));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json; charset=utf-8"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }
}

impl Refusal {
    fn body(self) -> Value {
        let Self { error, number, text, .. } = self;
        let now = units::date::iso_date(SystemTime::now());
        json!({
            "error": error,
            "error_description": format!("AADSTS{number}: {text} Timestamp: {now}"),
            "error_codes": [number],
            "timestamp": now,
        })
    }

    const fn bad(number: u32, error: &'static str, text: &'static str) -> Self {
        Self { status: StatusCode::BAD_REQUEST, error, number, text }
    }

    const fn unauthorized(number: u32, text: &'static str) -> Self {
        Self { status: StatusCode::UNAUTHORIZED, error: "invalid_client", number, text }
    }
}

/// Collects the tokens that were issued.
#[derive(Debug)]
pub(crate) struct IssuerMetrics(pub(crate) Arc<IdentityFront>);

impl Collector for IssuerMetrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        let Self(front) = self;
        let mut metrics = MetricsWriter::new(encoder);
        let help = "Tokens issued by the development issuer.";
        metrics.counter("parshall_identity_tokens_issued", help, front.issued.load(Ordering::Relaxed))?;
        let help = "Requests that the development issuer refused.";
        metrics.counter("parshall_identity_requests_refused", help, front.refused.load(Ordering::Relaxed))
    }
}

const GRANT_TYPE: Refusal = Refusal::bad(
    70003,
    "unsupported_grant_type",
    "The development issuer supports the grant type client_credentials alone.",
);
const ASSERTION_TYPE: Refusal = Refusal::bad(
    900144,
    "invalid_request",
    "The development issuer supports assertions of the type jwt-bearer alone.",
);
const WRONG_SCOPE: Refusal =
    Refusal::bad(70011, "invalid_scope", "The request names neither a resource nor a scope of one.");
const WRONG_CLIENT: Refusal = Refusal::unauthorized(
    700016,
    "The application is not the one of the development issuer. Use the client id in AZURE_CLIENT_ID.",
);
const NO_CLIENT: Refusal = Refusal::bad(
    700016,
    "invalid_request",
    "The client id of a managed identity is no UUID. Any one is taken, and none has to be named.",
);
const WRONG_SECRET: Refusal = Refusal::unauthorized(
    7000215,
    "Invalid client secret provided. Use the secret in AZURE_CLIENT_SECRET, which changes with each start.",
);
const WRONG_HEADER: Refusal = Refusal::unauthorized(
    7000215,
    "The header X-IDENTITY-HEADER is missing or wrong. Use the value in IDENTITY_HEADER, which changes with each start.",
);
const UNREADABLE: Refusal =
    Refusal::bad(900144, "invalid_request", "The body of the request can't be read, or is too long.");
const NOT_FOUND: Refusal = Refusal {
    status: StatusCode::NOT_FOUND,
    error: "not_found",
    number: 90002,
    text: "The development issuer has no such endpoint.",
};
const BROKEN: Refusal = Refusal {
    status: StatusCode::INTERNAL_SERVER_ERROR,
    error: "server_error",
    number: 90033,
    text: "The system has no random numbers.",
};

/// The relation of an authority to those who trust it.
const TRUSTED_REALM: &str = "http://schemas.microsoft.com/rel/trusted-realm";

/// In bytes. Secrets and scopes are short.
const LONGEST_FORM: usize = 64 * 1024;

/// The kind of assertion that clients with a federated token send.
const JWT_BEARER: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
