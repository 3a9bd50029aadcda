//! A connection that speaks HTTP/1.1.
//!
//! ```text
//!  read ─▶ head ─┬─ its body is there ───────────────────────▶ start ─▶ finish ─▶ reply ─▶ written once nothing more is there
//!                └─ it is not: may it come? ─▶ read the body ──┘
//! ```
//!
//! A request that has arrived completely is carried out where it lies. Requests that came together are answered together. Everything
//! has its bound: a head by bytes and time, a body by what its client may send, by memory and time, and a silent client by time.
//! After whatever leaves open where the next request begins, the connection ends.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use ::rest::chunked::Decoder;
use ::rest::head::{EMPTY_FIELD, FIELDS_MAX, Framing, Head, HeadError};
use amqp_tokio::Stream;
use bytes::{Buf as _, Bytes, BytesMut};
use listen::http::Farewell;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep_until};

use super::body_memory::{BodyMemory, NO_MEMORY};
use super::counters::Operation;
use super::refusal::Refusal;
use super::reply::Reply;
use super::session::Session;
use super::{Request, Step};
use crate::front::listener::PROOF_PATIENCE;

/// Serves the requests that come over `stream` until the connection ends.
pub(super) async fn serve(stream: Stream, session: &Session, mut stop: watch::Receiver<bool>) {
    let now = Instant::now();
    let mut connection = Connection {
        stream,
        session,
        input: BytesMut::with_capacity(READ_MIN),
        searched: 0,
        output: Vec::new(),
        patience: Patience::new(now + IDLE),
        proof_until: now + PROOF_PATIENCE,
    };
    let mut stopped = pin!(stopped(&mut stop));
    match connection.run(stopped.as_mut()).await {
        End::Closing => {
            connection.close().await;
        }
        End::Refusing => {
            if connection.close().await {
                connection.drop_input(stopped).await;
            }
        }
        End::Gone => {}
    }
}

/// Ready when the service stops.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    while !*stop.borrow_and_update() {
        if stop.changed().await.is_err() {
            return;
        }
    }
}

struct Connection<'s> {
    stream: Stream,
    session: &'s Session,
    /// What has come and is not answered.
    input: BytesMut,
    /// How much of it was searched in vain for the end of a head.
    searched: usize,
    /// Replies that are not written.
    output: Vec<u8>,
    patience: Patience,
    /// By when the client must have shown a token.
    proof_until: Instant,
}

/// What there is to do.
enum Next {
    /// A request is being carried out.
    Started(Answering, Step),
    /// A request has come whose body has not.
    Body(Awaited),
    /// The connection ends with this reply.
    Last(Answering, Reply),
    /// There is no complete head.
    Incomplete,
}

/// What a reply needs to know of its request.
#[derive(Debug, Clone, Copy)]
struct Answering {
    operation: Operation,
    keeps_alive: bool,
    /// Whether the client wants the body of the reply.
    has_body: bool,
    bytes_in: usize,
}

/// A body that is to come.
struct Awaited {
    framing: Framing,
    most: usize,
    head_length: usize,
    expects_continue: bool,
}

/// Why a connection ends.
enum End {
    /// By us, after what was written.
    Closing,
    /// The same, while the client may still be sending: it is to be able to read why.
    Refusing,
    /// By the client, or it has had its time.
    Gone,
}

/// How reading ended that brought nothing.
enum Quiet {
    /// The client has closed or reset the connection.
    Closed,
    /// It took too long.
    Late,
    /// The service stops.
    Stopped,
}

