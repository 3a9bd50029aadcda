//! Queues, topics, subscriptions and rules as clients of the service administer them.
//!
//! ```text
//!  PUT, GET, DELETE  QUEUE, TOPIC
//!  PUT, GET, DELETE  TOPIC/subscriptions/NAME[/rules/NAME]
//!  GET               $Resources/queues, $Resources/topics, TOPIC/subscriptions, …/rules    a page of them
//!  GET               $namespaceinfo
//! ```
//!
//! * [`path`] is what a path names.
//! * [`describe`] says what there is, [`options`] and [`rules`] read what a client wants there to be.
//! * [`rights`] is what a client is told that may not.
//!
//! A `PUT` with `If-Match` changes what is there, one without makes what is not. Descriptions are those of [`rest::administration`].

mod describe;
mod options;
mod path;
mod rights;
mod rules;

use ::rest::administration::atom::{self, Description, Entry, Feed, ReadEntry};
use ::rest::administration::entity::EntityKind;
use ::rest::administration::rule::RuleDescription;
use ::rest::target::Target;
use partition_log::UnixTime;
use partition_log::disk::CommitNumber;
use queue_store::rules::Rule;
use queue_store::{Entity, Subscription, Topic};
use units::date::xml_date_time;

use super::refusal::Refusal;
use super::reply::{self, Reply};
use super::session::{Session, after};
use super::{Request, Step};
use crate::front::pending::Until;
use crate::namespace::{
    AdministrationError, EntityFacts, Namespace, QueueConfig, SubscriptionConfig, TopicConfig,
};
use options::{Wanted, WantedTopic};
use path::{Keywords, Path};
pub(super) use rights::unchangeable;

/// Carries out one request.
pub(super) struct Administering<'a> {
    session: &'a Session,
    request: &'a Request<'a>,
    namespace: &'a Namespace,
    keywords: Keywords,
    now: UnixTime,
}

type Answer = Result<Reply, Refusal>;

impl Session {
    /// Creates or changes what is at a path, as the body of the request has it.
    ///
    /// # Errors
    /// It can't be.
    pub(super) fn put(
        &self,
        request: &Request<'_>,
        path: &str,
        body: &[u8],
        now: UnixTime,
    ) -> Result<Step, Refusal> {
        let administering = self.administering(request, path, now);
        let (reply, commit) = administering.put(path, body)?;
        Ok(after(reply, Until { commit, instant: self.answer_at(path) }))
    }

    /// Deletes what is at a path.
    ///
    /// # Errors
    /// There is nothing.
    pub(super) fn delete(&self, request: &Request<'_>, path: &str, now: UnixTime) -> Result<Step, Refusal> {
        let administering = self.administering(request, path, now);
        let commit = administering.delete(path)?;
        Ok(after(Reply::empty(200), Until { commit, instant: self.answer_at(path) }))
    }

    /// A page of a list as it stands `now`: `$top` of them after the first `$skip`.
    ///
    /// # Errors
    /// One of the two is not a number.
    pub(super) fn page<T>(
        &self,
        request: &Request<'_>,
        (path, title, now): (&str, &str, UnixTime),
        all: impl Iterator<Item = T>,
        entry: impl Fn(T) -> Entry,
    ) -> Answer {
        let target = Target::parse(request.target);
        let number = |name: &str, default: usize| {
            let text = target.as_ref().and_then(|target| target.parameter(name));
            text.map_or(Ok(default), |text| {
                text.parse().map_err(|_| invalid(format!("The value '{text}' of {name} is not a number.")))
            })
        };
        let skip = number("$skip", 0)?;
        let top = number("$top", PAGE)?.clamp(1, LARGEST_PAGE);
        let mut all = all.skip(skip);
        let entries: Vec<Entry> = all.by_ref().take(top).map(entry).collect();
        let url = self.url(request, path);
        let next = all.next().map(|_| format!("{url}?$skip={}&$top={top}", skip.saturating_add(top)));
        let address = match target.as_ref().map_or("", Target::query) {
            "" => url,
            query => format!("{url}?{query}"),
        };
        let feed = Feed { url: &address, title, updated: describe::time_of(now), next: next.as_deref() };
        Ok(reply::atom("feed", 200, feed.document(&entries)))
    }

