//! One authorised connection: the engine on its socket, its sessions, and the token that keeps it alive.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use std::vec;

use amqp::Connection;
use amqp::connection::{Deliveries, Delivery, Event, LinkId, LinkOptions, SaslClient, SessionId};
use amqp_tokio::Driver;
use tokio::time::{Instant, Sleep};

use super::endpoint::{Endpoint, LINKS_MAX};
use super::error::{NO_ANSWER, PROTOCOL, SILENT, ServiceError, TIMEOUT};
use super::request::{Request, RequestPair};
use super::token::{self, Claim};
use crate::identity::{BearerToken, IdentityError};

/// A connection that may be used for its entity.
#[derive(Debug)]
pub(crate) struct ServiceConnection {
    endpoint: Arc<Endpoint>,
    driver: Driver,
    control: SessionId,
    /// Sessions of the data links, in the order in which they began; never empty.
    data: Vec<SessionId>,
    token_links: RequestPair,
    renewal: Renewal,
    /// The token of an identity that was put last.
    bearer: Option<BearerToken>,
    /// Why the socket cannot go on.
    broken: Option<ServiceError>,
    /// Present while the service can't be reached although the socket is whole.
    silence: Option<ServiceError>,
    /// Fires when the renewal is due, or its reply overdue.
    timer: Pin<Box<Sleep>>,
}

/// Where the renewal of the token stands.
enum Renewal {
    /// The token serves until the timer fires.
    Waiting,
    /// The identity is asked for the next one.
    Asking(Asking),
    /// A token was put under this request number, and the reply is due when the timer fires. Those of the other entities follow, and
    /// from `renew_at` on all are to be renewed.
    Requested { id: i64, others: vec::IntoIter<Request<'static>>, renew_at: Option<Instant> },
    /// The token cannot be renewed.
    Never,
}

type Asking = Pin<Box<dyn Future<Output = Result<BearerToken, IdentityError>> + Send>>;

impl ServiceConnection {
    /// Connects, begins the sessions and puts a token.
    ///
    /// # Errors
    /// When any of this fails, or all of it takes longer than the options allow.
    pub(crate) async fn open(endpoint: Arc<Endpoint>) -> Result<Self, ServiceError> {
        let limit = endpoint.options.connect_timeout;
        // Before the clock runs: an authority, or a command line that asks one, may take longer than connecting.
        let claim = token::claim(&endpoint).await?;
        tokio::time::timeout(limit, Self::open_in_time(endpoint, claim))
            .await
            .unwrap_or_else(|_elapsed| Err(timed_out("the connection was not authorised", limit)))
    }

