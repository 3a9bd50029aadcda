//! hyper's client, with the rustls that everything else here uses: for the clients of storage that we did not write, which bring their own requests
//! and take any transport.

use std::error::Error;
use std::time::Duration;

use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::ClientConfig;

/// Sends requests over connections that it keeps.
pub(crate) type HyperClient<B> = Client<HttpsConnector<HttpConnector>, B>;

/// A client of HTTP/1.1, with TLS where the URL asks for it.
pub(crate) fn hyper_client<B>(tls: &ClientConfig, connect_timeout: Duration) -> HyperClient<B>
where
    B: http_body_util::BodyExt + Send + 'static,
    B::Data: Send,
{
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(connect_timeout));
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(tls.clone())
        .https_or_http()
        .enable_http1()
        .wrap_connector(tcp);
    Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE)
        .build(connector)
}

/// An error with its causes.
pub(crate) fn causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.ends_with(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    text
}

/// Services close idle connections after minutes; we do before them.
const IDLE: Duration = Duration::from_secs(50);
