//! Who receives from a partition, and who has to make room for whom.
//!
//! Within a consumer group a partition has either up to five receivers without an epoch, or one with an epoch (which
//! clients call the owner level). A receiver with an epoch takes over from every other whose epoch is not higher; one
//! without has to wait until there is none with.
//!
//! | who comes \ who is there | nobody | receivers without | epoch 3 |
//! |---|---|---|---|
//! | without epoch | in | in, up to five | refused |
//! | epoch 2 | in | in, all others out | refused |
//! | epoch 3 or more | in | in, all others out | in, the other out |
//!
//! Receivers live on any connection. The one that comes in waits for nobody: whoever is out finds its
//! [`Displacement`], has its key reported to its connection's [`Subscriber`], and ends its link by itself.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use partition_log::Subscriber;

/// The receivers of one partition, of all consumer groups.
#[derive(Debug, Default)]
pub struct Receivers {
    /// Only groups that have a receiver; few, so they are looked through.
    groups: Mutex<Vec<Group>>,
}

/// The receivers of one consumer group.
#[derive(Debug)]
struct Group {
    name: String,
    receivers: Vec<Arc<Registration>>,
}

/// One who wants to receive.
#[derive(Clone, Copy, Debug)]
pub struct NewReceiver<'a> {
    /// The consumer group, in the letter case that the hub has.
    pub consumer_group: &'a str,
    /// What the client calls this receiver.
    pub name: Option<&'a str>,
    /// Its epoch, if it wants to be the only one.
    pub epoch: Option<i64>,
    /// Who is to hear that it was displaced.
    pub subscriber: &'a Arc<Subscriber>,
    /// Under which key.
    pub key: u64,
}

/// One who receives, for as long as this lives.
#[derive(Debug)]
pub struct Receiver {
    receivers: Arc<Receivers>,
    consumer_group: String,
    registration: Arc<Registration>,
}

#[derive(Debug)]
struct Registration {
    name: Option<String>,
    epoch: Option<i64>,
    subscriber: Arc<Subscriber>,
    key: u64,
    displacement: OnceLock<Displacement>,
    /// The sequence number that it gets next; [`UNKNOWN`] until it was looked for anything.
    next_sequence_number: AtomicU64,
}

/// A receiver as others see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceiverDescription {
    /// Its consumer group.
    pub consumer_group: String,
    /// What it calls itself.
    pub name: Option<String>,
    /// Its epoch, if it is the only one.
    pub epoch: Option<i64>,
    /// The sequence number of the event that it gets next; `None` before it has asked for any.
    pub next_sequence_number: Option<u64>,
}

/// Why a receiver has to go: another with an epoch has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Displacement {
    /// What the other calls itself.
    pub new_name: Option<String>,
    /// The epoch of the other.
    pub new_epoch: i64,
    /// What the displaced receiver calls itself.
    pub name: Option<String>,
    /// The epoch of the displaced receiver.
    pub epoch: Option<i64>,
}

/// Why someone may not receive.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReceiverRefused {
    /// There is a receiver with a higher epoch.
    #[error("there is a receiver with epoch {current_epoch}, which is higher than {epoch}")]
    HigherEpoch {
        /// What the one that receives calls itself.
        current: Option<String>,
        /// Its epoch.
        current_epoch: i64,
        /// What the refused one calls itself.
        name: Option<String>,
        /// Its epoch.
        epoch: i64,
    },
    /// There is a receiver with an epoch, and this one has none.
    #[error("there is a receiver with epoch {epoch}, and this one has none")]
    WithoutEpoch {
        /// The epoch that there is.
        epoch: i64,
    },
    /// There are as many receivers as there can be.
    #[error("the partition has the maximum of {MAXIMUM_RECEIVERS} receivers")]
    TooMany {
        /// What they call themselves.
        names: Vec<Option<String>>,
    },
}

impl Receivers {
    /// Lets `new` receive, and ends whom it displaces.
    ///
    /// # Errors
    /// Who is there already does not allow it.
    pub fn register(self: &Arc<Self>, new: &NewReceiver<'_>) -> Result<Receiver, ReceiverRefused> {
        let registration = Arc::new(Registration {
            name: new.name.map(str::to_owned),
            epoch: new.epoch,
            subscriber: Arc::clone(new.subscriber),
            key: new.key,
            displacement: OnceLock::new(),
            next_sequence_number: AtomicU64::new(UNKNOWN),
        });
        let displaced = self.admit(new.consumer_group, &registration)?;
        // Outside of the lock: this wakes tasks.
        for other in displaced {
            other.subscriber.report(other.key);
        }
        Ok(Receiver {
            receivers: Arc::clone(self),
            consumer_group: new.consumer_group.to_owned(),
            registration,
        })
    }

