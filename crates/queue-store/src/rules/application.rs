//! The application properties of a message: a list, and where in it a name is.
//!
//! A list that is searched often has two tables of positions, by the hash of the name and by that of the name in lower
//! case. Both have the first of those that are the same to them.

use amqp::codec::Value;
use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::ops::Deref;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Application properties, in the order of the application. Names differ by letter case, but are found without it.
#[derive(Default)]
pub struct ApplicationProperties {
    list: Vec<(String, Value)>,
    /// Tables that are right for the list at any time.
    names: OnceLock<Names>,
    /// Searches without the tables.
    searches: AtomicUsize,
}

impl ApplicationProperties {
    /// These properties.
    #[must_use]
    pub fn of(list: Vec<(String, Value)>) -> Self {
        Self { list, ..Self::default() }
    }

    /// The value of a property: of the one of exactly this name, else of the first whose name differs by letter case
    /// alone.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Value> {
        self.position(name).map(|position| &self.list[position].1)
    }

    /// Sets a property, where [`find`](Self::find) finds it or at the end.
    pub fn set(&mut self, name: &str, value: Value) {
        match self.position(name) {
            Some(position) => self.list[position].1 = value,
            None => self.push(name.to_owned(), value),
        }
    }

    /// Removes the property that [`find`](Self::find) finds, if there is one.
    pub fn remove(&mut self, name: &str) {
        let Some(position) = self.position(name) else {
            return;
        };
        if let Some(names) = self.names.get_mut() {
            names.remove(&self.list, position);
        }
        self.list.remove(position);
    }

    fn push(&mut self, name: String, value: Value) {
        self.list.push((name, value));
        if let Some(names) = self.names.get_mut() {
            names.add(&self.list, self.list.len() - 1);
        }
    }

    fn position(&self, name: &str) -> Option<usize> {
        let names = match self.names.get() {
            Some(names) => names,
            None if self.list.len() <= SHORT_LIST => return self.search(name),
            None if self.searches.fetch_add(1, Ordering::Relaxed) < FEW_SEARCHES => return self.search(name),
            None => self.names.get_or_init(|| Names::of(&self.list)),
        };
        names.position(&self.list, name)
    }

    fn search(&self, name: &str) -> Option<usize> {
        let exactly = self.list.iter().position(|(found, _)| found == name);
        exactly.or_else(|| self.list.iter().position(|(found, _)| is_same_name(found, name)))
    }
}

impl Deref for ApplicationProperties {
    type Target = [(String, Value)];

    fn deref(&self) -> &Self::Target {
        &self.list
    }
}

impl FromIterator<(String, Value)> for ApplicationProperties {
    fn from_iter<T: IntoIterator<Item = (String, Value)>>(properties: T) -> Self {
        Self::of(properties.into_iter().collect())
    }
}

impl Clone for ApplicationProperties {
    fn clone(&self) -> Self {
        let searches = AtomicUsize::new(self.searches.load(Ordering::Relaxed));
        Self { list: self.list.clone(), names: self.names.clone(), searches }
    }
}

impl PartialEq for ApplicationProperties {
    fn eq(&self, other: &Self) -> bool {
        self.list == other.list
    }
}

impl fmt::Debug for ApplicationProperties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.list.fmt(f)
    }
}

/// Positions of names in a list.
#[derive(Clone)]
struct Names {
    hasher: RandomState,
    exact: Table,
    folded: Table,
}

impl Names {
    fn of(list: &[(String, Value)]) -> Self {
        let table = || Table::with_room(list.len() + ROOM);
        let mut names = Self { hasher: RandomState::new(), exact: table(), folded: table() };
        for position in 0..list.len() {
            names.insert(list, position);
        }
        names
    }

    fn position(&self, list: &[(String, Value)], name: &str) -> Option<usize> {
        let exactly = self.exact.find(self.hash(name), |position| list[position].0 == name);
        exactly.or_else(|| {
            self.folded.find(self.folded_hash(name), |position| is_same_name(&list[position].0, name))
        })
    }

    /// Takes up what was added to the list at its end.
    fn add(&mut self, list: &[(String, Value)], position: usize) {
        match self.exact.has_room() && self.folded.has_room() {
            true => self.insert(list, position),
            false => *self = Self::of(list),
        }
    }

    fn insert(&mut self, list: &[(String, Value)], position: usize) {
        let name = &list[position].0;
        let (exact, folded) = (self.hash(name), self.folded_hash(name));
        self.exact.insert(exact, position, |there| list[there].0 == *name);
        self.folded.insert(folded, position, |there| is_same_name(&list[there].0, name));
    }