    pub(super) fn administering<'a>(
        &'a self,
        request: &'a Request<'a>,
        path: &str,
        now: UnixTime,
    ) -> Administering<'a> {
        let keywords = Keywords::of(path);
        Administering { session: self, request, namespace: &self.front.namespace, keywords, now }
    }
}

impl Administering<'_> {
    fn page<T>(
        &self,
        path: &str,
        title: &str,
        all: impl Iterator<Item = T>,
        entry: impl Fn(T) -> Entry,
    ) -> Answer {
        self.session.page(self.request, (path, title, self.now), all, entry)
    }

    /// Tells what is at a path to a client that has the right to manage, or has not; `None` if that is nothing of what is
    /// administered here.
    ///
    /// # Errors
    /// The right is needed, or it is a list, and the page of it is none.
    pub(super) fn get(&self, path: &str, manages: bool) -> Result<Option<Reply>, Refusal> {
        if !manages && let Some(refusal) = rights::unreadable(self.namespace, &self.session.host(), path) {
            return Err(refusal);
        }
        Ok(match Path::of(path) {
            Path::Queues => Some(self.list(path, "Queues", |entity| matches!(entity, Entity::Queue(_)))?),
            Path::Topics => Some(self.list(path, "Topics", |entity| matches!(entity, Entity::Topic(_)))?),
            Path::NamespaceInfo => Some(self.entry_reply(200, &self.namespace_info())),
            Path::Entity(name) => {
                self.namespace.queue_or_topic(name).map(|entity| self.entry_reply(200, &self.entity(&entity)))
            }
            Path::Subscriptions(topic) => match self.namespace.topic(topic) {
                Err(_) => None,
                Ok(topic) => {
                    let mut all = topic.subscriptions().to_vec();
                    all.sort_by_cached_key(|each| each.name().to_ascii_lowercase());
                    Some(
                        self.page(path, "Subscriptions", all.iter(), |each| self.subscription(&topic, each))?,
                    )
                }
            },
            Path::Subscription(topic, name) => self
                .namespace
                .subscription(topic, name)
                .ok()
                .map(|(topic, found)| self.entry_reply(200, &self.subscription(&topic, &found))),
            Path::Rules(topic, subscription) => match self.namespace.subscription(topic, subscription) {
                Err(_) => None,
                Ok((topic, found)) => {
                    let rules = found.rules_by_name();
                    Some(self.page(path, "Rules", rules.iter(), |rule| self.rule(&topic, &found, rule))?)
                }
            },
            Path::Rule(topic, subscription, name) => {
                let Ok((topic, found)) = self.namespace.subscription(topic, subscription) else {
                    return Ok(None);
                };
                found.rule(name).map(|rule| self.entry_reply(200, &self.rule(&topic, &found, &rule)))
            }
        })
    }

    fn put(&self, path: &str, body: &[u8]) -> Result<(Reply, CommitNumber), Refusal> {
        let wanted = read(body)?;
        let changes = self.request.field("if-match").is_some();
        let status = if changes { 200 } else { 201 };
        let entry = match Path::of(path) {
            Path::Entity(name) => self.put_entity(name, &wanted, changes)?,
            Path::Subscription(topic, name) => self.put_subscription(topic, name, &wanted, changes)?,
            Path::Rule(topic, subscription, name) => {
                let (entry, commit) = self.put_rule((topic, subscription), name, &wanted, changes)?;
                return Ok((self.entry_reply(status, &entry), commit));
            }
            Path::Queues | Path::Topics | Path::Subscriptions(_) | Path::Rules(..) | Path::NamespaceInfo => {
                return Err(Refusal::method("GET, HEAD"));
            }
        };
        Ok((self.entry_reply(status, &entry), CommitNumber::DONE))
    }

    fn put_entity(&self, name: &str, wanted: &ReadEntry, changes: bool) -> Result<Entry, Refusal> {
        let kind = match wanted.description.name.as_str() {
            "QueueDescription" => EntityKind::Queue,
            "TopicDescription" => EntityKind::Topic,
            other => return Err(invalid(format!("'{other}' describes neither a queue nor a topic."))),
        };
        let there = self.namespace.queue_or_topic(name);
        let largest = self.largest_message();
        let entity = match (changes, there, kind) {
            (false, Some(there), _) => return Err(exists(there.name())),
            (true, None, _) => return Err(Refusal::not_found(name)),
            (false, None, EntityKind::Queue) => {
                let Wanted { options, facts } = Wanted::new(kind, &wanted.description, self.now)?;
                let config = QueueConfig { name: name.to_owned(), options };
                Entity::Queue(self.namespace.create_queue(&config, facts).map_err(|error| refusal(&error))?)
            }
            (false, None, _) => {
                let WantedTopic { options, facts } = WantedTopic::new(&wanted.description, self.now)?;
                let config = TopicConfig { name: name.to_owned(), options, subscriptions: Vec::new() };
                Entity::Topic(self.namespace.create_topic(&config, facts).map_err(|error| refusal(&error))?)
            }
            (true, Some(Entity::Queue(queue)), EntityKind::Queue) => {
                let facts = self.namespace.facts(queue.name());
                let wanted = Wanted::changed(kind, &wanted.description, largest, &queue.options(), facts)?;
                let Wanted { options, facts } = wanted;
                let updated = self.namespace.update_queue(name, options, facts, self.now);
                Entity::Queue(updated.map_err(|error| refusal(&error))?)
            }
            (true, Some(Entity::Topic(topic)), EntityKind::Topic) => {
                let facts = self.namespace.facts(topic.name());
                let wanted = WantedTopic::changed(&wanted.description, largest, &topic.options(), facts)?;
                let WantedTopic { options, facts } = wanted;
                let updated = self.namespace.update_topic(name, &options, facts, self.now);
                Entity::Topic(updated.map_err(|error| refusal(&error))?)
            }
            (true, Some(_), _) => {
                return Err(invalid(format!("'{name}' is something else than what is described.")));
            }
        };
        Ok(self.entity(&entity))
    }

    fn put_subscription(
        &self,
        topic: &str,
        name: &str,
        wanted: &ReadEntry,
        changes: bool,
    ) -> Result<Entry, Refusal> {
        let kind = EntityKind::Subscription;
        expect(&wanted.description.name, kind.element())?;
        let found = self.namespace.subscription(topic, name);
        let largest = self.largest_message();
        let subscription = match (changes, found) {
            (false, Ok((_, there))) => return Err(exists(there.queue().name())),
            (true, Err(error)) => return Err(refusal(&error)),
            (false, Err(_)) => {
                let Wanted { options, facts } = Wanted::new(kind, &wanted.description, self.now)?;
                let rules = rules::default_rule(&wanted.description)?.map(|rule| vec![rule]);
                let config = SubscriptionConfig { name: name.to_owned(), options, rules };
                self.namespace.create_subscription(topic, &config, facts, self.now)
            }
            (true, Ok((_, there))) => {
                let queue = there.queue();
                let facts = self.namespace.facts(queue.name());
                let wanted = Wanted::changed(kind, &wanted.description, largest, &queue.options(), facts)?;
                let Wanted { options, facts } = wanted;
                self.namespace.update_subscription(topic, name, options, facts, self.now)
            }
        };
        let subscription = subscription.map_err(|error| refusal(&error))?;
        let topic = self.namespace.topic(topic).map_err(|error| refusal(&error))?;
        Ok(self.subscription(&topic, &subscription))
    }

    fn put_rule(
        &self,
        (topic, subscription): (&str, &str),
        name: &str,
        wanted: &ReadEntry,
        changes: bool,
    ) -> Result<(Entry, CommitNumber), Refusal> {
        expect(&wanted.description.name, RuleDescription::ELEMENT)?;
        let found = self.namespace.subscription(topic, subscription).map_err(|error| refusal(&error))?;
        let (topic, subscription) = found;
        let rule = rules::read(name, &wanted.description)?;
        let done = match changes {
            true => subscription.replace_rule(self.now, rule.clone()),
            false => subscription.add_rule(self.now, rule.clone()),
        };
        let commit = done.map_err(|error| refusal(&error.into()))?;
        // With the time at which it was added.
        let kept = subscription.rule(name);
        Ok((self.rule(&topic, &subscription, kept.as_deref().unwrap_or(&rule)), commit))
    }

    fn delete(&self, path: &str) -> Result<CommitNumber, Refusal> {
        let done = match Path::of(path) {
            // They come and go over AMQP.
            Path::Entity(name) if self.namespace.hub(name).is_some() => {
                return Err(Refusal::method("GET, HEAD"));
            }
            Path::Entity(name) => self.namespace.delete_queue_or_topic(name),
            Path::Subscription(topic, name) => self.namespace.delete_subscription(topic, name, self.now),
            Path::Rule(topic, subscription, name) => {
                let found = self.namespace.subscription(topic, subscription);
                let removed = found.and_then(|(_, found)| Ok(found.remove_rule(self.now, name)?));
                return removed.map(|(_rule, commit)| commit).map_err(|error| refusal(&error));
            }
            Path::Queues | Path::Topics | Path::Subscriptions(_) | Path::Rules(..) | Path::NamespaceInfo => {
                return Err(Refusal::method("GET, HEAD"));
            }
        };
        done.map(|()| CommitNumber::DONE).map_err(|error| refusal(&error))
    }

    fn list(&self, path: &str, title: &str, is_listed: impl Fn(&Entity) -> bool) -> Answer {
        let entities = self.namespace.queues().entities();
        self.page(path, title, entities.iter().filter(|entity| is_listed(entity)), |entity| {
            self.entity(entity)
        })
    }

    fn entity(&self, entity: &Entity) -> Entry {
        let facts = self.namespace.facts(entity.name());
        let description = match entity {
            Entity::Queue(queue) => self.described(
                EntityKind::Queue,
                describe::queue(queue, &facts, self.largest_message(), self.now),
                &facts,
            ),
            Entity::Topic(topic) => self.described(
                EntityKind::Topic,
                describe::topic(topic, &facts, self.largest_message(), self.now),
                &facts,
            ),
        };
        self.entry(entity.name(), entity.name(), &facts, description)
    }

    fn subscription(&self, topic: &Topic, subscription: &Subscription) -> Entry {
        let facts = self.namespace.facts(subscription.queue().name());
        let description = describe::subscription(subscription, &facts, self.now);
        let description = self.described(EntityKind::Subscription, description, &facts);
        self.entry(&self.path_of(topic, subscription), subscription.name(), &facts, description)
    }

    fn rule(&self, topic: &Topic, subscription: &Subscription, rule: &Rule) -> Entry {
        let facts = self.namespace.facts(subscription.queue().name());
        let description = rules::describe(rule, facts.created_at()).written();
        let path = format!("{}/{}/{}", self.path_of(topic, subscription), self.keywords.rules, rule.name);
        self.entry(&path, &rule.name, &facts, description)
    }

    fn path_of(&self, topic: &Topic, subscription: &Subscription) -> String {
        format!("{}/{}/{}", topic.name(), self.keywords.subscriptions, subscription.name())
    }

    /// What is said of an entity, with the places that it forwards to as URLs.
    fn described(
        &self,
        kind: EntityKind,
        mut description: ::rest::administration::entity::EntityDescription,
        facts: &EntityFacts,
    ) -> Description {
        let scheme = if facts.wishes.forwards_by_https { "https" } else { "sb" };
        let host = self.request.text("host").unwrap_or_else(|| self.namespace.host());
        for name in
            [&mut description.forward_to, &mut description.forward_dead_letters_to].into_iter().flatten()
        {
            *name = format!("{scheme}://{host}/{name}");
        }
        description.written(kind)
    }

    fn namespace_info(&self) -> Entry {
        let name = self.namespace.host().split('.').next().unwrap_or_default();
        let created = xml_date_time(describe::time_of(self.namespace.created_at()));
        let description = Description::new("NamespaceInfo")
            .with("CreatedTime", &created)
            .with("MessagingSKU", "Standard")
            .with("ModifiedTime", &created)
            .with("Name", name)
            .with("NamespaceType", "Messaging");
        let facts = EntityFacts::of(self.namespace.created_at());
        self.entry("$namespaceinfo", name, &facts, description)
    }

    fn entry(&self, path: &str, title: &str, facts: &EntityFacts, description: Description) -> Entry {
        let times = (describe::time_of(facts.created_at()), describe::time_of(facts.updated_at()));
        let url = self.session.url(self.request, path);
        Entry { url, title: title.to_owned(), published: Some(times), description }
    }

    fn entry_reply(&self, status: u16, entry: &Entry) -> Reply {
        reply::atom("entry", status, entry.document())
    }

    fn largest_message(&self) -> u64 {
        self.namespace.largest_message()
    }
}