    async fn open_in_time(endpoint: Arc<Endpoint>, claim: Claim) -> Result<Self, ServiceError> {
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
        let Claim { requests, renew_at, bearer } = claim;
        for request in &requests {
            let put = token_links.exchange(&mut driver, request).await;
            put.map_err(|error| token::refused(&endpoint, bearer.as_ref(), error))?;
        }
        Ok(Self {
            driver,
            control,
            data: vec![data],
            token_links,
            renewal: renew_at.map_or(Renewal::Never, |_| Renewal::Waiting),
            bearer,
            broken: None,
            silence: None,
            timer: Box::pin(tokio::time::sleep_until(renew_at.unwrap_or_else(Instant::now))),
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

    /// The first session of data links, which has room for all links of a client that attaches a few.
    pub(crate) fn data(&self) -> SessionId {
        self.data[0]
    }

    /// Returns the place of a session among those of data links, by which its deliveries are counted.
    #[inline]
    pub(crate) fn place_of(&self, session: SessionId) -> Option<usize> {
        self.data.iter().position(|data| *data == session)
    }

    /// Attaches a data link to send through, and returns the place of its session as well.
    ///
    /// # Errors
    /// The connection has no room for another link.
    pub(crate) fn attach_sender(&mut self, options: LinkOptions) -> Result<(LinkId, usize), ServiceError> {
        let place = self.place_with_room()?;
        let link = self.driver.connection().attach_sender(self.data[place], options);
        link.map(|link| (link, place)).ok_or_else(no_room)
    }

    /// Attaches a data link to receive through.
    ///
    /// # Errors
    /// The connection has no room for another link.
    pub(crate) fn attach_receiver(&mut self, options: LinkOptions) -> Result<LinkId, ServiceError> {
        let place = self.place_with_room()?;
        self.driver.connection().attach_receiver(self.data[place], options).ok_or_else(no_room)
    }

    /// Returns the place of a session of data links with room for another link, which begins if there is none.
    fn place_with_room(&mut self) -> Result<usize, ServiceError> {
        let engine = self.driver.connection();
        // The newest first: the others are mostly full.
        if let Some(place) = self.data.iter().rposition(|session| engine.has_room(*session)) {
            return Ok(place);
        }
        if engine.links_free() == 0 {
            return Err(no_room());
        }
        self.data.push(engine.begin_session().ok_or_else(no_room)?);
        Ok(self.data.len() - 1)
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

    /// Returns the error of a service that is out of reach although the connection is up.
    #[inline]
    pub(crate) const fn silence(&self) -> Option<&ServiceError> {
        self.silence.as_ref()
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
        if let Renewal::Requested { id, others, renew_at } = &mut self.renewal
            && reply.id == Some(*id)
        {
            let put = reply.into_body();
            put.map_err(|error| token::refused(&self.endpoint, self.bearer.as_ref(), error))?;
            let (others, renew_at) = (std::mem::take(others), *renew_at);
            self.put_next(others, renew_at);
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
            Poll::Ready(Ok(())) => {
                if self.driver.connection().is_silent() != self.silence.is_some() {
                    self.note_silence();
                }
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(error)) => {
                // The last event says so too, after those that came before.
                self.broken = Some(error.into());
                Poll::Ready(Ok(()))
            }
            Poll::Pending => self.poll_renewal(context),
        }
    }

    #[cold]
    fn note_silence(&mut self) {
        let is_silent = self.driver.connection().is_silent();
        self.silence = is_silent.then(|| {
            let time = 2 * self.endpoint.options.probe_after;
            ServiceError::of_connection(SILENT, format!("the service has sent nothing for {time:?}"))
        });
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
        loop {
            match &mut self.renewal {
                Renewal::Never => return Poll::Pending,
                Renewal::Waiting => {
                    ready!(self.timer.as_mut().poll(context));
                    if let Some(claim) = token::signed(&self.endpoint) {
                        self.put(claim);
                        return Poll::Ready(Ok(()));
                    }
                    let endpoint = Arc::clone(&self.endpoint);
                    self.renewal = Renewal::Asking(Box::pin(async move {
                        let options = &endpoint.options;
                        options.identity.token(options.token_scope).await
                    }));
                }
                Renewal::Asking(asking) => match ready!(asking.as_mut().poll(context)) {
                    // There is no newer one yet, and this one still serves.
                    Ok(token) if self.bearer.as_ref().is_some_and(|put| put.is(&token)) => {
                        self.wait_until(Some(token.renew_at()));
                    }
                    Ok(token) => {
                        let claim = token::borne(&self.endpoint, token);
                        self.put(claim);
                        return Poll::Ready(Ok(()));
                    }
                    Err(error) => return Poll::Ready(Err(ServiceError::from(error).of_working_client())),
                },
                Renewal::Requested { .. } => {
                    ready!(self.timer.as_mut().poll(context));
                    let limit = self.endpoint.options.connect_timeout;
                    return Poll::Ready(Err(timed_out("the token was not renewed", limit)));
                }
            }
        }
    }

    /// Puts tokens in the place of those before.
    fn put(&mut self, claim: Claim) {
        let Claim { requests, renew_at, bearer } = claim;
        self.bearer = bearer;
        self.put_next(requests.into_iter(), renew_at);
    }

    /// Puts the first of these tokens; the others follow its reply.
    fn put_next(&mut self, mut others: vec::IntoIter<Request<'static>>, renew_at: Option<Instant>) {
        let Some(request) = others.next() else {
            self.wait_until(renew_at);
            return;
        };
        match self.token_links.send(self.driver.connection(), &request) {
            Ok(id) => {
                self.renewal = Renewal::Requested { id, others, renew_at };
                let limit = self.endpoint.options.connect_timeout;
                self.timer.as_mut().reset(Instant::now() + limit);
            }
            // No credit at the moment: there is a quarter of the token's life left to try, from the first one on.
            Err(_) => self.wait_until(Some(Instant::now() + RENEWAL_RETRY)),
        }
    }

    /// The token serves until then.
    fn wait_until(&mut self, renew_at: Option<Instant>) {
        self.renewal = renew_at.map_or(Renewal::Never, |_| Renewal::Waiting);
        self.timer.as_mut().reset(renew_at.unwrap_or_else(Instant::now));
    }
}

impl fmt::Debug for Renewal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Waiting => "Waiting",
            Self::Asking(_) => "Asking",
            Self::Requested { .. } => "Requested",
            Self::Never => "Never",
        })
    }
}

fn no_room() -> ServiceError {
    let description = format!(
        "the connection is full: it takes at most {LINKS_MAX} links, one for each partition; let more relays share the partitions of \
         the source, or send to a hub with fewer"
    );
    ServiceError::of_connection(PROTOCOL, description)
}

fn timed_out(what: &str, limit: Duration) -> ServiceError {
    ServiceError::of_connection(TIMEOUT, format!("{what} within {limit:?}"))
}

/// How long a renewal waits for credit before it looks again.
const RENEWAL_RETRY: Duration = Duration::from_secs(1);

/// How long a closing connection waits for the socket to take its last bytes.
const CLOSE_PATIENCE: Duration = Duration::from_secs(1);
