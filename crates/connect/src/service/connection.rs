//! One authorised connection: the engine on its socket, its two sessions, and the token that keeps it alive.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use amqp::Connection;
use amqp::connection::{Deliveries, Delivery, Event, SaslClient, SessionId};
use amqp_tokio::Driver;
use tokio::time::{Instant, Sleep};

use super::endpoint::Endpoint;
use super::error::{NO_ANSWER, PROTOCOL, ServiceError, TIMEOUT};
use super::request::{Request, RequestPair};
use super::token;

/// A connection that may be used for its entity.
#[derive(Debug)]
pub(crate) struct ServiceConnection {
    endpoint: Arc<Endpoint>,
    driver: Driver,
    control: SessionId,
    data: SessionId,
    token_links: RequestPair,
    renewal: Renewal,
    /// Why the socket cannot go on.
    broken: Option<ServiceError>,
    /// Fires when the renewal is due, or its reply overdue.
    timer: Pin<Box<Sleep>>,
}

/// Where the renewal of the token stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Renewal {
    /// The token serves until the timer fires.
    Waiting,
    /// A token was put under this request number, that of the claim at this place, and the reply is due when the timer fires.
    Requested(i64, usize),
    /// The token cannot be renewed.
    Never,
}

impl ServiceConnection {
    /// Connects, begins the sessions and puts a token.
    ///
    /// # Errors
    /// When any of this fails, or all of it takes longer than the options allow.
    pub(crate) async fn open(endpoint: Arc<Endpoint>) -> Result<Self, ServiceError> {
        let limit = endpoint.options.connect_timeout;
        tokio::time::timeout(limit, Self::open_in_time(endpoint))
            .await
            .unwrap_or_else(|_elapsed| Err(timed_out("the connection was not authorised", limit)))
    }

    async fn open_in_time(endpoint: Arc<Endpoint>) -> Result<Self, ServiceError> {
        let stream = endpoint.dial().await?;
        let engine = Connection::client(endpoint.config(), SaslClient::Anonymous, Instant::now().into_std());
        let mut driver = Driver::new(engine, stream);
        loop {
            match driver.next_event().await? {
                Event::Opened(_) => break,
                Event::Closed(None) => {
                    let description = "the service closed the connection without an answer";
                    return Err(ServiceError::of_connection(NO_ANSWER, description));
                }
                Event::Closed(Some(error)) => return Err(error.into()),
                _ => {}
            }
        }
        let connection = driver.connection();
        let (Some(control), Some(data)) = (connection.begin_session(), connection.begin_session()) else {
            // A service that has no room for a connection opens it and closes it in one breath.
            while let Some(event) = connection.poll_event() {
                if let Event::Closed(error) = event {
                    return Err(ServiceError::of_close(error));
                }
            }
            return Err(ServiceError::of_connection(PROTOCOL, "the service accepts only one session"));
        };
        let mut token_links = RequestPair::attach(connection, control, "$cbs", &endpoint.container_id)?;
        for request in token::put_tokens(&endpoint) {
            token_links.exchange(&mut driver, &request).await?;
        }
        let serves = token::renew_after(&endpoint);
        Ok(Self {
            driver,
            control,
            data,
            token_links,
            renewal: serves.map_or(Renewal::Never, |_| Renewal::Waiting),
            broken: None,
            timer: Box::pin(tokio::time::sleep(serves.unwrap_or_default())),
            endpoint,
        })
    }

    /// The engine, for commands. What they write is sent by the next [`poll_drive`](Self::poll_drive).
    #[inline]
    pub(crate) fn engine(&mut self) -> &mut Connection {
        self.driver.connection()
    }

    /// How long an answer of the service may take.
    pub(crate) fn patience(&self) -> Duration {
        self.endpoint.options.connect_timeout
    }

    /// The session of the data links.
    pub(crate) const fn data(&self) -> SessionId {
        self.data
    }

    /// The next event that has been read, leaving out what concerns the connection itself.
    ///
    /// # Errors
    /// When the connection is over, or of no more use.
    pub(crate) fn next_event(&mut self) -> Result<Option<Event>, ServiceError> {
        let Some(event) = self.driver.connection().poll_event() else {
            return Ok(None);
        };
        match event {
            Event::Closed(error) => Err(match (error, self.broken.take()) {
                (None, Some(broken)) => broken,
                (error, _) => ServiceError::of_close(error),
            }),
            Event::SessionEnded { error, .. } => Err(ServiceError::of_detach(error)),
            Event::LinkDetached { link, error } if self.token_links.has(link) => {
                Err(ServiceError::of_detach(error))
            }
            event => Ok(Some(event)),
        }
    }