/// The entry that a client sent.
fn read(body: &[u8]) -> Result<ReadEntry, Refusal> {
    let text = std::str::from_utf8(body).map_err(|_| invalid("The body is not UTF-8 text.".to_owned()))?;
    let entry =
        atom::read_entry(text).map_err(|error| invalid(format!("The body can't be read: {error}.")))?;
    entry.ok_or_else(|| invalid("The body is no Atom entry with a description.".to_owned()))
}

fn expect(element: &str, expected: &str) -> Result<(), Refusal> {
    match element == expected {
        true => Ok(()),
        false => Err(invalid(format!("The body has '{element}' where {expected} was expected."))),
    }
}

/// The refusal of what makes no sense.
fn invalid(text: String) -> Refusal {
    Refusal::new(400, format!("SubCode=40000. {text}"))
}

fn exists(name: &str) -> Refusal {
    Refusal::new(409, format!("SubCode=40900. Conflict. The messaging entity '{name}' already exists."))
}

fn refusal(error: &AdministrationError) -> Refusal {
    use queue_store::rules::RuleError;
    use queue_store::{CreateError, RuleChangeError};
    match error {
        AdministrationError::Exists { name } => exists(name),
        AdministrationError::NotFound { path } => Refusal::not_found(path),
        AdministrationError::Rule(RuleChangeError::Rule(rule)) => match rule {
            RuleError::Exists { name } => exists(name),
            RuleError::NotFound { name } => Refusal::not_found(name),
            RuleError::TooMany => Refusal::new(403, format!("SubCode=40300. {error}.")),
            RuleError::Name { .. } | RuleError::Filter { .. } => invalid(format!("{error}.")),
        },
        AdministrationError::Rule(RuleChangeError::Queue(error)) | AdministrationError::Queue(error) => {
            Refusal::queue(error)
        }
        AdministrationError::TooMany { .. } => Refusal::new(403, format!("SubCode=40300. {error}.")),
        AdministrationError::Invalid(_)
        | AdministrationError::Store(CreateError::Option { .. } | CreateError::Name { .. }) => {
            invalid(format!("{error}."))
        }
        AdministrationError::Store(_) | AdministrationError::Storage(_) => {
            tracing::error!(%error, "an entity could not be created, changed or deleted");
            Refusal::busy(&format!("{error}."))
        }
    }
}

/// Entries of a page where the client does not say how many.
const PAGE: usize = 100;

/// Entries of a page at most.
const LARGEST_PAGE: usize = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_have_the_statuses_that_clients_make_errors_of() {
        for (error, status) in [
            (AdministrationError::Exists { name: "a".into() }, 409),
            (AdministrationError::NotFound { path: "a".into() }, 404),
            (AdministrationError::Invalid("no".into()), 400),
            (AdministrationError::TooMany { what: "queues", maximum: 1 }, 403),
            (AdministrationError::Queue(queue_store::QueueError::Deleted), 404),
        ] {
            assert_eq!(refusal(&error).status, status, "{error}");
        }
    }
}
