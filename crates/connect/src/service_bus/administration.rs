//! Queues, topics, subscriptions and rules of a namespace: listed, created, changed and deleted over HTTP, as Azure's own service and
//! the embedded one do it.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use amqp::performative::ErrorCondition;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use rest::administration::atom::{self, Description, ReadEntry};

use crate::http::{HttpConnection, Token};
use crate::service::error::{PROTOCOL, TIMEOUT};
use crate::service::{ClientOptions, Endpoint, ServiceError};

pub use rest::administration::{atom as documents, entity, rule};

/// A client for what a namespace consists of. It takes a key with the right to manage.
pub struct AdministrationClient {
    endpoint: Arc<Endpoint>,
    host: String,
    token: Token,
    connection: Option<HttpConnection>,
}

/// Which of two things a description is sent for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// Something that is not there is to be made.
    New,
    /// Something that is there is to be changed.
    Changed,
}

impl AdministrationClient {
    /// Connects to a namespace, whose entities the options don't name.
    ///
    /// # Errors
    /// When it can't be reached, or is not who it should be.
    pub async fn connect(options: ClientOptions) -> Result<Self, ServiceError> {
        let endpoint = Endpoint::for_http(ClientOptions { entity: String::new(), ..options })?;
        let (host, port) = (&endpoint.address.host, endpoint.address.port);
        if !host.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(ServiceError::fatal("connection:address", "the host can't be in a request"));
        }
        let host = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        let mut client = Self { endpoint, host, token: Token::default(), connection: None };
        client.connection = Some(client.open().await?);
        Ok(client)
    }

    /// What is at a path, such as `topic/subscriptions/name`.
    ///
    /// # Errors
    /// When there is nothing, the key may not see it, or the connection breaks.
    pub async fn get(&mut self, path: &str) -> Result<ReadEntry, ServiceError> {
        let answer = self.request("GET", path, "", None).await?;
        read_entry(path, &answer)
    }

    /// Everything in a list, such as `$Resources/queues` or `topic/subscriptions`, page by page.
    ///
    /// # Errors
    /// As with [`get`](Self::get).
    pub async fn list(&mut self, path: &str) -> Result<Vec<ReadEntry>, ServiceError> {
        let mut all = Vec::new();
        loop {
            let query = format!("$skip={}&$top={PAGE}&", all.len());
            let answer = self.request("GET", path, &query, None).await?;
            let feed = atom::read_feed(&answer).map_err(|error| unreadable(&error))?;
            // The real service tells of nothing in a feed of its own when there is nothing.
            let feed = feed.ok_or_else(|| unreadable(&"it is no list"))?;
            let is_last = !feed.has_next || feed.entries.is_empty();
            all.extend(feed.entries);
            if is_last {
                return Ok(all);
            }
        }
    }

    /// Makes or changes what is at a path. Gives what is there then.
    ///
    /// # Errors
    /// When it is there already, or is not; when the service does not take the description, the key may not manage, or the connection
    /// breaks, in which case it is not known whether it was done.
    pub async fn put(
        &mut self,
        path: &str,
        description: &Description,
        put: Put,
    ) -> Result<ReadEntry, ServiceError> {
        let body = atom::request(description);
        let answer = self.request("PUT", path, "", Some((&body, put))).await?;
        read_entry(path, &answer)
    }

    /// Deletes what is at a path.
    ///
    /// # Errors
    /// When there is nothing, the key may not manage, or the connection breaks.
    pub async fn delete(&mut self, path: &str) -> Result<(), ServiceError> {
        self.request("DELETE", path, "", None).await.map(drop)
    }

    /// The body of the answer.
    async fn request(
        &mut self,
        method: &str,
        path: &str,
        query: &str,
        body: Option<(&str, Put)>,
    ) -> Result<String, ServiceError> {
        self.token.ask(&self.endpoint).await?;
        self.token.renew(&self.endpoint);
        let path = utf8_percent_encode(path, PATH);
        let condition = match body {
            Some((_, Put::Changed)) => "If-Match: *\r\n",
            _ => "",
        };
        let body = body.map_or("", |(body, _)| body);
        let request = format!(
            "{method} /{path}?{query}api-version={API_VERSION} HTTP/1.1\r\nHost: {}\r\nAuthorization: {}\r\n\
             Content-Type: application/atom+xml;type=entry;charset=utf-8\r\n{condition}Content-Length: {}\r\n\r\n{body}",
            self.host,
            self.token.text(),
            body.len()
        );
        let mut connection = match self.connection.take().filter(|connection| !connection.is_over()) {
            Some(connection) => connection,
            None => self.open().await?,
        };
        let exchange = poll_fn(|context| connection.poll_exchange(context, request.as_bytes()));
        let answered = tokio::time::timeout(PATIENCE, exchange).await;
        let Ok(answered) = answered else {
            let text = format!("there was no answer within {}", units::duration::text(PATIENCE));
            return Err(ServiceError::of_connection(TIMEOUT, text));
        };
        let answer = answered
            .map_err(|failure| failure.error)
            .map(|()| String::from_utf8_lossy(connection.body()).into_owned());
        self.connection = Some(connection);
        answer
    }

    async fn open(&self) -> Result<HttpConnection, ServiceError> {
        let stream = self.endpoint.dial().await?;
        Ok(HttpConnection::over(stream).with_longest_body(ANSWER_BYTES_MAX))
    }
}

impl fmt::Debug for AdministrationClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdministrationClient").field("host", &self.host).finish_non_exhaustive()
    }
}

fn read_entry(path: &str, answer: &str) -> Result<ReadEntry, ServiceError> {
    match atom::read_entry(answer).map_err(|error| unreadable(&error))? {
        Some(entry) => Ok(entry),
        // So the real service says that there is nothing: by an empty list.
        None => Err(ServiceError::of_condition(
            &ErrorCondition::NOT_FOUND,
            format!("The messaging entity '{path}' could not be found."),
        )),
    }
}

fn unreadable(error: &dyn std::fmt::Display) -> ServiceError {
    ServiceError::of_connection(PROTOCOL, format!("the answer can't be read: {error}"))
}

/// What stays as it is in a path.
const PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'_').remove(b'.').remove(b'$');

const API_VERSION: &str = "2021-05";

/// Entries of a page.
const PAGE: usize = 100;

/// What an answer may be, in bytes: a page has some 200 KiB.
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;

/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(60);
