//! Administration of Service Bus: queues, topics, subscriptions and rules, as Atom documents.
//!
//! ```text
//!  <entry> <title>orders</title> <content> <QueueDescription> <LockDuration>PT1M</LockDuration> …
//!  <feed>  <entry>…</entry> <entry>…</entry> <link rel="next" href="…?$skip=100&$top=100"/>
//! ```
//!
//! * [`document`] reads any XML into a tree of bounded size, with its namespaces resolved: clients use what prefixes they like.
//! * [`atom`] is entries and feeds around what they hold.
//! * [`entity`] is what is said of a queue, a topic or a subscription, [`rule`] of a rule.
//!
//! Both sides use it: the embedded service reads what clients send and writes what it has; the command line the other way round.

pub mod atom;
pub mod document;
pub mod entity;
pub mod rule;

/// The namespace of Atom.
pub(crate) const ATOM: &str = "http://www.w3.org/2005/Atom";
/// The namespace of descriptions.
pub(crate) const DESCRIPTIONS: &str = "http://schemas.microsoft.com/netservices/2010/10/servicebus/connect";
/// That of counts of messages.
pub(crate) const COUNTS: &str = "http://schemas.microsoft.com/netservices/2011/06/servicebus";
/// That of lists.
pub(crate) const ARRAYS: &str = "http://schemas.microsoft.com/2003/10/Serialization/Arrays";
/// That of the types of XML Schema.
pub(crate) const TYPES: &str = "http://www.w3.org/2001/XMLSchema";
/// That of the attribute which names a type.
pub(crate) const INSTANCES: &str = "http://www.w3.org/2001/XMLSchema-instance";
