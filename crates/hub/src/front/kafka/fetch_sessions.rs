//! What a connection remembers from one request to fetch to the next (KIP-227).
//!
//! A client that reads many partitions opens a *session*: it names all of them once, and after that only those of which it
//! wants something else. The answers leave out where there is nothing new. What is remembered of a partition is where the last
//! answer ended, so that going on from there needs no search, and the subscription to its log.
//!
//! A session belongs to its connection, and each connection has one at most. Kafka keeps sessions for the whole broker; but a
//! client sends all of its requests to fetch over one connection, and one that has lost its session, for whatever reason,
//! names all of its partitions again. Without sessions, clients name all of them each time; places are remembered all the same.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};

use kafka::ErrorCode;
use kafka::fetch::{FetchRequest, TopicRef};
use partition_log::Isolation;

use super::fetch::Watched;
use super::topics::Topics;

/// What a connection remembers.
#[derive(Debug)]
pub(super) struct FetchMemory<'f> {
    session: Option<Session<'f>>,
    /// The partitions of the session or, without one, those of the last request.
    partitions: Vec<Watched>,
    totals: &'f SessionTotals,
    last_id: i32,
}

/// A session that is open.
#[derive(Debug)]
struct Session<'f> {
    id: i32,
    /// The number of the next request.
    epoch: i32,
    /// Whether its requests name topics by their ids.
    has_topic_ids: bool,
    held: Held<'f>,
}

/// The sessions of all connections.
#[derive(Debug, Default)]
pub(super) struct SessionTotals {
    pub(super) sessions: AtomicU64,
    pub(super) partitions: AtomicU64,
}

/// What one session has of the totals.
#[derive(Debug)]
struct Held<'f> {
    totals: &'f SessionTotals,
    partitions: u64,
}

/// How a request belongs to a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Not at all: the answer has all partitions, and no session's id.
    Alone,
    /// It opens the session with this id: the answer has all partitions.
    Opens(i32),
    /// It continues the session with this id: the answer has the partitions with news.
    Continues(i32),
}

impl Turn {
    /// The session's id; 0 for none.
    pub(super) const fn session_id(self) -> i32 {
        match self {
            Self::Alone => 0,
            Self::Opens(id) | Self::Continues(id) => id,
        }
    }
}

impl<'f> FetchMemory<'f> {
    pub(super) const fn new(totals: &'f SessionTotals) -> Self {
        Self { session: None, partitions: Vec::new(), totals, last_id: 0 }
    }

    /// Takes a request: how it belongs to a session, and the partitions that are wanted.
    pub(super) fn begin<'a>(
        &mut self,
        request: &FetchRequest<'a>,
        version: i16,
        topics: &mut Topics<'a>,
    ) -> Result<(Turn, Vec<Watched>), ErrorCode> {
        match request.session_epoch {
            // A full request ends the session that there may be.
            CLOSES | OPENS => {
                self.session = None;
                let partitions = self.named(request, topics);
                let turn = match request.session_epoch {
                    OPENS => self.open(partitions.len(), version),
                    _ => Turn::Alone,
                };
                Ok((turn, partitions))
            }
            _ => self.proceed(request, version, topics),
        }
    }

    /// Remembers the partitions of a request that is answered.
    pub(super) fn keep(&mut self, turn: Turn, mut partitions: Vec<Watched>) {
        if turn == Turn::Alone && partitions.len() > KEPT_WITHOUT_SESSION {
            return;
        }
        if turn != Turn::Alone && partitions.iter().any(Watched::has_events) {
            // Those that had nothing come first the next time, so that none is left out for ever. This keeps their order.
            partitions.sort_by_key(Watched::has_events);
        }
        partitions.iter_mut().for_each(Watched::clear);
        self.partitions = partitions;
    }

    /// Opens a session of so many partitions, unless that is too much.
    fn open(&mut self, partitions: usize, version: i16) -> Turn {
        let Some(held) = Held::new(self.totals, partitions) else {
            return Turn::Alone;
        };
        self.last_id = next(self.last_id);
        let (id, has_topic_ids) = (self.last_id, has_topic_ids(version));
        self.session = Some(Session { id, epoch: 1, has_topic_ids, held });
        Turn::Opens(id)
    }

    /// The partitions that a full request names. It may have named most of them the last time, in the same order.
    fn named<'a>(&mut self, request: &FetchRequest<'a>, topics: &mut Topics<'a>) -> Vec<Watched> {
        let isolation = isolation(request);
        let mut before: Vec<_> = std::mem::take(&mut self.partitions).into_iter().map(Some).collect();
        let (mut place, mut has_searched) = (0, false);
        let mut partitions: Vec<Watched> = Vec::with_capacity(request.partitions.len());
        for asked in &request.partitions {
            let is_asked =
                |slot: &Option<Watched>| slot.as_ref().is_some_and(|it| it.is_of(asked.topic, asked.index));
            if !before.get(place).is_some_and(is_asked) && !has_searched {
                // Clients begin with another one each time; more than one search is not worth it.
                has_searched = true;
                place = before.iter().position(is_asked).unwrap_or(place);
            }
            let known = before.get_mut(place).filter(|slot| is_asked(slot)).and_then(Option::take);
            place = if place + 1 < before.len() { place + 1 } else { 0 };
            let mut watched = known.unwrap_or_else(|| Watched::new(partitions.last(), asked));
            watched.ask(topics, asked, isolation);
            partitions.push(watched);
        }
        partitions
    }

    /// Continues a session.
    fn proceed<'a>(
        &mut self,
        request: &FetchRequest<'a>,
        version: i16,
        topics: &mut Topics<'a>,
    ) -> Result<(Turn, Vec<Watched>), ErrorCode> {
        let session = self.session.as_mut().filter(|session| session.id == request.session_id);
        let session = session.ok_or(ErrorCode::FetchSessionIdNotFound)?;
        if session.has_topic_ids != has_topic_ids(version) {
            return Err(ErrorCode::FetchSessionTopicIdError);
        }
        if session.epoch != request.session_epoch {
            return Err(ErrorCode::InvalidFetchSessionEpoch);
        }
        session.epoch = next(session.epoch);
        let mut partitions = std::mem::take(&mut self.partitions);
        if !request.partitions.is_empty() || !request.forgotten.is_empty() {
            change(&mut partitions, request, topics);
        }
        let turn = Turn::Continues(session.id);
        if partitions.is_empty() {
            self.session = None;
            return Ok((Turn::Alone, partitions));
        }
        if !session.held.resize(partitions.len()) {
            self.session = None;
            return Err(ErrorCode::FetchSessionIdNotFound);
        }
        for watched in &mut partitions {
            watched.look_again(topics, isolation(request));
        }
        Ok((turn, partitions))
    }
}

