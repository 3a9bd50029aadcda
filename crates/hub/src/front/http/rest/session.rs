//! What a connection has shown, and what the service profile makes of it.
//!
//! A token is verified once for each text of it: a client that sends event after event with the same token to the same URL is known
//! by both, and nothing is looked up for it.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, ready};
use std::time::SystemTime;

use ::rest::target::Target;
use access::Right;
use listen::{Place, Places};
use partition_log::disk::{CommitNumber, CommitState, CommitWatch};
use tokio::time::Instant;

use super::administration;
use super::counters::Operation;
use super::event_hubs::PUBLICATION_MAX;
use super::refusal::Refusal;
use super::reply::Reply;
use super::route::{Asked, Route};
use super::{Request, RestFront, Step};
use crate::clock::TokenNow;
use crate::front::client_host;
use crate::front::pending::Until;
use crate::namespace::SignaturePolicy;
use crate::profile::{Fate, PreciseTimer, Shaped, Shaper};

/// A connection.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) front: Arc<RestFront>,
    /// The place of the connection; `None` where it is a place of another front.
    place: Option<Place>,
    /// Whether nothing is sent to entities or received from them.
    administers_only: bool,
    /// The place among connections over HTTP/2 without a token, until the client shows one.
    unproven_place: Mutex<Option<Place>>,
    shaper: Option<Mutex<Shaper>>,
    is_secure: bool,
    /// Host name that the client uses for the service in its requests; `None` before the first one with such a name.
    host: Mutex<Option<Box<str>>>,
    known: Mutex<Option<Known>>,
    /// Kept between requests that wait for commits.
    commits: Mutex<Option<CommitWatch>>,
}

/// A send that was found to be allowed.
#[derive(Debug)]
struct Known {
    target: Box<str>,
    token: Box<[u8]>,
    route: Route,
    expires_at: Option<SystemTime>,
}

/// What a token allows.
#[derive(Debug)]
struct Allowed {
    expires_at: Option<SystemTime>,
    /// Whether the token has the right to manage.
    manages: bool,
}

/// A request that may be carried out.
#[derive(Debug)]
struct Admitted {
    operation: Operation,
    route: Result<Route, Refusal>,
}

impl Session {
    pub(super) fn new(front: Arc<RestFront>, place: Place, shaper: Option<Shaper>, is_secure: bool) -> Self {
        Self {
            front,
            place: Some(place),
            administers_only: false,
            unproven_place: Mutex::default(),
            shaper: shaper.map(Mutex::new),
            is_secure,
            host: Mutex::default(),
            known: Mutex::default(),
            commits: Mutex::default(),
        }
    }

    /// For requests of administration, and nothing else, on a connection of another front that is not encrypted.
    pub(super) fn of_administration(front: Arc<RestFront>) -> Self {
        Self {
            front,
            place: None,
            administers_only: true,
            unproven_place: Mutex::default(),
            shaper: None,
            is_secure: false,
            host: Mutex::default(),
            known: Mutex::default(),
            commits: Mutex::default(),
        }
    }

    /// Whether its client has shown that it may do something.
    pub(super) fn is_proven(&self) -> bool {
        self.place.as_ref().is_none_or(Place::is_proven)
    }

    /// Takes a place among `places` until the client shows a token. The result is ready if the connection has to end before that.
    pub(super) fn take_unproven_place(&self, places: &Arc<Places>) -> impl Future<Output = ()> + use<> {
        // Nothing in there is ever proven, so there is room, or a connection that makes room.
        let place = places.take();
        let lost = place.as_ref().map(Place::lost);
        *lock(&self.unproven_place) = place;
        async move {
            match lost {
                Some(lost) => lost.await,
                None => std::future::pending().await,
            }
        }
    }

    fn prove(&self) {
        if let Some(place) = self.place.as_ref().filter(|place| !place.is_proven()) {
            place.prove();
            lock(&self.unproven_place).take();
        }
    }

    /// How long the body of a request may be, before it is read.
    ///
    /// # Errors
    /// The reply to a request of which no body is wanted.
    pub(super) fn admit(&self, request: &Request<'_>) -> Result<usize, (Operation, Reply)> {
        let admitted = self.admitted(request, self.front.namespace.clock().token_now());
        match admitted.route {
            Err(refusal) => Err((admitted.operation, self.refused(request, refusal))),
            Ok(route) if admitted.operation == Operation::Send => Ok(self.front.longest_body(&route)),
            Ok(_) => Ok(OTHER_BODY_MAX),
        }
    }