    /// Forgets what is about to be removed from the list: the next one of the name, if there is one, has its place.
    fn remove(&mut self, list: &[(String, Value)], position: usize) {
        let name = &list[position].0;
        let (exact, folded) = (self.hash(name), self.folded_hash(name));
        let next = |is_same: &dyn Fn(&str) -> bool| {
            let mut later = list.iter().skip(position + 1);
            later.position(|(found, _)| is_same(found)).map(|distance| position + 1 + distance)
        };
        self.exact.remove(exact, position, || next(&|found| found == name));
        self.folded.remove(folded, position, || next(&|found| is_same_name(found, name)));
    }

    fn hash(&self, name: &str) -> u64 {
        self.hasher.hash_one(name)
    }

    /// The same for all that [`is_same_name`] holds for.
    fn folded_hash(&self, name: &str) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        for character in name.chars().flat_map(char::to_lowercase) {
            hasher.write_u32(character.into());
        }
        hasher.finish()
    }
}

/// Positions by hashes. Each is in the first slot from the one of its hash on that was free, and at least half of the
/// slots are free. Slots of removed ones are not used again, so that those behind them are found.
#[derive(Clone)]
struct Table {
    slots: Vec<Slot>,
    /// Slots that are not free.
    used: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Slot {
    Free,
    Removed,
    Position(u32),
}

impl Table {
    fn with_room(count: usize) -> Self {
        Self { slots: vec![Slot::Free; (2 * count).next_power_of_two()], used: 0 }
    }

    fn has_room(&self) -> bool {
        2 * (self.used + 1) <= self.slots.len()
    }

    fn find(&self, hash: u64, is_wanted: impl Fn(usize) -> bool) -> Option<usize> {
        match self.slots[self.slot(hash, is_wanted)] {
            Slot::Position(position) => Some(position as usize),
            Slot::Free | Slot::Removed => None,
        }
    }

    /// Puts a position in, unless there is one that is the same.
    fn insert(&mut self, hash: u64, position: usize, is_same: impl Fn(usize) -> bool) {
        let slot = self.slot(hash, is_same);
        if self.slots[slot] == Slot::Free {
            self.slots[slot] = Slot::Position(position as u32);
            self.used += 1;
        }
    }

    /// Puts the `next` position of the same in the place of one, if that is there, and lowers all behind it.
    fn remove(&mut self, hash: u64, position: usize, next: impl FnOnce() -> Option<usize>) {
        let slot = self.slot(hash, |there| there == position);
        if self.slots[slot] != Slot::Free {
            self.slots[slot] = next().map_or(Slot::Removed, |next| Slot::Position(next as u32));
        }
        for slot in &mut self.slots {
            if let Slot::Position(there) = slot
                && *there as usize > position
            {
                *there -= 1;
            }
        }
    }

    /// The slot of the wanted position, or the free one where it would be.
    fn slot(&self, hash: u64, is_wanted: impl Fn(usize) -> bool) -> usize {
        let mask = self.slots.len() - 1;
        let mut slot = hash as usize & mask;
        loop {
            match self.slots[slot] {
                Slot::Free => return slot,
                Slot::Position(position) if is_wanted(position as usize) => return slot,
                Slot::Position(_) | Slot::Removed => slot = (slot + 1) & mask,
            }
        }
    }
}

/// Whether two names of properties are one, letter case aside.
fn is_same_name(one: &str, other: &str) -> bool {
    one.eq_ignore_ascii_case(other)
        || (!(one.is_ascii() && other.is_ascii())
            && one.chars().flat_map(char::to_lowercase).eq(other.chars().flat_map(char::to_lowercase)))
}

/// Properties among which a name is found faster without its hash.
const SHORT_LIST: usize = 8;

/// Searches that take less time than making the tables.
const FEW_SEARCHES: usize = 16;

/// Properties that can be added before the tables are made again: more than one action adds.
const ROOM: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cell::Cell;

    /// As [`ApplicationProperties`], found by looking at all.
    #[derive(Debug, Default)]
    struct Naive(Vec<(String, Value)>);

    impl Naive {
        fn position(&self, name: &str) -> Option<usize> {
            let folded = |name: &str| name.chars().flat_map(char::to_lowercase).collect::<String>();
            let exactly = self.0.iter().position(|(found, _)| found == name);
            exactly.or_else(|| self.0.iter().position(|(found, _)| folded(found) == folded(name)))
        }

        fn set(&mut self, name: &str, value: Value) {
            match self.position(name) {
                Some(position) => self.0[position].1 = value,
                None => self.0.push((name.to_owned(), value)),
            }
        }

