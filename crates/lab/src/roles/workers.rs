//! The workers of a role: each a task with a connection of its own, spread over as many threads as help.
//!
//! Workers share nothing. They are asked through one channel each and answer through one that they have in common;
//! what passes there are counters a few times a second, never events.

use std::{
    any::Any,
    io,
    thread::{self, JoinHandle},
};

use tokio::{
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    task::LocalSet,
};

use super::RoleError;

/// The running workers of a role, asked `A` and answering `R`, whose work comes to a `T`.
#[derive(Debug)]
pub(super) struct Workers<A, R, T> {
    asks: Vec<UnboundedSender<A>>,
    answers: UnboundedReceiver<(usize, Answer<R, T>)>,
    threads: Vec<JoinHandle<()>>,
}

/// What comes from a worker.
#[derive(Debug)]
pub(super) enum Answer<R, T> {
    /// It says something.
    Event(R),
    /// It is done.
    Ended(Result<T, RoleError>),
}

/// A worker's end of the channels.
#[derive(Debug)]
pub(super) struct WorkerChannel<A, R, T> {
    /// Which worker it is.
    pub(super) index: usize,
    /// What it is asked. Ends when the role does not need it any more.
    pub(super) asks: UnboundedReceiver<A>,
    answers: UnboundedSender<(usize, Answer<R, T>)>,
}

impl<A, R, T> Workers<A, R, T>
where
    A: Clone + Send + 'static,
    R: Send + 'static,
    T: Send + 'static,
{
    /// Starts `count` workers.
    pub(super) fn start<W, F>(count: usize, work: W) -> Result<Self, RoleError>
    where
        W: Fn(WorkerChannel<A, R, T>) -> F + Clone + Send + 'static,
        F: Future<Output = Result<T, RoleError>> + 'static,
    {
        let (answer, answers) = unbounded_channel();
        let mut asks = Vec::with_capacity(count);
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let mut crews: Vec<Vec<WorkerChannel<A, R, T>>> = Vec::new();
        crews.resize_with(count.min(cores).max(1), Vec::new);
        for index in 0..count {
            let (ask, asked) = unbounded_channel();
            asks.push(ask);
            let crew = index % crews.len();
            crews[crew].push(WorkerChannel { index, asks: asked, answers: answer.clone() });
        }
        let threads = crews.into_iter().map(|crew| {
            let work = work.clone();
            thread::Builder::new().name("worker".to_owned()).spawn(move || run_crew(crew, &work))
        });
        let threads = threads
            .collect::<io::Result<_>>()
            .map_err(|source| RoleError::System { what: "a thread", source })?;
        Ok(Self { asks, answers, threads })
    }

    /// Asks all of them.
    pub(super) fn ask(&self, ask: &A) {
        for worker in &self.asks {
            // One that has ended has said so, or is about to.
            let _ = worker.send(ask.clone());
        }
    }

    /// The next answer with the number of its worker; `None` when all have ended. Safe to cancel.
    pub(super) async fn next(&mut self) -> Option<(usize, Answer<R, T>)> {
        self.answers.recv().await
    }

    /// How many there are.
    pub(super) const fn count(&self) -> usize {
        self.asks.len()
    }
}

impl<A, R, T> WorkerChannel<A, R, T> {
    /// Says something to the role.
    pub(super) fn say(&self, said: R) {
        // A role that does not listen any more drops the asks, too, which is what ends a worker.
        let _ = self.answers.send((self.index, Answer::Event(said)));
    }
}

impl<A, R, T> Drop for Workers<A, R, T> {
    fn drop(&mut self) {
        self.asks.clear();
        for thread in self.threads.drain(..) {
            let _: Result<(), Box<dyn Any + Send>> = thread.join();
        }
    }
}

fn run_crew<A, R, T, W, F>(crew: Vec<WorkerChannel<A, R, T>>, work: &W)
where
    A: 'static,
    R: 'static,
    T: 'static,
    W: Fn(WorkerChannel<A, R, T>) -> F,
    F: Future<Output = Result<T, RoleError>> + 'static,
{
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            for channel in crew {
                let source = io::Error::new(error.kind(), error.to_string());
                let what = "an event loop";
                let _ = channel
                    .answers
                    .send((channel.index, Answer::Ended(Err(RoleError::System { what, source }))));
            }
            return;
        }
    };
    let local = LocalSet::new();
    local.block_on(&runtime, async {
        let mut tasks = Vec::new();
        for channel in crew {
            let (index, answers) = (channel.index, channel.answers.clone());
            tasks.push((index, answers, tokio::task::spawn_local(work(channel))));
        }
        for (index, answers, task) in tasks {
            // Watched side by side: one that fails must be heard while the others go on.
            tokio::task::spawn_local(async move {
                let result = task.await.unwrap_or(Err(RoleError::WorkerPanicked));
                let _ = answers.send((index, Answer::Ended(result)));
            });
        }
    });
    runtime.block_on(local);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_worker_hears_every_question_and_ends_with_the_role() {
        let mut workers = Workers::<u32, u32, usize>::start(9, |mut channel| async move {
            while let Some(asked) = channel.asks.recv().await {
                channel.say(asked * 10 + u32::try_from(channel.index).expect("below nine"));
                if asked == 2 {
                    break;
                }
            }
            Ok(channel.index)
        })
        .expect("threads");
        assert_eq!(workers.count(), 9);
        workers.ask(&1);
        workers.ask(&2);
        let (mut said, mut ended) = (Vec::new(), Vec::new());
        while let Some((index, answer)) = workers.next().await {
            match answer {
                Answer::Event(number) => said.push(number),
                Answer::Ended(result) => ended.push((index, result.expect("it went well"))),
            }
        }
        said.sort_unstable();
        ended.sort_unstable();
        let expected: Vec<_> = (10..19).chain(20..29).collect();
        assert_eq!(said, expected);
        assert_eq!(ended, (0..9).map(|index| (index, index)).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn a_panic_of_one_is_heard_while_the_others_work() {
        let mut workers = Workers::<(), (), ()>::start(2, |mut channel| async move {
            assert_ne!(channel.index, 1, "a panic on purpose");
            while channel.asks.recv().await.is_some() {}
            Ok(())
        })
        .expect("threads");
        let (index, answer) = workers.next().await.expect("an answer");
        assert_eq!(index, 1);
        assert!(matches!(answer, Answer::Ended(Err(RoleError::WorkerPanicked))));
    }
}