    /// Carries out a request that is complete.
    pub(super) fn start(&self, request: &Request<'_>, body: &[u8]) -> (Operation, Step) {
        let clock = self.front.namespace.clock();
        let now = clock.now();
        let Admitted { operation, route } = self.admitted(request, clock.token_now_at(now));
        let step = route.and_then(|route| match route {
            Route::Events(route) => self.send_events(&route, request, body, now.into()),
            Route::Entity(link) => self.send_messages(&link, request, body, now.into()),
            Route::Receive { queue, path, deletes } => self.receive(request, queue, path, deletes),
            Route::Settle { queue, token } => self.settle(operation, &queue, token, now.into()),
            Route::Read { path, manages } => self.read(request, (&path, manages), now.into()),
            Route::Put(path) => self.put(request, &path, body, now.into()),
            Route::Delete(path) => self.delete(request, &path, now.into()),
        });
        (operation, step.unwrap_or_else(|refusal| Step::Done(self.refused(request, refusal))))
    }

    /// Waits for what has to come before a reply. `None` if the connection is to break.
    pub(super) async fn finish(&self, step: Step) -> Option<Reply> {
        match step {
            Step::Done(reply) => Some(reply),
            Step::Later { reply, until } => {
                let committed = self.committed(until.commit).await;
                self.wait_until(until.instant).await;
                Some(committed.map_or_else(|refusal| self.refused_at("", refusal), |()| reply))
            }
            Step::Receive(receiving) => Some(receiving.receive(self).await),
            Step::Break => None,
        }
    }

    /// Stores what `store` stores in `entity`, as the service profile has it: so many bytes and events.
    pub(super) fn store(
        &self,
        entity: &str,
        (bytes, events): (usize, usize),
        count_throttled: impl FnOnce(),
        store: impl FnOnce() -> Result<CommitNumber, Refusal>,
    ) -> Result<Step, Refusal> {
        let Some(shaper) = &self.shaper else {
            let commit = store()?;
            return Ok(after(Reply::created(), Until { commit, instant: None }));
        };
        let now = Instant::now();
        let Shaped { fate, ready_at } = lock(shaper).send(now, entity, bytes as u64, || events as u64);
        let refused = |refusal| (self.refused_at(entity, refusal), CommitNumber::DONE);
        let (reply, commit) = match fate {
            Fate::Succeeds => match store() {
                Ok(commit) => (Reply::created(), commit),
                Err(refusal) => refused(refusal),
            },
            Fate::Fails => refused(Refusal::on_purpose(
                "The service was unable to process the request; please retry the operation.",
            )),
            Fate::Throttled(_) => {
                count_throttled();
                refused(Refusal::throttled(&self.host()))
            }
            Fate::Unacknowledged => {
                let _unsaid = store();
                refused(Refusal::on_purpose("The operation did not complete within the allotted time."))
            }
            Fate::Detached => return Ok(Step::Break),
            Fate::Disconnected => {
                let _unsaid = store();
                return Ok(Step::Break);
            }
        };
        Ok(after(reply, Until { commit, instant: ready_at }))
    }

    /// When the answer to an outcome for a message of `entity` may leave.
    pub(super) fn settle_at(&self, entity: &str) -> Option<Instant> {
        lock(self.shaper.as_ref()?).settle(entity)
    }

    /// When the answer to a question about `entity` may leave.
    pub(super) fn answer_at(&self, entity: &str) -> Option<Instant> {
        lock(self.shaper.as_ref()?).request(Some(entity))
    }

    /// Waits until a message may be given out, as the quota of the service profile has it.
    pub(super) async fn until_delivery(&self) {
        if let Some(shaper) = &self.shaper {
            poll_fn(|cx| lock(shaper).poll_deliveries(cx)).await;
        }
    }

    /// So much was given out.
    pub(super) fn delivered(&self, bytes: usize) {
        if let Some(shaper) = &self.shaper {
            lock(shaper).delivered(1, bytes as u64);
        }
    }

    /// Waits for a commit.
    ///
    /// # Errors
    /// It has failed.
    pub(super) async fn committed(&self, commit: CommitNumber) -> Result<(), Refusal> {
        if commit.is_done() {
            return Ok(());
        }
        let kept = lock(&self.commits).take();
        let Some(mut commits) = kept.or_else(|| self.front.namespace.watch_commits()) else {
            return Ok(());
        };
        let state = poll_fn(|cx| {
            loop {
                match commits.state_of(commit) {
                    CommitState::Waiting => ready!(commits.poll_committed(cx)),
                    state => return Poll::Ready(state),
                }
            }
        })
        .await;
        *lock(&self.commits) = Some(commits);
        match state {
            CommitState::Failed => Err(Refusal::unknown_outcome()),
            _ => Ok(()),
        }
    }

    async fn wait_until(&self, instant: Option<Instant>) {
        if let Some(at) = instant {
            let timer = self.shaper.as_ref().map_or_else(PreciseTimer::coarse, |shaper| lock(shaper).timer());
            timer.wait_until(at).await;
        }
    }

    /// The refusal of a request.
    pub(super) fn refused(&self, request: &Request<'_>, refusal: Refusal) -> Reply {
        let path = Target::parse(request.target);
        self.refused_at(path.as_ref().map_or("", |target| &target.path), refusal)
    }