impl<'s> Connection<'s> {
    async fn run(&mut self, mut stopped: Pin<&mut impl Future<Output = ()>>) -> End {
        // Since when a head has been coming.
        let mut head_until = None;
        loop {
            let next = match self.next_request() {
                Next::Body(awaited) => match self.read_body(awaited, stopped.as_mut()).await {
                    Ok(next) => next,
                    Err(end) => return end,
                },
                next => next,
            };
            match next {
                Next::Started(answering, step) => {
                    head_until = None;
                    let reply = match step {
                        Step::Done(reply) => reply,
                        step => match self.finish(step, stopped.as_mut()).await {
                            Some(reply) => reply,
                            None => return End::Gone,
                        },
                    };
                    self.put(&reply, answering);
                    if !answering.keeps_alive {
                        return End::Closing;
                    }
                    if self.output.len() >= OUTPUT_MAX && self.write().await.is_err() {
                        return End::Gone;
                    }
                }
                Next::Last(answering, reply) => {
                    self.put(&reply, Answering { keeps_alive: false, ..answering });
                    return End::Refusing;
                }
                Next::Body(_) => return End::Gone,
                Next::Incomplete => {
                    if self.write().await.is_err() {
                        return End::Gone;
                    }
                    self.shrink();
                    let now = Instant::now();
                    let is_idle = self.input.is_empty();
                    let until = match is_idle {
                        true => now + IDLE,
                        false => *head_until.get_or_insert(now + HEAD_PATIENCE),
                    };
                    match self.read(until, stopped.as_mut()).await {
                        Ok(()) => {}
                        Err(Quiet::Closed) => return End::Gone,
                        Err(Quiet::Stopped) => return End::Closing,
                        Err(Quiet::Late) if is_idle => return End::Closing,
                        Err(Quiet::Late) => {
                            let text = "The head of the request did not arrive in time.";
                            self.put(&self.refused(408, text), Answering::NONE);
                            return End::Refusing;
                        }
                    }
                }
            }
        }
    }

    /// Begins to carry out the next request, if it is there.
    fn next_request(&mut self) -> Next {
        if self.input.is_empty() || !self.may_have_head() {
            return match self.input.len() > HEAD_MAX {
                true => {
                    Next::Last(Answering::NONE, self.refused(431, "The head of the request is too long."))
                }
                false => Next::Incomplete,
            };
        }
        let mut fields = [EMPTY_FIELD; FIELDS_MAX];
        let head = match Head::parse(&self.input, &mut fields) {
            Ok(Some(head)) if head.length <= HEAD_MAX => head,
            Ok(None) if self.input.len() <= HEAD_MAX => return Next::Incomplete,
            Ok(_) => {
                return Next::Last(
                    Answering::NONE,
                    self.refused(431, "The head of the request is too long."),
                );
            }
            Err(error) => return self.malformed(error),
        };
        let request = Request::of(&head);
        let mut answering = Answering::to(&head);
        if let Framing::Length(length) = head.framing
            && let Some(rest) = self.input.get(head.length..)
            && let Some(body) = usize::try_from(length).ok().and_then(|length| rest.get(..length))
        {
            let (operation, step) = self.session.start(&request, body);
            answering = Answering { operation, bytes_in: body.len(), ..answering };
            let used = head.length + body.len();
            self.input.advance(used);
            self.searched = 0;
            return Next::Started(answering, step);
        }
        match self.session.admit(&request) {
            Ok(most) => Next::Body(Awaited {
                framing: head.framing,
                most,
                head_length: head.length,
                expects_continue: head.expects_continue,
            }),
            Err((operation, reply)) => Next::Last(Answering { operation, ..answering }, reply),
        }
    }

    /// Whether there may be a head: not every byte that comes is worth a look at all of them.
    fn may_have_head(&mut self) -> bool {
        let searched = std::mem::replace(&mut self.searched, self.input.len());
        // The first bytes are looked at in any case: what is none of HTTP shows at once.
        searched == 0 || self.input[searched.saturating_sub(3)..].windows(4).any(|end| end == b"\r\n\r\n")
    }

