//! What a connection remembers from one request to fetch to the next (KIP-227).
//!
//! A client that reads many partitions opens a *session*: it names all of them once, and after that only those of which it
//! wants something else. The answers leave out where there is nothing new. What is remembered of a partition is where the last
//! answer ended, so that going on from there needs no search, and the subscription to its log.
//!
//! A session belongs to its connection, and each connection has one at most. Kafka keeps sessions for the whole broker; but a
//! client sends all of its requests to fetch over one connection, and one that has lost its session, for whatever reason,
//! names all of its partitions again. Without sessions, clients name all of them each time; places are remembered all the same.
//!
//! Partitions of a request that waits and those that are remembered share a budget with those of all other connections.

use std::borrow::Cow;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kafka::ErrorCode;
use kafka::fetch::{FetchPartition, FetchRequest, TopicRef};
use partition_log::Isolation;

use super::fetch::Watched;
use super::topics::Topics;
use crate::front::time_slice::TimeSlice;
use crate::memory::{Memory, Purpose, Share};

/// What a connection remembers.
#[derive(Debug)]
pub(super) struct FetchMemory<'f> {
    session: Option<Session<'f>>,
    /// The partitions of the session or, without one, those of the last request.
    partitions: Vec<Watched>,
    /// Memory of these, or of the partitions of the request that waits.
    share: Share,
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

/// A fetch that is not done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The answer says this.
    Answer(ErrorCode),
    /// The budget for its partitions is used up.
    NoMemory,
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
    pub(super) fn new(totals: &'f SessionTotals, memory: &Arc<Memory>) -> Self {
        let share = Share::new(memory, Purpose::KafkaFetches);
        Self { session: None, partitions: Vec::new(), share, totals, last_id: 0 }
    }

    /// Takes a request: how it belongs to a session, and the partitions that are wanted.
    pub(super) async fn begin<'a>(
        &mut self,
        request: &FetchRequest<'a>,
        version: i16,
        topics: &mut Topics<'a>,
    ) -> Result<(Turn, Vec<Watched>), Refusal> {
        match request.session_epoch {
            // A full request ends the session that there may be.
            CLOSES | OPENS => {
                self.session = None;
                let partitions = self.named(request, topics).await?;
                let turn = match request.session_epoch {
                    OPENS if !partitions.is_empty() => self.open(partitions.len(), version),
                    _ => Turn::Alone,
                };
                Ok((turn, partitions))
            }
            _ => self.proceed(request, version, topics).await,
        }
    }

    /// Remembers the partitions of a request that is answered.
    pub(super) fn keep(&mut self, turn: Turn, mut partitions: Vec<Watched>) {
        if turn == Turn::Alone && partitions.len() > KEPT_WITHOUT_SESSION {
            self.share.release();
            return;
        }
        if turn != Turn::Alone && partitions.iter().any(Watched::has_events) {
            // Those that had nothing come first the next time, so that none is left out for ever. This keeps their order.
            partitions.sort_by_key(Watched::has_events);
        }
        partitions.iter_mut().for_each(Watched::clear);
        self.partitions = partitions;
    }

    /// Opens a session of so many partitions.
    fn open(&mut self, partitions: usize, version: i16) -> Turn {
        self.last_id = next(self.last_id);
        let (id, has_topic_ids) = (self.last_id, has_topic_ids(version));
        let held = Held::new(self.totals, partitions);
        self.session = Some(Session { id, epoch: 1, has_topic_ids, held });
        Turn::Opens(id)
    }

    /// The partitions that a full request names. It may have named most of them the last time, in the same order.
    async fn named<'a>(
        &mut self,
        request: &FetchRequest<'a>,
        topics: &mut Topics<'a>,
    ) -> Result<Vec<Watched>, Refusal> {
        let isolation = isolation(request);
        let wanted = distinct(&request.partitions);
        let mut before: Vec<_> = std::mem::take(&mut self.partitions).into_iter().map(Some).collect();
        if !self.share.resize(memory_of(wanted.iter().map(place))) {
            return Err(Refusal::NoMemory);
        }
        let (mut place, mut has_searched) = (0, false);
        let mut partitions: Vec<Watched> = Vec::with_capacity(wanted.len());
        let mut slice = TimeSlice::of_short_pieces();
        for asked in &*wanted {
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
            slice.pause_if_over().await;
        }
        Ok(partitions)
    }

    /// Continues a session.
    async fn proceed<'a>(
        &mut self,
        request: &FetchRequest<'a>,
        version: i16,
        topics: &mut Topics<'a>,
    ) -> Result<(Turn, Vec<Watched>), Refusal> {
        let session = self.session.as_mut().filter(|session| session.id == request.session_id);
        let session = session.ok_or(Refusal::Answer(ErrorCode::FetchSessionIdNotFound))?;
        if session.has_topic_ids != has_topic_ids(version) {
            return Err(Refusal::Answer(ErrorCode::FetchSessionTopicIdError));
        }
        if session.epoch != request.session_epoch {
            return Err(Refusal::Answer(ErrorCode::InvalidFetchSessionEpoch));
        }
        session.epoch = next(session.epoch);
        let mut partitions = std::mem::take(&mut self.partitions);
        if !request.partitions.is_empty() || !request.forgotten.is_empty() {
            change(&mut partitions, request, topics, &mut self.share).await?;
        }
        let turn = Turn::Continues(session.id);
        if partitions.is_empty() {
            self.session = None;
            return Ok((Turn::Alone, partitions));
        }
        session.held.resize(partitions.len());
        let mut slice = TimeSlice::of_short_pieces();
        for watched in &mut partitions {
            watched.look_again(topics, isolation(request));
            slice.pause_if_over().await;
        }
        Ok((turn, partitions))
    }
}