    /// The same, of one about this path.
    pub(super) fn refused_at(&self, path: &str, refusal: Refusal) -> Reply {
        tracing::debug!(path, status = refusal.status, detail = refusal.detail, "refused");
        refusal.reply(&self.host(), path)
    }

    /// Returns the host name that the client uses for the service.
    pub(super) fn host(&self) -> Box<str> {
        lock(&self.host).clone().unwrap_or_else(|| self.front.namespace.host().into())
    }

    /// Remembers the host name that the client uses. It is the same for all requests of a connection.
    fn note_host(&self, request: &Request<'_>) {
        let host = request.text("host").and_then(client_host::of_authority);
        let mut known = lock(&self.host);
        if host.is_some() && host != known.as_deref() {
            *known = host.map(Into::into);
        }
    }

    /// Where a client finds what is at this path.
    pub(super) fn url(&self, request: &Request<'_>, path: &str) -> String {
        let scheme = if self.is_secure { "https" } else { "http" };
        let host = request.text("host").unwrap_or_else(|| self.front.namespace.host());
        format!("{scheme}://{host}/{path}")
    }

    fn admitted(&self, request: &Request<'_>, now: TokenNow) -> Admitted {
        let token = request.field("authorization").unwrap_or_default();
        if let Some(route) = self.known(request, token, now) {
            return Admitted { operation: Operation::Send, route: Ok(route) };
        }
        let mut operation = Operation::Other;
        let route = self.find(request, token, now, &mut operation);
        Admitted { operation, route }
    }

    #[inline]
    fn known(&self, request: &Request<'_>, token: &[u8], now: TokenNow) -> Option<Route> {
        let known = lock(&self.known);
        let known = known.as_ref().filter(|known| {
            *known.target == *request.target
                && request.method == "POST"
                && *known.token == *token
                && known.expires_at.is_none_or(|expiry| now.time() < expiry)
                && !known.route.is_stale()
        })?;
        Some(known.route.clone())
    }

    /// Finds out what a request asks for, whether its client may, and where it leads.
    fn find(
        &self,
        request: &Request<'_>,
        token: &[u8],
        now: TokenNow,
        operation: &mut Operation,
    ) -> Result<Route, Refusal> {
        self.note_host(request);
        let target = Target::parse(request.target)
            .ok_or_else(|| Refusal::new(400, "The path of the URL is no text in UTF-8."))?;
        let asked = Asked::of(&target.path, request.method)?;
        *operation = asked.operation;
        let Allowed { expires_at, manages } = self.authorize(token, &target.path, &asked, now)?;
        self.prove();
        if self.administers_only
            && !matches!(asked.operation, Operation::Read | Operation::Put | Operation::Delete)
        {
            return Err(Refusal::new(404, ADMINISTERS_ONLY));
        }
        let route = asked.find(&self.front.namespace, manages)?;
        if asked.operation == Operation::Send {
            let (target, token) = (request.target.into(), token.into());
            *lock(&self.known) = Some(Known { target, token, route: route.clone(), expires_at });
        }
        Ok(route)
    }

    /// How far what is asked for is allowed.
    fn authorize(
        &self,
        token: &[u8],
        path: &str,
        asked: &Asked<'_>,
        now: TokenNow,
    ) -> Result<Allowed, Refusal> {
        let namespace = &self.front.namespace;
        if namespace.signatures() == SignaturePolicy::AcceptAny {
            return Ok(Allowed { expires_at: None, manages: true });
        }
        if token.is_empty() {
            return Err(Refusal::without_token());
        }
        let token = String::from_utf8_lossy(token);
        let claim = namespace.authorize_signature(&token, path, now);
        let claim = claim.map_err(|error| Refusal::unauthorized(&error))?;
        match asked.rights.iter().any(|right| claim.rights.contains(*right)) {
            true => {
                let manages = claim.rights.contains(Right::Manage);
                Ok(Allowed { expires_at: claim.expires_at, manages })
            }
            false if matches!(asked.operation, Operation::Put | Operation::Delete) => {
                Err(administration::unchangeable(&self.host(), asked.entity, asked.operation))
            }
            false => Err(Refusal::claim(asked.rights[0], asked.entity)),
        }
    }
}

/// A reply that waits for something, if there is anything to wait for.
pub(super) fn after(reply: Reply, until: Until) -> Step {
    match until.is_over() {
        true => Step::Done(reply),
        false => Step::Later { reply, until },
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Locked sections replace what is there as a whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

const ADMINISTERS_ONLY: &str = "Entities are administered here. Messages are sent and received at the port for AMQP, which takes HTTP as well.";

/// The longest body of a request that sends nothing: a description, if any.
const OTHER_BODY_MAX: usize = 64 * 1024;

const _: () = assert!(OTHER_BODY_MAX < PUBLICATION_MAX);