    /// Reads a body, and begins to carry out its request.
    async fn read_body(
        &mut self,
        awaited: Awaited,
        mut stopped: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<Next, End> {
        let Awaited { framing, most, head_length, expects_continue } = awaited;
        let too_large = |this: &Self| {
            let reply = this.session.refused_at("", Refusal::too_large(most));
            Ok(Next::Last(Answering { operation: Operation::Send, ..Answering::NONE }, reply))
        };
        let length = match framing {
            Framing::Length(length) => match usize::try_from(length).ok().filter(|length| *length <= most) {
                Some(length) => Some(length),
                None => return too_large(self),
            },
            Framing::Chunked => None,
        };
        let mut memory = BodyMemory::new(self.session.front.namespace.memory());
        let head = self.input.split_to(head_length).freeze();
        self.searched = 0;
        if expects_continue && self.input.is_empty() {
            self.output.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
        }
        if self.write().await.is_err() {
            return Err(End::Gone);
        }
        let until = Instant::now() + BODY_PATIENCE;
        let mut chunks = Decoder::new(most);
        let mut content = Vec::new();
        loop {
            match length {
                Some(length) if self.input.len() >= length => {
                    let body = self.input.split_to(length);
                    return Ok(self.start(&head, &body));
                }
                Some(_) => {}
                None => {
                    match chunks.read(&self.input, &mut content) {
                        Ok(used) => self.input.advance(used),
                        Err(::rest::chunked::ChunkError::TooLong { .. }) => return too_large(self),
                        Err(error) => {
                            let reply = self.refused(400, &format!("The request is malformed: {error}."));
                            return Ok(Next::Last(Answering::NONE, reply));
                        }
                    }
                    if chunks.is_done() {
                        return Ok(self.start(&head, &content));
                    }
                }
            }
            if !memory.holds(self.input.len() + content.len()) {
                let busy = self.session.refused_at("", Refusal::busy(NO_MEMORY));
                return Ok(Next::Last(Answering::NONE, busy));
            }
            match self.read(until, stopped.as_mut()).await {
                Ok(()) => {}
                Err(Quiet::Closed) => return Err(End::Gone),
                Err(Quiet::Stopped) => return Err(End::Closing),
                Err(Quiet::Late) => {
                    let reply = self.refused(408, "The body of the request did not arrive in time.");
                    return Ok(Next::Last(Answering::NONE, reply));
                }
            }
        }
    }

    /// Begins to carry out a request whose body came after its head.
    fn start(&self, head: &Bytes, body: &[u8]) -> Next {
        let mut fields = [EMPTY_FIELD; FIELDS_MAX];
        match Head::parse(head, &mut fields) {
            Ok(Some(head)) => {
                let (operation, step) = self.session.start(&Request::of(&head), body);
                let answering = Answering { operation, bytes_in: body.len(), ..Answering::to(&head) };
                Next::Started(answering, step)
            }
            // It could be read before.
            Ok(None) => Next::Last(Answering::NONE, self.refused(400, "The request is incomplete.")),
            Err(error) => self.malformed(error),
        }
    }

    /// Waits for what has to come before a reply. `None` if the connection is over before that.
    async fn finish(&mut self, step: Step, mut stopped: Pin<&mut impl Future<Output = ()>>) -> Option<Reply> {
        self.write().await.ok()?;
        let session = self.session;
        // What was stored is acknowledged even if the service stops.
        let may_stop = matches!(step, Step::Receive(_));
        let mut finished = pin!(session.finish(step));
        loop {
            let has_room = self.input.len() < HEAD_MAX;
            self.input.reserve(READ_MIN);
            tokio::select! {
                biased;
                reply = &mut finished => return reply,
                // What comes meanwhile waits its turn. That the client has gone is noticed.
                read = self.stream.read_buf(&mut self.input), if has_room => {
                    if !matches!(read, Ok(1..)) {
                        return None;
                    }
                }
                () = stopped.as_mut(), if may_stop => return None,
            }
        }
    }

    /// Reads more, by `until` at the latest.
    async fn read(
        &mut self,
        until: Instant,
        mut stopped: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<(), Quiet> {
        let until = match self.session.is_proven() {
            true => until,
            false => until.min(self.proof_until),
        };
        self.input.reserve(READ_MIN);
        let mut reading = pin!(self.stream.read_buf(&mut self.input));
        let patience = &mut self.patience;
        poll_fn(|cx| {
            if let Poll::Ready(read) = reading.as_mut().poll(cx) {
                return Poll::Ready(match read {
                    Ok(1..) => Ok(()),
                    Ok(0) | Err(_) => Err(Quiet::Closed),
                });
            }
            if stopped.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Err(Quiet::Stopped));
            }
            patience.poll_over(cx, until).map(|()| Err(Quiet::Late))
        })
        .await
    }

