//! What a person asks with `curl`: what there is, and how much of it.
//!
//! ```text
//! $Resources/EventHubs                         all hubs
//! HUB                                          a hub
//! HUB/consumergroups[/GROUP]                   its consumer groups
//! HUB/consumergroups/GROUP/partitions[/N]      its partitions
//! ```
//!
//! Lists come by pages, as those of `administration`.
//!
//! What there is of queues and topics is told by `administration`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ::rest::administration::atom::{Description, Entry};
use ::rest::target::split_at_keyword;
use partition_log::UnixTime;
use partition_log::disk::CommitNumber;
use units::date::xml_date_time;

use super::refusal::Refusal;
use super::reply::{self, Reply};
use super::session::{Session, after};
use super::{Request, Step};
use crate::front::pending::Until;
use crate::namespace::{ConsumerGroup, Hub, Namespace, Partition};

impl Session {
    /// Tells what is at a path to a client that has the right to manage, or has not.
    ///
    /// # Errors
    /// There is nothing, or it is only for who may manage.
    pub(super) fn read(
        &self,
        request: &Request<'_>,
        (path, manages): (&str, bool),
        now: UnixTime,
    ) -> Result<Step, Refusal> {
        let telling = Telling { session: self, request, namespace: &self.front.namespace, manages, now };
        let reply = telling.tell(path)?;
        Ok(after(reply, Until { commit: CommitNumber::DONE, instant: self.answer_at(path) }))
    }
}

/// Who tells whom.
struct Telling<'a> {
    session: &'a Session,
    request: &'a Request<'a>,
    namespace: &'a Namespace,
    /// Whether the client has the right to manage.
    manages: bool,
    now: UnixTime,
}

impl Telling<'_> {
    fn tell(&self, path: &str) -> Result<Reply, Refusal> {
        if path.is_empty() {
            return self.page(path, "Publicly Listed Services", std::iter::empty::<Entry>(), |none| none);
        }
        if path.eq_ignore_ascii_case("$Resources/EventHubs") {
            let hubs = self.namespace.hubs();
            return self.page(path, "EventHubs", hubs.iter(), |hub| self.hub_entry(hub));
        }
        if let Some(reply) = self.hub(path) {
            return Ok(reply);
        }
        if let Some(answer) = self.of_hub(path) {
            return answer;
        }
        let administering = self.session.administering(self.request, path, self.now);
        administering.get(path, self.manages)?.ok_or_else(|| Refusal::not_found(path))
    }

    fn hub(&self, path: &str) -> Option<Reply> {
        self.namespace.hub(path).map(|hub| entry_reply(&self.hub_entry(hub.latest())))
    }

    /// Consumer groups and partitions.
    fn of_hub(&self, path: &str) -> Option<Result<Reply, Refusal>> {
        if let Some((hub, last)) = path.rsplit_once('/')
            && last.eq_ignore_ascii_case("consumergroups")
        {
            let hub = self.namespace.hub(hub)?;
            let groups = hub.consumer_groups();
            let entry = |group: &ConsumerGroup| self.group_entry(&hub, group.name());
            return Some(self.page(path, "consumergroups", groups.iter(), |group| entry(group)));
        }
        if let Some((before, group)) = split_at_keyword(path, "consumergroups") {
            let hub = self.namespace.hub(before)?;
            let group = hub.consumer_group(group)?;
            return Some(Ok(entry_reply(&self.group_entry(&hub, group.name()))));
        }
        let (before, id) = match split_at_keyword(path, "partitions") {
            Some((before, id)) => (before, Some(id)),
            None => {
                let (before, last) = path.rsplit_once('/')?;
                (last.eq_ignore_ascii_case("partitions").then_some(before)?, None)
            }
        };
        let (hub, group) = split_at_keyword(before, "consumergroups")?;
        let hub = self.namespace.hub(hub)?;
        hub.consumer_group(group)?;
        let hub = hub.latest();
        let entry = |partition: &Partition| {
            let path = format!("{before}/partitions/{}", partition.id());
            self.partition_entry(&path, partition)
        };
        Some(match id {
            Some(id) => Ok(entry_reply(&entry(hub.partition(id)?))),
            None => self.page(path, "partitions", hub.partitions().iter(), |partition| entry(partition)),
        })
    }

    fn hub_entry(&self, hub: &Hub) -> Entry {
        let retention = hub.limits().retention.map_or(7, |time| time.as_secs().div_ceil(86_400));
        let created = time_of(hub.created_at());
        let description = Description::new("EventHubDescription")
            .with("MessageRetentionInDays", retention)
            .with("Status", "Active")
            .with("CreatedAt", xml_date_time(created))
            .with("UpdatedAt", xml_date_time(created))
            .with("PartitionCount", hub.partitions().len())
            .with_strings(
                "PartitionIds",
                hub.partitions().iter().map(|partition| partition.id().to_string()),
            );
        self.entry(hub.name(), hub.name(), Some(created), description)
    }

    fn group_entry(&self, hub: &Hub, group: &str) -> Entry {
        let created = time_of(hub.created_at());
        let description = Description::new("ConsumerGroupDescription")
            .with("CreatedAt", xml_date_time(created))
            .with("UpdatedAt", xml_date_time(created));
        self.entry(&format!("{}/consumergroups/{group}", hub.name()), group, Some(created), description)
    }

    fn partition_entry(&self, path: &str, partition: &Partition) -> Entry {
        let stats = partition.log().committed_stats();
        let last = stats.last_sequence_number;
        let description = Description::new("PartitionDescription")
            .with("SizeInBytes", stats.bytes)
            .with("BeginSequenceNumber", last.map_or(-1, |_| stats.begin_sequence_number.cast_signed()))
            .with("EndSequenceNumber", last.map_or(-1, u64::cast_signed))
            .with_some(
                "LastEnqueuedTimeUtc",
                stats.last_append_time.map(|time| xml_date_time(time_of(time))),
            );
        self.entry(path, &partition.id().to_string(), None, description)
    }

    fn entry(
        &self,
        path: &str,
        title: &str,
        published: Option<SystemTime>,
        description: Description,
    ) -> Entry {
        let url = self.session.url(self.request, path);
        Entry { url, title: title.to_owned(), published: published.map(|at| (at, at)), description }
    }

    fn page<T>(
        &self,
        path: &str,
        title: &str,
        all: impl Iterator<Item = T>,
        entry: impl Fn(T) -> Entry,
    ) -> Result<Reply, Refusal> {
        self.session.page(self.request, (path, title, self.now), all, entry)
    }
}

fn entry_reply(entry: &Entry) -> Reply {
    reply::atom("entry", 200, entry.document())
}

fn time_of(time: UnixTime) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(time.milliseconds()).unwrap_or(0))
}
