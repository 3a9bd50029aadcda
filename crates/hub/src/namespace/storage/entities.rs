//! Keeping what clients do to queues, topics and subscriptions.
//!
//! What is new is kept before it is there, so that no message is stored of something that the directory does not name. Until its
//! change is on the device nobody else can have its path; others can be made meanwhile, and share the waiting.

use std::collections::HashMap;
use std::io;

use super::changes::Appended;
use super::manifest::EntityChange;
use super::{DataDirectoryError, Storage};
use crate::namespace::facts::{EntityFacts, subscription_path};
use crate::namespace::queue_config::{QueueConfig, SubscriptionConfig, TopicConfig};
use queue_store::{QueueOptions, TopicOptions};

/// Something new that is being kept, and whose path nobody else can have until it is [there](Storage::is_there) or
/// [given up](Storage::give_up).
#[derive(Debug)]
pub(in crate::namespace) struct Kept {
    path: String,
    removal: EntityChange,
    appended: Appended,
}

/// Whether the data directory took a change; if not, nothing has changed.
type Changed = Result<(), DataDirectoryError>;

impl Storage {
    /// What is known of queues, topics and subscriptions besides their options, by their paths in lower case.
    pub(in crate::namespace) fn facts(&self) -> HashMap<String, EntityFacts> {
        let facts = self.directory.manifest.facts();
        facts.map(|(path, facts)| (path.clone(), facts.clone())).collect()
    }

    /// Whether something of this path is being made, whatever the letter case.
    pub(in crate::namespace) fn is_reserved(&self, path: &str) -> bool {
        self.reserved.contains(&path.to_ascii_lowercase())
    }

    /// Begins to keep a queue that is new.
    pub(in crate::namespace) fn keep_queue(
        &mut self,
        queue: &QueueConfig,
        facts: &EntityFacts,
    ) -> Result<Kept, DataDirectoryError> {
        self.make_room_for(&queue.name)?;
        self.directory.make_queue_folder(&queue.name)?;
        let removal = EntityChange::Deleted { name: queue.name.clone() };
        let change = EntityChange::Queue { queue: queue.clone(), facts: facts.clone() };
        self.begin_to_keep(queue.name.clone(), change, removal)
    }

    /// Begins to keep a topic that is new.
    pub(in crate::namespace) fn keep_topic(
        &mut self,
        topic: &TopicConfig,
        facts: &EntityFacts,
    ) -> Result<Kept, DataDirectoryError> {
        self.make_room_for(&topic.name)?;
        self.directory.make_queue_folder(&topic.name)?;
        let removal = EntityChange::Deleted { name: topic.name.clone() };
        let change = EntityChange::Topic { topic: topic.clone(), facts: facts.clone() };
        self.begin_to_keep(topic.name.clone(), change, removal)
    }

    /// Begins to keep a subscription that is new.
    pub(in crate::namespace) fn keep_subscription(
        &mut self,
        topic: &str,
        subscription: &SubscriptionConfig,
        facts: &EntityFacts,
    ) -> Result<Kept, DataDirectoryError> {
        let (topic, name) = (topic.to_owned(), subscription.name.clone());
        let path = subscription_path(&topic, &name);
        let removal = EntityChange::SubscriptionDeleted { topic: topic.clone(), subscription: name };
        let change =
            EntityChange::Subscription { topic, subscription: subscription.clone(), facts: facts.clone() };
        self.begin_to_keep(path, change, removal)
    }

    fn begin_to_keep(
        &mut self,
        path: String,
        change: EntityChange,
        removal: EntityChange,
    ) -> Result<Kept, DataDirectoryError> {
        let (number, appended) = self.directory.append(&change)?;
        self.directory.manifest.apply(number, change);
        let path = path.to_ascii_lowercase();
        self.reserved.insert(path.clone());
        Ok(Kept { path, removal, appended })
    }

    /// What was kept is there now.
    pub(in crate::namespace) fn is_there(&mut self, kept: Kept) {
        self.reserved.remove(&kept.path);
    }

    /// Forgets what was kept and can't be created.
    pub(in crate::namespace) fn give_up(&mut self, kept: Kept) {
        let Kept { path, removal, .. } = kept;
        self.reserved.remove(&path);
        if self.directory.changes.has_failed() {
            // The log loses it here, and the next manifest does not name it.
            self.cut_back();
            self.directory.manifest.apply(self.directory.changes.last(), removal);
        } else if let Err(error) = self.change(removal.clone()) {
            // It is on disk once the manifest is written, with the next change.
            tracing::warn!(entity = path, %error, "it is not created, and comes back if the service ends before another change");
            self.directory.changes.distrust(io::ErrorKind::Other);
            self.directory.manifest.apply(self.directory.changes.last(), removal);
        }
    }