    /// Writes the replies that are there.
    async fn write(&mut self) -> Result<(), ()> {
        if self.output.is_empty() {
            return Ok(());
        }
        let writing = async {
            self.stream.write_all(&self.output).await?;
            self.stream.flush().await
        };
        let written = tokio::time::timeout(STALL, writing).await;
        self.output.clear();
        match written {
            Ok(Ok(())) => Ok(()),
            _ => Err(()),
        }
    }

    fn put(&mut self, reply: &Reply, answering: Answering) {
        let Answering { operation, keeps_alive, has_body, bytes_in } = answering;
        reply.write(&mut self.output, keeps_alive, has_body);
        self.session.front.counters.answered(operation, reply.status, bytes_in, reply.body.len());
    }

    /// Closes the sending side of the connection after what was written. True if that is done.
    async fn close(&mut self) -> bool {
        self.write().await.is_ok()
            && matches!(tokio::time::timeout(FAREWELL, self.stream.shutdown()).await, Ok(Ok(())))
    }

    /// Drops what a refused client still sends, so that it can read the refusal.
    async fn drop_input(&mut self, stopped: Pin<&mut impl Future<Output = ()>>) {
        let mut farewell = Farewell::start();
        tokio::select! {
            () = poll_fn(|cx| farewell.poll_dropped(cx, &mut self.stream)) => {}
            // That of a connection that was refused has not been ready before.
            () = stopped => {}
        }
    }

    /// A connection at rest holds little.
    fn shrink(&mut self) {
        if self.input.is_empty() && self.input.capacity() > INPUT_KEPT {
            self.input = BytesMut::new();
        }
        if self.output.capacity() > INPUT_KEPT {
            self.output = Vec::new();
        }
    }

    fn refused(&self, status: u16, text: &str) -> Reply {
        self.session.refused_at("", Refusal::new(status, text))
    }

    fn malformed(&self, error: HeadError) -> Next {
        Next::Last(
            Answering::NONE,
            self.refused(error.status(), &format!("The request can't be served: {error}.")),
        )
    }
}

impl Answering {
    /// A reply to what is no request.
    const NONE: Self = Self { operation: Operation::Other, keeps_alive: false, has_body: true, bytes_in: 0 };

    fn to(head: &Head<'_>) -> Self {
        Self { keeps_alive: head.keeps_alive, has_body: head.method != "HEAD", ..Self::NONE }
    }
}

/// A time-out that is put off again and again, and costs next to nothing until it comes near.
#[derive(Debug)]
struct Patience {
    timer: Pin<Box<Sleep>>,
}

impl Patience {
    fn new(until: Instant) -> Self {
        Self { timer: Box::pin(sleep_until(until)) }
    }

    /// Ready when `until` has come.
    fn poll_over(&mut self, cx: &mut Context<'_>, until: Instant) -> Poll<()> {
        if until < self.timer.deadline() {
            self.timer.as_mut().reset(until);
        }
        loop {
            ready!(self.timer.as_mut().poll(cx));
            if until <= self.timer.deadline() {
                return Poll::Ready(());
            }
            self.timer.as_mut().reset(until);
        }
    }
}

/// The longest head: twice what the service's web server takes.
pub(super) const HEAD_MAX: usize = 32 * 1024;

/// How long the head of a request may take from its first byte to its last.
const HEAD_PATIENCE: Duration = Duration::from_secs(10);

/// How long a body may take.
const BODY_PATIENCE: Duration = Duration::from_secs(60);

/// How long a client may be silent between requests.
const IDLE: Duration = Duration::from_secs(300);

/// How long it may take nothing of what is sent to it.
const STALL: Duration = Duration::from_secs(60);

/// How long the end of the last reply may take to be sent.
const FAREWELL: Duration = Duration::from_secs(1);

/// Room for each read.
const READ_MIN: usize = 4 * 1024;

/// Input and output that a connection at rest keeps.
const INPUT_KEPT: usize = 16 * 1024;

/// Replies that are gathered before they are written.
const OUTPUT_MAX: usize = 64 * 1024;

#[cfg(test)]
mod tests;