    /// All who receive now, of all consumer groups.
    #[must_use]
    pub fn describe(&self) -> Vec<ReceiverDescription> {
        let groups = self.lock();
        let each = groups.iter().flat_map(|group| group.receivers.iter().map(|one| (&group.name, one)));
        each.map(|(group, one)| {
            let next = one.next_sequence_number.load(Ordering::Relaxed);
            ReceiverDescription {
                consumer_group: group.clone(),
                name: one.name.clone(),
                epoch: one.epoch,
                next_sequence_number: (next != UNKNOWN).then_some(next),
            }
        })
        .collect()
    }

    /// Those whom `new` displaces. They find out why, but have not been told to look.
    fn admit(&self, group: &str, new: &Arc<Registration>) -> Result<Vec<Arc<Registration>>, ReceiverRefused> {
        let mut groups = self.lock();
        let Some(group) = groups.iter_mut().find(|known| known.name == group) else {
            groups.push(Group { name: group.to_owned(), receivers: vec![Arc::clone(new)] });
            return Ok(Vec::new());
        };
        let displaced = group.make_room(new)?;
        for other in &displaced {
            // Nobody is displaced twice: who is, is in no list any more.
            let _ = other.displacement.set(Displacement {
                new_name: new.name.clone(),
                new_epoch: new.epoch.unwrap_or_default(),
                name: other.name.clone(),
                epoch: other.epoch,
            });
        }
        group.receivers.push(Arc::clone(new));
        Ok(displaced)
    }

