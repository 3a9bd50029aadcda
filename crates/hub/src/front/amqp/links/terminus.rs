//! The ends of a link as they are in effect.
//!
//! The answer to an attach repeats of a client's source or target what is carried out, and nothing else (AMQP 1.0, sections
//! 3.5.3 and 3.5.4): a client that finds its filter in the answer may rely on it. All answers are made here.
//!
//! | of the client's terminus | in the answer |
//! |---|---|
//! | address | as the client wrote it |
//! | filters | those that are applied |
//! | distribution mode | if messages leave the node in this way |
//! | outcomes | those that there are |
//! | capabilities | those of the coordinator of transactions |
//! | durability, expiry, default outcome | none: a link ends with its session, and an outcome is what the client gives |
//! | dynamic | false: a link that wants a node of its own is refused |
//!
//! The other end of a link is the client's own, and repeated as it is.

use amqp::codec::{Symbol, Value};
use amqp::performative::{Attach, Error, ErrorCondition, Role, Source, Target};

/// A kind of filter that is known here, whether a node applies it or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FilterKind {
    /// The first event of a hub's receiver.
    Selector,
    /// The session of a receiver.
    Session,
    /// A session that several receivers share.
    NonExclusiveSession,
}

/// How messages leave a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Distribution {
    /// Each to one receiver.
    Move,
    /// To everyone who reads them.
    Copy,
}

/// The names of a kind of filter.
struct FilterNames {
    kind: FilterKind,
    /// The usual key, under which some clients put a value without descriptor.
    key: &'static str,
    /// The descriptor as a symbol.
    descriptor: &'static str,
    /// The descriptor as a number.
    code: u64,
}

impl FilterKind {
    /// The kind of a filter. Its descriptor says what it is: the key is the client's choice, and counts only where the value
    /// has no descriptor that is known.
    pub(crate) fn of(key: &Symbol, value: &Value) -> Option<Self> {
        let descriptor = match value {
            Value::Described(described) => Some(&described.0),
            _ => None,
        };
        let by_descriptor = FILTERS.iter().find(|names| match descriptor {
            Some(Value::Symbol(symbol)) => *symbol == names.descriptor,
            Some(code) => code.as_integer().is_some_and(|code| code.cast_unsigned() == names.code),
            None => false,
        });
        by_descriptor.or_else(|| FILTERS.iter().find(|names| *key == names.key)).map(|names| names.kind)
    }

    /// The first filter of this kind: its place, and its value without the descriptor.
    pub(crate) fn find(self, source: &Source) -> Option<(usize, &Value)> {
        let place = source.filter.iter().position(|(key, value)| Self::of(key, value) == Some(self))?;
        let value = match &source.filter[place].1 {
            Value::Described(described) => &described.1,
            value => value,
        };
        Some((place, value))
    }
}

impl Distribution {
    /// Whether a client asks for copies.
    pub(crate) fn is_copy(source: &Source) -> bool {
        source.distribution_mode.as_ref().is_some_and(|mode| *mode == Self::Copy.name())
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Move => "move",
            Self::Copy => "copy",
        }
    }
}

/// The source in effect at our end, with the filters that are applied.
pub(crate) fn source_in_effect(
    asked: &Source,
    distribution: Option<Distribution>,
    filter: Vec<(Symbol, Value)>,
) -> Source {
    let is_in_effect =
        |mode: &&Symbol| distribution.is_some_and(|distribution| **mode == distribution.name());
    let outcomes = asked.outcomes.iter().filter(|outcome| OUTCOMES.contains(&outcome.as_str()));
    Source {
        address: asked.address.clone(),
        distribution_mode: asked.distribution_mode.as_ref().filter(is_in_effect).cloned(),
        filter,
        outcomes: outcomes.cloned().collect(),
        ..Source::default()
    }
}

/// The target in effect at our end.
pub(crate) fn target_in_effect(asked: &Target) -> Target {
    if asked.is_coordinator {
        let known = |capability: &&Symbol| COORDINATOR_CAPABILITIES.contains(&capability.as_str());
        return Target::coordinator(asked.capabilities.iter().filter(known).cloned().collect());
    }
    Target { address: asked.address.clone(), ..Target::default() }
}

/// The address at our end that a client asks for.
///
/// # Errors
/// It names none, for which there are ways that are not supported here.
pub(crate) fn asked_address(attach: &Attach) -> Result<&str, Error> {
    let (address, is_dynamic) = match attach.role {
        Role::Sender => match &attach.target {
            Some(target) => (target.address.as_deref(), target.dynamic),
            None => (None, false),
        },
        Role::Receiver => match &attach.source {
            Some(source) => (source.address.as_deref(), source.dynamic),
            None => (None, false),
        },
    };
    let text = match (address, is_dynamic, attach.role) {
        (Some(address), ..) => return Ok(address),
        (None, true, Role::Receiver) => {
            "A dynamic source (a temporary queue) is not supported: create a queue, and attach to its name."
        }
        (None, true, Role::Sender) => {
            "A dynamic target (a temporary queue) is not supported: create a queue, and attach to its name."
        }
        (None, false, Role::Receiver) => {
            "A source without an address is not supported: attach to the name of a queue, a subscription or the \
             partition of a hub."
        }
        (None, false, Role::Sender) => {
            "A target without an address (an anonymous relay, which routes each message by its 'to') is not supported: \
             attach a link to each queue, topic or hub."
        }
    };
    Err(Error::new(ErrorCondition::NOT_IMPLEMENTED, text))
}