        fn remove(&mut self, name: &str) {
            if let Some(position) = self.position(name) {
                self.0.remove(position);
            }
        }
    }

    /// Properties of which the tables are there.
    fn indexed(list: Vec<(String, Value)>) -> ApplicationProperties {
        let properties = ApplicationProperties::of(list);
        properties.names.get_or_init(|| Names::of(&properties.list));
        properties
    }

    #[test]
    fn properties_are_found_by_name_and_failing_that_without_regard_to_letter_case() {
        let list: Vec<(String, Value)> = vec![
            ("color".to_owned(), "red".into()),
            ("Quantity".to_owned(), Value::Int(7)),
            ("COLOR".to_owned(), "blue".into()),
            ("Größe".to_owned(), Value::Boolean(true)),
            ("\u{212a}elvin".to_owned(), Value::Int(3)),
        ];
        for properties in [ApplicationProperties::of(list.clone()), indexed(list)] {
            assert_eq!(properties.find("quantity"), Some(&Value::Int(7)));
            assert_eq!(properties.find("COLOR"), Some(&"blue".into()));
            assert_eq!(properties.find("coloR"), Some(&"red".into()));
            assert_eq!(properties.find("shape"), None);
            assert_eq!(properties.find("GRÖßE"), Some(&Value::Boolean(true)));
            assert_eq!(properties.find("kelvin"), Some(&Value::Int(3)));
        }
    }

    #[test]
    fn tables_are_there_when_a_list_that_is_not_short_is_searched_often() {
        let list = |length: usize| -> ApplicationProperties {
            (0..length).map(|number| (format!("name {number}"), Value::Null)).collect()
        };
        let (short, long) = (list(SHORT_LIST), list(SHORT_LIST + 1));
        for _ in 0..FEW_SEARCHES {
            assert!(short.find("NAME 3").is_some() && long.find("NAME 3").is_some());
        }
        assert!(long.names.get().is_none());
        assert!(short.find("name 3").is_some() && long.find("name 3").is_some());
        assert!(short.names.get().is_none() && long.names.get().is_some());
        assert!(long.clone().names.get().is_some());
    }

    #[test]
    fn a_search_looks_at_few_properties_however_many_there_are_and_whatever_is_done_to_them() {
        let name = |number: usize| format!("Property {number}");
        let mut properties = indexed((0..8_000).map(|number| (name(number), Value::Null)).collect());
        for number in 0..100 {
            properties.remove(&name(number * 70));
            properties.set(&format!("new {number}"), Value::Null);
        }
        let looks = Cell::new(0_usize);
        let looked = |found: &str, wanted: &str| {
            looks.set(looks.get() + 1);
            is_same_name(found, wanted)
        };
        let names = properties.names.get().unwrap();
        for number in 0..8_000 {
            for wanted in [name(number), format!("none {number}")] {
                let wanted = wanted.as_str();
                names.exact.find(names.hash(wanted), |there| looked(&properties[there].0, wanted));
                names.folded.find(names.folded_hash(wanted), |there| looked(&properties[there].0, wanted));
            }
        }
        // Four tries each of 8,000: on average they take one and a half, or two and a half.
        assert!(looks.get() < 4 * 8_000 * 4, "{}", looks.get());
    }

    /// Sets a name with a number, or removes it.
    fn steps() -> impl Strategy<Value = Vec<(String, Option<i32>)>> {
        prop::collection::vec(("[abAB\u{212a}kK]{1,2}", prop::option::of(0..9)), 0..120)
    }

    proptest! {
        #[test]
        fn what_is_set_and_removed_is_found_as_by_looking_at_all(
            first in prop::collection::vec("[abAB\u{212a}kK]{1,2}", 0..60),
            steps in steps(),
            is_indexed in any::<bool>(),
        ) {
            let list: Vec<(String, Value)> = first
                .into_iter()
                .enumerate()
                .map(|(number, name)| (name, Value::Long(number as i64)))
                .collect();
            let mut naive = Naive(list.clone());
            let mut properties = if is_indexed { indexed(list) } else { ApplicationProperties::of(list) };
            for (name, number) in steps {
                prop_assert_eq!(properties.position(&name), naive.position(&name));
                match number {
                    Some(number) => {
                        properties.set(&name, Value::Int(number));
                        naive.set(&name, Value::Int(number));
                    }
                    None => {
                        properties = properties.clone();
                        properties.remove(&name);
                        naive.remove(&name);
                    }
                }
                prop_assert_eq!(&properties[..], &naive.0[..]);
            }
        }
    }
}
