//! The coordinators of Kafka's groups and transactions, and the journal that they share.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::groups::{Groups, KeptGroups};
use crate::journal::{Admission, Journal, JournalLog, SLACK};
use crate::namespace::{DeletionObserver, Namespace, NamespaceError};
use crate::transactions::{KeptTransactions, Transactions};

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Coordinators {
    pub(crate) journal: Arc<Journal>,
    pub(crate) groups: Arc<Groups>,
    pub(crate) transactions: Arc<Transactions>,
}

impl Coordinators {
    /// Those of a namespace, with what its journal tells. It blocks while that is read.
    ///
    /// # Errors
    /// The journal can't be used.
    pub(super) fn open(namespace: &Arc<Namespace>, seed: u64) -> Result<Self, NamespaceError> {
        let (mut kept_groups, mut kept_transactions) = (KeptGroups::default(), KeptTransactions::new());
        let journal = match namespace.open_coordinator_log()? {
            None => Journal::in_memory(),
            Some(opened) => {
                let admitted = Arc::clone(namespace);
                let admission =
                    Admission(Box::new(move || admitted.admit_coordinators().map_err(|it| it.to_string())));
                let place = JournalLog { log: opened.log, path: opened.path, admission, slack: SLACK };
                let opened = Journal::open(place, |record| {
                    kept_groups.apply(&record);
                    kept_transactions.apply(&record);
                });
                opened.map_err(|error| namespace.refuse_coordinator_log(&error))?
            }
        };
        let journal = Arc::new(journal);
        let clock = Arc::clone(namespace.clock());
        let commits = namespace.watch_commits();
        let memory = namespace.memory();
        let groups = Groups::new(seed, Arc::clone(&journal), commits, clock, kept_groups, memory, |topic| {
            namespace.hub(topic).is_some_and(|hub| hub.name() == topic)
        });
        let transactions = Transactions::new(
            Arc::clone(namespace),
            Arc::clone(&journal),
            Arc::clone(&groups),
            kept_transactions,
        );
        let coordinators = Self { journal, groups, transactions };
        namespace.observe_deletions(Arc::new(Deletions {
            groups: Arc::downgrade(&coordinators.groups),
            transactions: Arc::downgrade(&coordinators.transactions),
        }));
        Ok(coordinators)
    }

    /// Has them do what is due until `stop` becomes true.
    pub(super) fn start(&self, tasks: &mut JoinSet<()>, stop: &watch::Receiver<bool>) {
        tasks.spawn(Arc::clone(&self.groups).drive(stop.clone()));
        tasks.spawn(Arc::clone(&self.transactions).drive(stop.clone()));
        tasks.spawn(self.clone().tidy(stop.clone()));
    }

    /// Keeps the journal short.
    async fn tidy(self, mut stop: watch::Receiver<bool>) {
        let mut ticks = tokio::time::interval(TIDYING_PERIOD);
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
            if let Some(begun) = self.journal.tidy() {
                match self.groups.give_account().and_then(|()| self.transactions.give_account()) {
                    Ok(()) => self.journal.end_account(&begun),
                    // Another one is given when it can be written.
                    Err(refused) => tracing::debug!(%refused, "the coordinators' journal stays long"),
                }
            }
        }
    }
}

/// What coordinators know of hubs goes with them. They know the namespace, so that it must not keep them.
#[derive(Debug)]
struct Deletions {
    groups: Weak<Groups>,
    transactions: Weak<Transactions>,
}

impl DeletionObserver for Deletions {
    fn hub_deleted(&self, name: &str) {
        let was_pending = self.transactions.upgrade().is_some_and(|it| it.forget_topic(name));
        if let Some(groups) = self.groups.upgrade() {
            groups.forget_topic(name, was_pending);
        }
    }
}

/// How often it is looked whether the journal has become long.
const TIDYING_PERIOD: Duration = Duration::from_secs(1);