    /// Why the directory does not keep what was [waited](Kept::wait) for.
    pub(in crate::namespace) fn unkept(&self, error: &io::Error) -> DataDirectoryError {
        self.directory.unusable(&format!("{} can't be written", super::changes::FILE), error)
    }

    /// Keeps the options that a queue has now.
    pub(in crate::namespace) fn keep_queue_options(
        &mut self,
        queue: QueueConfig,
        facts: &EntityFacts,
    ) -> Changed {
        self.change(EntityChange::Queue { queue, facts: facts.clone() })
    }

    /// Keeps the options that a topic has now.
    pub(in crate::namespace) fn keep_topic_options(
        &mut self,
        topic: &str,
        options: &TopicOptions,
        facts: &EntityFacts,
    ) -> Changed {
        let (topic, options, facts) = (topic.to_owned(), options.clone(), facts.clone());
        self.change(EntityChange::TopicOptions { topic, options, facts })
    }

    /// Keeps the options that a subscription has now.
    pub(in crate::namespace) fn keep_subscription_options(
        &mut self,
        topic: &str,
        subscription: &str,
        options: &QueueOptions,
        facts: &EntityFacts,
    ) -> Changed {
        let (topic, subscription) = (topic.to_owned(), subscription.to_owned());
        let (options, facts) = (options.clone(), facts.clone());
        self.change(EntityChange::SubscriptionOptions { topic, subscription, options, facts })
    }

    /// Forgets a queue or a topic. Its files are still there: [`remove_queue_files`](Self::remove_queue_files).
    pub(in crate::namespace) fn forget_queue_or_topic(&mut self, name: &str) -> Changed {
        self.change(EntityChange::Deleted { name: name.to_owned() })
    }

    /// Forgets a subscription of a topic.
    pub(in crate::namespace) fn forget_subscription(&mut self, topic: &str, subscription: &str) -> Changed {
        let (topic, subscription) = (topic.to_owned(), subscription.to_owned());
        self.change(EntityChange::SubscriptionDeleted { topic, subscription })
    }

    /// Removes the files of a queue or topic that was forgotten and whose journal is retired.
    pub(in crate::namespace) fn remove_queue_files(&mut self, name: &str) {
        if self.directory.remove_queue_folder(name) {
            // It is on disk when the manifest is written, or something else has the name.
            self.directory.manifest.forget_deleted_queue(name);
        }
    }

    /// What had this name and was deleted must be gone before something else has it.
    fn make_room_for(&mut self, name: &str) -> Changed {
        if self.directory.manifest.is_deleted_queue(name) {
            self.remove_queue_files(name);
        }
        match self.directory.manifest.is_deleted_queue(name) {
            false => Ok(()),
            true => Err(self.directory.unusable(
                &format!("the folder of '{name}', which was deleted, can't be removed"),
                &"see the warning before this",
            )),
        }
    }

    /// Writes the manifest, if there are changes that it does not have, so that whoever looks into the directory finds them there.
    pub(in crate::namespace) fn write_manifest(&mut self) {
        if self.directory.changes.length() > 0
            && let Err(error) = self.directory.save(self.directory.manifest.clone())
        {
            // The next start writes it.
            tracing::warn!(%error, "what clients have created, changed and deleted stays in the log of changes");
        }
    }

    /// Makes a change, on disk and in here.
    fn change(&mut self, change: EntityChange) -> Changed {
        let (number, appended) = self.directory.append(&change)?;
        if let Err(error) = appended.wait() {
            self.cut_back();
            return Err(self.unkept(&error));
        }
        self.directory.manifest.apply(number, change);
        Ok(())
    }

    /// Removes from the log of changes what could not be synced, since it is answered with an error.
    fn cut_back(&mut self) {
        if let Err(error) = self.directory.changes.cut_back() {
            tracing::error!(
                directory = %self.directory.path().display(),
                %error,
                "changes that were refused can't be removed from the log of changes; a restart before the next change may find them"
            );
        }
    }
}

impl Kept {
    /// Waits until it is on the device.
    ///
    /// # Errors
    /// What the system said. It can't be known whether it is there.
    pub(in crate::namespace) fn wait(&self) -> io::Result<()> {
        self.appended.wait()
    }
}