/// Adds to the partitions of a session what a request names, changes what is there, and takes away what it wants no longer.
fn change<'a>(partitions: &mut Vec<Watched>, request: &FetchRequest<'a>, topics: &mut Topics<'a>) {
    let isolation = isolation(request);
    let places: HashMap<(TopicRef<'_>, i32), usize> = partitions
        .iter()
        .enumerate()
        .map(|(place, watched)| ((watched.topic(), watched.index()), place))
        .collect();
    let known: Vec<_> =
        request.partitions.iter().map(|asked| places.get(&(asked.topic, asked.index)).copied()).collect();
    drop(places);
    for (asked, place) in request.partitions.iter().zip(known) {
        match place.and_then(|place| partitions.get_mut(place)) {
            Some(watched) => watched.ask(topics, asked, isolation),
            None => {
                let mut watched = Watched::new(partitions.last(), asked);
                watched.ask(topics, asked, isolation);
                partitions.push(watched);
            }
        }
    }
    let forgotten: HashSet<(TopicRef<'_>, i32)> = request.forgotten.iter().copied().collect();
    if !forgotten.is_empty() {
        partitions.retain(|watched| !forgotten.contains(&(watched.topic(), watched.index())));
    }
}

impl<'f> Held<'f> {
    /// Room for a session with so many partitions, if there is any.
    fn new(totals: &'f SessionTotals, partitions: usize) -> Option<Self> {
        totals.sessions.fetch_add(1, Ordering::Relaxed);
        let mut held = Self { totals, partitions: 0 };
        (partitions > 0 && held.resize(partitions)).then_some(held)
    }

    /// Makes room for another number of partitions. False if there is none.
    fn resize(&mut self, partitions: usize) -> bool {
        let partitions = partitions as u64;
        self.totals.partitions.fetch_sub(self.partitions, Ordering::Relaxed);
        let others = self.totals.partitions.fetch_add(partitions, Ordering::Relaxed);
        self.partitions = partitions;
        others + partitions <= PARTITIONS_MAX
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.totals.sessions.fetch_sub(1, Ordering::Relaxed);
        self.totals.partitions.fetch_sub(self.partitions, Ordering::Relaxed);
    }
}

/// What a request wants to read.
const fn isolation(request: &FetchRequest<'_>) -> Isolation {
    match request.is_read_committed {
        true => Isolation::Committed,
        false => Isolation::Uncommitted,
    }
}

const fn has_topic_ids(version: i16) -> bool {
    version >= 13
}

/// The number after this one; never 0, which has a meaning.
const fn next(number: i32) -> i32 {
    match number {
        i32::MAX => 1,
        number => number + 1,
    }
}

/// The epoch of a request that opens a session.
const OPENS: i32 = 0;

/// The epoch of a request outside of a session, which ends the one that there may be.
const CLOSES: i32 = -1;

/// Partitions that all sessions together may have.
const PARTITIONS_MAX: u64 = 256 * 1024;

/// Partitions that are remembered of a client that opens no session.
const KEPT_WITHOUT_SESSION: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_share_what_there_is_and_give_it_back() {
        let totals = SessionTotals::default();
        let all = usize::try_from(PARTITIONS_MAX).unwrap();
        let mut first = Held::new(&totals, all).unwrap();
        assert!(Held::new(&totals, 1).is_none());
        assert!(first.resize(all - 1));
        let second = Held::new(&totals, 1).unwrap();
        assert!(!first.resize(all));
        assert_eq!(totals.sessions.load(Ordering::Relaxed), 2);
        drop((first, second));
        assert_eq!(totals.sessions.load(Ordering::Relaxed), 0);
        assert_eq!(totals.partitions.load(Ordering::Relaxed), 0);
        assert_eq!([next(0), next(i32::MAX)], [1, 1]);
    }
}