    /// Takes a delivery that came on none of the data links.
    ///
    /// # Errors
    /// When it says that the token was not renewed.
    #[cold]
    pub(crate) fn take_control_delivery(
        &mut self,
        deliveries: &Deliveries,
        delivery: &Delivery,
    ) -> Result<(), ServiceError> {
        let Some(reply) = self.token_links.reply(self.driver.connection(), deliveries, delivery) else {
            // What was under way on a link that we have detached.
            return Ok(());
        };
        let reply = reply?;
        if let Renewal::Requested(id, place) = self.renewal
            && reply.id == Some(id)
        {
            reply.into_body()?;
            let next = place + 1;
            let endpoint = Arc::clone(&self.endpoint);
            match token::put_tokens(&endpoint).nth(next) {
                Some(request) => self.request_token(&request, next),
                None => {
                    self.renewal = Renewal::Waiting;
                    let serves = token::renew_after(&self.endpoint).unwrap_or_default();
                    self.timer.as_mut().reset(Instant::now() + serves);
                }
            }
        }
        Ok(())
    }

    /// Writes what there is, reads once, and keeps the token alive: see [`Driver::poll_drive`]. That the connection is
    /// over [`next_event`](Self::next_event) tells.
    ///
    /// # Errors
    /// When the token was not renewed in time.
    pub(crate) fn poll_drive(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ServiceError>> {
        match self.driver.poll_drive(context) {
            Poll::Ready(Ok(())) => Poll::Ready(Ok(())),
            Poll::Ready(Err(error)) => {
                // The last event says so too, after those that came before.
                self.broken = Some(error.into());
                Poll::Ready(Ok(()))
            }
            Poll::Pending => self.poll_renewal(context),
        }
    }

    /// Asks for something of a node through links of its own. Nothing else may be under way on the connection.
    ///
    /// # Errors
    /// When the connection ends, the node refuses, or does not answer as quickly as the options allow.
    pub(crate) async fn ask(
        &mut self,
        node: &str,
        request: &Request<'_>,
    ) -> Result<amqp::Value, ServiceError> {
        let limit = self.endpoint.options.connect_timeout;
        let engine = self.driver.connection();
        let mut links = RequestPair::attach(engine, self.control, node, &self.endpoint.container_id)?;
        let body = tokio::time::timeout(limit, links.exchange(&mut self.driver, request))
            .await
            .unwrap_or_else(|_elapsed| Err(timed_out(&format!("{node} did not answer"), limit)))?;
        links.detach(self.driver.connection());
        body.ok_or_else(|| super::request::Reply::incomplete(node, "body"))
    }

    /// Attaches links to a node, to ask it for things while messages go through the data session.
    ///
    /// # Errors
    /// When there is no room for them.
    pub(crate) fn attach_requests(&mut self, node: &str) -> Result<RequestPair, ServiceError> {
        let engine = self.driver.connection();
        RequestPair::attach(engine, self.control, node, &self.endpoint.container_id)
    }

    /// Closes in good order, giving the peer a moment to read what was sent.
    pub(crate) async fn close(mut self) {
        self.driver.connection().close(None);
        self.driver.shut_down(CLOSE_PATIENCE).await;
    }

    /// Ready when something was sent that has yet to be driven out.
    fn poll_renewal(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ServiceError>> {
        if self.renewal == Renewal::Never || self.timer.as_mut().poll(context).is_pending() {
            return Poll::Pending;
        }
        if let Renewal::Requested(..) = self.renewal {
            let limit = self.endpoint.options.connect_timeout;
            return Poll::Ready(Err(timed_out("the token was not renewed", limit)));
        }
        let request = token::put_token(&self.endpoint);
        self.request_token(&request, 0);
        Poll::Ready(Ok(()))
    }

    /// Puts a token for the claim at this place.
    fn request_token(&mut self, request: &Request<'_>, place: usize) {
        let wait = match self.token_links.send(self.driver.connection(), request) {
            Ok(id) => {
                self.renewal = Renewal::Requested(id, place);
                self.endpoint.options.connect_timeout
            }
            // No credit at the moment: there is a quarter of the token's life left to try, from the first one on.
            Err(_) => {
                self.renewal = Renewal::Waiting;
                RENEWAL_RETRY
            }
        };
        self.timer.as_mut().reset(Instant::now() + wait);
    }
}

fn timed_out(what: &str, limit: Duration) -> ServiceError {
    ServiceError::of_connection(TIMEOUT, format!("{what} within {limit:?}"))
}

/// How long a renewal waits for credit before it looks again.
const RENEWAL_RETRY: Duration = Duration::from_secs(1);

/// How long a closing connection waits for the socket to take its last bytes.
const CLOSE_PATIENCE: Duration = Duration::from_secs(1);
