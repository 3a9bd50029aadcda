//! The hubs of a namespace at one instant: a list that is found in by name and by id.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::{BuildHasher as _, Hash, RandomState};
use std::sync::Arc;

use super::entities::EntityError;
use super::hub::Hub;

/// The hubs of a namespace at one instant, in the order in which they came.
#[derive(Debug, Clone, Default)]
pub struct Hubs {
    hubs: Vec<Arc<Hub>>,
    /// By the name in lower case.
    by_name: Index<String>,
    by_id: Index<[u8; 16]>,
    /// Partitions of all hubs.
    partitions: usize,
}

/// Hubs by a key, in parts by its hash: a change of a copy copies one of them.
#[derive(Debug, Clone)]
struct Index<K> {
    parts: [Arc<HashMap<K, Arc<Hub>>>; PARTS],
    hasher: RandomState,
}

impl Hubs {
    /// Every hub.
    pub fn iter(&self) -> std::slice::Iter<'_, Arc<Hub>> {
        self.hubs.iter()
    }

    /// The hub of this name, whatever the letter case.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Arc<Hub>> {
        self.by_name.get(name.to_ascii_lowercase().as_str())
    }

    /// The hub with this id, which Kafka's clients see.
    #[must_use]
    pub fn find_id(&self, id: &[u8; 16]) -> Option<&Arc<Hub>> {
        self.by_id.get(id)
    }

    /// Returns the number of hubs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.hubs.len()
    }

    /// Whether there is no hub.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.hubs.is_empty()
    }

    /// Checks that there can be so many more partitions.
    pub(super) fn check_total(&self, added: usize) -> Result<(), EntityError> {
        match self.partitions + added > MAXIMUM_TOTAL_PARTITIONS {
            true => Err(EntityError::TotalPartitions { existing: self.partitions, added }),
            false => Ok(()),
        }
    }

    /// Adds a hub at the end; gives back the one that has its name, if there is one.
    pub(super) fn insert(&mut self, hub: Arc<Hub>) -> Result<(), Arc<Hub>> {
        if let Some(there) = self.find(hub.name()) {
            return Err(Arc::clone(there));
        }
        self.put(&hub);
        self.partitions += hub.partitions().len();
        self.hubs.push(hub);
        Ok(())
    }

    /// Puts a hub in the place of the one that has its name, and has the same id.
    pub(super) fn replace(&mut self, hub: Arc<Hub>) {
        let Some(before) = self.find(hub.name()).cloned() else {
            return;
        };
        self.put(&hub);
        self.partitions = self.partitions - before.partitions().len() + hub.partitions().len();
        if let Some(place) = self.hubs.iter_mut().find(|known| Arc::ptr_eq(known, &before)) {
            *place = hub;
        }
    }

    /// Returns the hubs without this one.
    pub(super) fn without(&self, hub: &Arc<Hub>) -> Self {
        let mut others = self.clone();
        if others.by_name.remove(hub.name().to_ascii_lowercase().as_str()) {
            others.by_id.remove(&hub.id());
            others.partitions -= hub.partitions().len();
        }
        others.hubs.retain(|known| !Arc::ptr_eq(known, hub));
        others
    }

    /// Makes this the hub of its name and of its id.
    fn put(&mut self, hub: &Arc<Hub>) {
        self.by_name.put(hub.name().to_ascii_lowercase(), hub);
        self.by_id.put(hub.id(), hub);
    }
}

impl<'a> IntoIterator for &'a Hubs {
    type Item = &'a Arc<Hub>;
    type IntoIter = std::slice::Iter<'a, Arc<Hub>>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl std::ops::Index<usize> for Hubs {
    type Output = Arc<Hub>;

    fn index(&self, place: usize) -> &Arc<Hub> {
        &self.hubs[place]
    }
}

impl<K> Default for Index<K> {
    fn default() -> Self {
        Self { parts: std::array::from_fn(|_| Arc::default()), hasher: RandomState::new() }
    }
}

impl<K: Hash + Eq + Clone> Index<K> {
    fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<&Arc<Hub>>
    where
        K: Borrow<Q>,
    {
        self.parts[self.part_of(key)].get(key)
    }

    fn put(&mut self, key: K, hub: &Arc<Hub>) {
        let part = self.part_of(&key);
        Arc::make_mut(&mut self.parts[part]).insert(key, Arc::clone(hub));
    }

    /// Whether there was a hub of this key.
    fn remove<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        let part = self.part_of(key);
        Arc::make_mut(&mut self.parts[part]).remove(key).is_some()
    }

    /// The part that has this key.
    fn part_of<Q: Hash + ?Sized>(&self, key: &Q) -> usize {
        self.hasher.hash_one(key) as usize % PARTS
    }
}

/// Parts of an index. Of tens of thousands of hubs each has some hundreds.
const PARTS: usize = 64;

/// Maximum number of partitions of all hubs, beyond which clients create none. Declared hubs count.
pub(crate) const MAXIMUM_TOTAL_PARTITIONS: usize = 131_072;