    fn remove(&self, group: &str, registration: &Arc<Registration>) {
        let mut groups = self.lock();
        let Some(place) = groups.iter().position(|known| known.name == group) else {
            return;
        };
        let receivers = &mut groups[place].receivers;
        receivers.retain(|other| !Arc::ptr_eq(other, registration));
        if receivers.is_empty() {
            groups.swap_remove(place);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Group>> {
        // Locked sections only look, push and remove; what is there is whole.
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Group {
    /// Takes out whoever has to go when `new` comes.
    fn make_room(&mut self, new: &Registration) -> Result<Vec<Arc<Registration>>, ReceiverRefused> {
        let with_epoch = self.receivers.iter().find_map(|other| other.epoch.map(|epoch| (other, epoch)));
        match (new.epoch, with_epoch) {
            (Some(epoch), Some((current, current_epoch))) if current_epoch > epoch => {
                Err(ReceiverRefused::HigherEpoch {
                    current: current.name.clone(),
                    current_epoch,
                    name: new.name.clone(),
                    epoch,
                })
            }
            (Some(_), _) => Ok(std::mem::take(&mut self.receivers)),
            (None, Some((_, epoch))) => Err(ReceiverRefused::WithoutEpoch { epoch }),
            (None, None) if self.receivers.len() >= MAXIMUM_RECEIVERS => {
                let names = self.receivers.iter().map(|other| other.name.clone());
                Err(ReceiverRefused::TooMany { names: names.collect() })
            }
            (None, None) => Ok(Vec::new()),
        }
    }
}

impl Receiver {
    /// Why this one has to stop, once another has taken its place.
    #[must_use]
    pub fn displacement(&self) -> Option<&Displacement> {
        self.registration.displacement.get()
    }

    /// Notes how far it has come. To be called once for a burst of events.
    #[inline]
    pub fn advance(&self, next_sequence_number: u64) {
        self.registration.next_sequence_number.store(next_sequence_number, Ordering::Relaxed);
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.receivers.remove(&self.consumer_group, &self.registration);
    }
}

/// Receivers without an epoch that a consumer group may have on a partition: the service's own limit.
pub const MAXIMUM_RECEIVERS: usize = 5;

/// No sequence number.
const UNKNOWN: u64 = u64::MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::{Context, Poll, Waker};

    struct Partition {
        receivers: Arc<Receivers>,
        subscriber: Arc<Subscriber>,
    }

    impl Partition {
        fn new() -> Self {
            Self { receivers: Arc::default(), subscriber: Subscriber::new() }
        }

        fn register(&self, group: &str, epoch: Option<i64>) -> Result<Receiver, ReceiverRefused> {
            self.register_named(group, epoch, None, 0)
        }

        fn register_named(
            &self,
            consumer_group: &str,
            epoch: Option<i64>,
            name: Option<&str>,
            key: u64,
        ) -> Result<Receiver, ReceiverRefused> {
            self.receivers.register(&NewReceiver {
                consumer_group,
                name,
                epoch,
                subscriber: &self.subscriber,
                key,
            })
        }

        fn reported(&self) -> Vec<u64> {
            let mut keys = Vec::new();
            match self.subscriber.poll_ready(&mut Context::from_waker(Waker::noop()), &mut keys) {
                Poll::Ready(()) | Poll::Pending => keys,
            }
        }
    }

    #[test]
    fn an_epoch_that_is_not_lower_takes_over_and_the_other_hears_of_it() {
        let partition = Partition::new();
        let first = partition.register_named("g", Some(3), Some("first"), 7).unwrap();
        assert_eq!(first.displacement(), None);
        let second = partition.register_named("g", Some(3), None, 8).unwrap();
        let displacement =
            Displacement { new_name: None, new_epoch: 3, name: Some("first".to_owned()), epoch: Some(3) };
        assert_eq!(first.displacement(), Some(&displacement));
        assert_eq!(partition.reported(), [7]);
        let _third = partition.register("g", Some(4)).unwrap();
        assert!(second.displacement().is_some());
        assert_eq!(partition.reported(), [8]);
    }

    #[test]
    fn a_lower_epoch_and_none_are_refused_until_the_higher_one_is_gone() {
        let partition = Partition::new();
        let high = partition.register("g", Some(2)).unwrap();
        let refused = ReceiverRefused::HigherEpoch { current: None, current_epoch: 2, name: None, epoch: 1 };
        assert_eq!(partition.register("g", Some(1)).unwrap_err(), refused);
        assert_eq!(partition.register("g", None).unwrap_err(), ReceiverRefused::WithoutEpoch { epoch: 2 });
        assert_eq!(high.displacement(), None);
        drop(high);
        drop(partition.register("g", None).unwrap());
        drop(partition.register("g", Some(1)).unwrap());
        assert!(partition.receivers.lock().is_empty());
    }

    #[test]
    fn an_epoch_displaces_everyone_without() {
        let partition = Partition::new();
        let without: Vec<_> = (0..3).map(|_| partition.register("g", None).unwrap()).collect();
        let _with = partition.register("g", Some(0)).unwrap();
        for receiver in &without {
            assert_eq!(receiver.displacement().unwrap().epoch, None);
        }
        assert_eq!(partition.reported().len(), 3);
    }

    #[test]
    fn receivers_are_described_with_how_far_they_have_come() {
        let partition = Partition::new();
        let receiver = partition.register_named("g", Some(2), Some("a"), 0).unwrap();
        let described = |next_sequence_number| ReceiverDescription {
            consumer_group: "g".to_owned(),
            name: Some("a".to_owned()),
            epoch: Some(2),
            next_sequence_number,
        };
        assert_eq!(partition.receivers.describe(), [described(None)]);
        receiver.advance(7);
        assert_eq!(partition.receivers.describe(), [described(Some(7))]);
        drop(receiver);
        assert_eq!(partition.receivers.describe(), []);
    }

    #[test]
    fn a_receiver_that_was_displaced_leaves_its_successor_alone_when_it_goes() {
        let partition = Partition::new();
        let first = partition.register("g", Some(1)).unwrap();
        let _second = partition.register("g", Some(1)).unwrap();
        drop(first);
        assert_eq!(partition.register("g", None).unwrap_err(), ReceiverRefused::WithoutEpoch { epoch: 1 });
    }

    #[test]
    fn the_sixth_without_an_epoch_is_refused_in_its_group_alone() {
        let partition = Partition::new();
        let mut five: Vec<_> = ["a", "b", "c", "d", "e"]
            .into_iter()
            .map(|name| partition.register_named("g", None, Some(name), 0).unwrap())
            .collect();
        let names = ["a", "b", "c", "d", "e"].map(|name| Some(name.to_owned())).into();
        assert_eq!(partition.register("g", None).unwrap_err(), ReceiverRefused::TooMany { names });
        drop(partition.register("other", None).unwrap());
        five.pop();
        partition.register("g", None).unwrap();
    }
}
