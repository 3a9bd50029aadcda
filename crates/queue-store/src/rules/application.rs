//! The application properties of a message: a list, and where in it a name is.
//!
//! A list that is searched often has two maps of positions, by the name and by the name in lower case. Both have the first of those
//! that are the same to them.

use amqp::codec::Value;
use std::collections::HashMap;
use std::fmt;
use std::ops::Deref;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Application properties, in the order of the application. Names differ by letter case, but are found without it.
#[derive(Default)]
pub struct ApplicationProperties {
    list: Vec<(String, Value)>,
    /// Maps that are right for the list at any time.
    names: OnceLock<Names>,
    /// Searches without the maps.
    searches: AtomicUsize,
}

impl ApplicationProperties {
    /// Makes properties of a list.
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
        self.list.remove(position);
        // All positions behind it are others. An action removes only some properties.
        self.names.take();
        self.searches = AtomicUsize::new(0);
    }

    fn push(&mut self, name: String, value: Value) {
        if let Some(names) = self.names.get_mut() {
            names.add(&name, self.list.len());
        }
        self.list.push((name, value));
    }

    fn position(&self, name: &str) -> Option<usize> {
        let names = match self.names.get() {
            Some(names) => names,
            None if self.list.len() <= SHORT_LIST => return self.search(name),
            None if self.searches.fetch_add(1, Ordering::Relaxed) < FEW_SEARCHES => return self.search(name),
            None => self.names.get_or_init(|| Names::of(&self.list)),
        };
        names.position(name)
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
#[derive(Clone, Default)]
struct Names {
    exact: HashMap<String, usize>,
    folded: HashMap<String, usize>,
}

impl Names {
    fn of(list: &[(String, Value)]) -> Self {
        let mut names = Self::default();
        list.iter().enumerate().for_each(|(position, (name, _))| names.add(name, position));
        names
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.exact.get(name).or_else(|| self.folded.get(&folded(name))).copied()
    }

    /// Takes up what is added to the list at its end.
    fn add(&mut self, name: &str, position: usize) {
        self.exact.entry(name.to_owned()).or_insert(position);
        self.folded.entry(folded(name)).or_insert(position);
    }
}

/// Returns a text that is equal for names that [`is_same_name`] holds for.
fn folded(name: &str) -> String {
    name.chars().flat_map(char::to_lowercase).collect()
}

/// Whether two names of properties are one, letter case aside.
fn is_same_name(one: &str, other: &str) -> bool {
    one.eq_ignore_ascii_case(other)
        || (!(one.is_ascii() && other.is_ascii())
            && one.chars().flat_map(char::to_lowercase).eq(other.chars().flat_map(char::to_lowercase)))
}

/// Properties among which a name is found faster by looking at all.
const SHORT_LIST: usize = 8;

/// Searches that take less time than making the maps.
const FEW_SEARCHES: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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

    /// Properties of which the maps are there.
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
    fn maps_are_there_when_a_list_that_is_not_short_is_searched_often() {
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
        // And they are made again when it is searched often after a removal.
        let mut shorter = long.clone();
        shorter.set("name 9", Value::Null);
        shorter.remove("name 3");
        assert!(shorter.names.get().is_none());
        (0..=FEW_SEARCHES).for_each(|_| assert_eq!(shorter.position("NAME 9"), Some(SHORT_LIST)));
        assert!(shorter.names.get().is_some());
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