/// Adds to the partitions of a session what a request names, changes what is there, and takes away what it wants no longer.
async fn change<'a>(
    partitions: &mut Vec<Watched>,
    request: &FetchRequest<'a>,
    topics: &mut Topics<'a>,
    share: &mut Share,
) -> Result<(), Refusal> {
    let isolation = isolation(request);
    let wanted = distinct(&request.partitions);
    let places: HashMap<(TopicRef<'_>, i32), usize> =
        partitions.iter().enumerate().map(|(number, watched)| (watched.place(), number)).collect();
    let known: Vec<_> = wanted.iter().map(|asked| places.get(&place(asked)).copied()).collect();
    drop(places);
    let added = wanted.iter().zip(&known).filter(|(_, known)| known.is_none()).map(|(asked, _)| place(asked));
    if !share.resize(share.held() + memory_of(added)) {
        return Err(Refusal::NoMemory);
    }
    let mut slice = TimeSlice::of_short_pieces();
    for (asked, known) in wanted.iter().zip(known) {
        match known.and_then(|number| partitions.get_mut(number)) {
            Some(watched) => watched.ask(topics, asked, isolation),
            None => {
                let mut watched = Watched::new(partitions.last(), asked);
                watched.ask(topics, asked, isolation);
                partitions.push(watched);
            }
        }
        slice.pause_if_over().await;
    }
    let forgotten: HashSet<(TopicRef<'_>, i32)> = request.forgotten.iter().copied().collect();
    if !forgotten.is_empty() {
        partitions.retain(|watched| !forgotten.contains(&watched.place()));
        share.shrink_to(memory_of(partitions.iter().map(Watched::place)));
    }
    Ok(())
}

/// The partitions of a request, each once: where it is named first, with what is said of it last, as in Kafka.
fn distinct<'r, 'a>(named: &'r [FetchPartition<'a>]) -> Cow<'r, [FetchPartition<'a>]> {
    if named.is_sorted_by(|one, other| place(one) < place(other)) {
        return Cow::Borrowed(named);
    }
    let mut places = HashMap::with_capacity(named.len());
    let mut distinct: Vec<FetchPartition<'_>> = Vec::with_capacity(named.len());
    for asked in named {
        match places.entry(place(asked)) {
            Entry::Occupied(entry) => distinct[*entry.get()] = *asked,
            Entry::Vacant(entry) => {
                entry.insert(distinct.len());
                distinct.push(*asked);
            }
        }
    }
    Cow::Owned(distinct)
}

/// Returns the topic and the number of a partition in a request.
const fn place<'a>(asked: &FetchPartition<'a>) -> (TopicRef<'a>, i32) {
    (asked.topic, asked.index)
}

/// Memory of partitions, in bytes. Those of a topic that stand together have its name once.
fn memory_of<'a>(partitions: impl Iterator<Item = (TopicRef<'a>, i32)>) -> usize {
    let mut last = None;
    let names = partitions.map(|(topic, _)| match topic {
        TopicRef::Name(name) if last.replace(name) != Some(name) => size_of::<Watched>() + name.len(),
        TopicRef::Name(_) | TopicRef::Id(_) => size_of::<Watched>(),
    });
    names.sum()
}

impl<'f> Held<'f> {
    fn new(totals: &'f SessionTotals, partitions: usize) -> Self {
        totals.sessions.fetch_add(1, Ordering::Relaxed);
        let mut held = Self { totals, partitions: 0 };
        held.resize(partitions);
        held
    }

    /// Counts another number of partitions.
    fn resize(&mut self, partitions: usize) {
        let partitions = partitions as u64;
        self.totals.partitions.fetch_sub(self.partitions, Ordering::Relaxed);
        self.totals.partitions.fetch_add(partitions, Ordering::Relaxed);
        self.partitions = partitions;
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

/// Partitions that are remembered of a client that opens no session.
const KEPT_WITHOUT_SESSION: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_counted_while_they_are_open() {
        let totals = SessionTotals::default();
        let count = |total: &AtomicU64| total.load(Ordering::Relaxed);
        let (mut first, second) = (Held::new(&totals, 3), Held::new(&totals, 1));
        first.resize(5);
        assert_eq!((count(&totals.sessions), count(&totals.partitions)), (2, 6));
        drop((first, second));
        assert_eq!((count(&totals.sessions), count(&totals.partitions)), (0, 0));
        assert_eq!([next(0), next(i32::MAX)], [1, 1]);
    }
}