const FILTERS: [FilterNames; 3] = [
    FilterNames {
        kind: FilterKind::Selector,
        key: "apache.org:selector-filter:string",
        descriptor: "apache.org:selector-filter:string",
        code: 0x0000_468c_0000_0004,
    },
    FilterNames {
        kind: FilterKind::Session,
        key: "com.microsoft:session-filter",
        descriptor: "com.microsoft:session-filter",
        code: 0x0013_7000_000c,
    },
    FilterNames {
        kind: FilterKind::NonExclusiveSession,
        key: "com.microsoft:non-exclusive-session-filter",
        descriptor: "com.microsoft:non-exclusive-session-filter:list",
        code: 0x0013_7000_000e,
    },
];

/// What a receiver may make of a message.
const OUTCOMES: [&str; 4] =
    ["amqp:accepted:list", "amqp:rejected:list", "amqp:released:list", "amqp:modified:list"];

/// What the coordinator can do (AMQP 1.0, section 4.5.7).
const COORDINATOR_CAPABILITIES: [&str; 2] = ["amqp:local-transactions", "amqp:multi-txns-per-ssn"];

#[cfg(test)]
mod tests {
    use super::*;

    fn described(descriptor: Value) -> Value {
        Value::Described(Box::new((descriptor, "value".into())))
    }

    fn symbol(text: &'static str) -> Value {
        Value::Symbol(Symbol::from_static(text))
    }

    #[test]
    fn a_filter_is_known_by_its_descriptor_and_without_one_by_its_key() {
        let selector = "apache.org:selector-filter:string";
        for (key, value, kind) in [
            ("selector", described(symbol("apache.org:selector-filter:string")), Some(FilterKind::Selector)),
            ("jms-selector", described(Value::Ulong(0x0000_468c_0000_0004)), Some(FilterKind::Selector)),
            ("mine", described(Value::Ulong(0x0013_7000_000c)), Some(FilterKind::Session)),
            ("mine", described(symbol("com.microsoft:session-filter")), Some(FilterKind::Session)),
            ("com.microsoft:session-filter", Value::Null, Some(FilterKind::Session)),
            (selector, Value::from("amqp.annotation.x-opt-offset > '3'"), Some(FilterKind::Selector)),
            (selector, described(symbol("com.microsoft:session-filter")), Some(FilterKind::Session)),
            (selector, described(symbol("a:b")), Some(FilterKind::Selector)),
            ("any", described(Value::Ulong(83_483_426_830)), Some(FilterKind::NonExclusiveSession)),
            ("selector", Value::from("color = 'blue'"), None),
            ("no-local", described(symbol("apache.org:no-local-filter:list")), None),
            ("no-local", described(Value::Int(-1)), None),
        ] {
            assert_eq!(FilterKind::of(&Symbol::from(key), &value), kind, "{key}: {value:?}");
        }
    }

    #[test]
    fn nothing_is_repeated_that_is_not_in_effect() {
        let asked = Source {
            durable: 2,
            expiry_policy: Some("never".into()),
            timeout: 60,
            distribution_mode: Some("copy".into()),
            filter: vec![("selector".into(), "color = 'blue'".into())],
            default_outcome: Some(described(symbol("amqp:modified:list"))),
            outcomes: vec![
                "amqp:accepted:list".into(),
                "amqp:released:list".into(),
                "x:teleported:list".into(),
            ],
            capabilities: vec!["queue".into(), "shared".into()],
            ..Source::new("amqp://host/orders")
        };
        let expected = Source {
            outcomes: vec!["amqp:accepted:list".into(), "amqp:released:list".into()],
            ..Source::new("amqp://host/orders")
        };
        assert_eq!(source_in_effect(&asked, Some(Distribution::Move), Vec::new()), expected);
        let copied = source_in_effect(&asked, Some(Distribution::Copy), Vec::new());
        assert_eq!(copied.distribution_mode, Some("copy".into()));
        let target = Target { durable: 1, capabilities: vec!["queue".into()], ..Target::new("orders") };
        assert_eq!(target_in_effect(&target), Target::new("orders"));
        let asked = vec!["amqp:local-transactions".into(), "amqp:distributed-transactions".into()];
        let coordinator = target_in_effect(&Target::coordinator(asked));
        assert_eq!(coordinator, Target::coordinator(vec!["amqp:local-transactions".into()]));
    }
}
