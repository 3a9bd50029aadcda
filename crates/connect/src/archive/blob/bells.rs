//! Which of several connections have something to do: each has a waker of its own, and is asked only when that was woken.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Wake, Waker};

use futures_util::task::AtomicWaker;

/// See the module.
#[derive(Debug)]
pub(super) struct Bells {
    board: Arc<Board>,
    wakers: Vec<Waker>,
    bells: Vec<Arc<Bell>>,
    /// Taken from the board, and not asked yet.
    rung: Vec<u32>,
}

#[derive(Debug, Default)]
struct Board {
    rung: Mutex<Vec<u32>>,
    task: AtomicWaker,
}

#[derive(Debug)]
struct Bell {
    number: u32,
    is_rung: AtomicBool,
    board: Arc<Board>,
}

impl Bells {
    pub(super) fn new(count: usize) -> Self {
        let board = Arc::<Board>::default();
        // Connections are counted in 32 bits.
        let bells = (0..count as u32).map(|number| {
            Arc::new(Bell { number, is_rung: AtomicBool::new(false), board: Arc::clone(&board) })
        });
        let bells: Vec<_> = bells.collect();
        Self {
            board,
            wakers: bells.iter().map(|bell| Waker::from(Arc::clone(bell))).collect(),
            bells,
            rung: Vec::new(),
        }
    }

    /// Who is to be woken from now on.
    pub(super) fn listen(&self, context: &Context<'_>) {
        self.board.task.register(context.waker());
    }

    /// What wakes one of them.
    pub(super) fn waker(&self, number: u32) -> &Waker {
        &self.wakers[number as usize]
    }

    /// One that was woken, each once.
    pub(super) fn next(&mut self) -> Option<u32> {
        if self.rung.is_empty() {
            std::mem::swap(
                &mut self.rung,
                &mut *self.board.rung.lock().unwrap_or_else(PoisonError::into_inner),
            );
        }
        let number = self.rung.pop()?;
        // Before it is asked: what comes from then on rings again.
        self.bells[number as usize].is_rung.store(false, Ordering::Release);
        Some(number)
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_rung.swap(true, Ordering::AcqRel) {
            self.board.rung.lock().unwrap_or_else(PoisonError::into_inner).push(self.number);
            self.board.task.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_that_was_woken_comes_once_and_again_when_it_is_woken_again() {
        let mut bells = Bells::new(3);
        assert_eq!(bells.next(), None);
        for number in [2, 0, 2] {
            bells.waker(number).wake_by_ref();
        }
        let mut rung = [bells.next().unwrap(), bells.next().unwrap()];
        rung.sort_unstable();
        assert_eq!((rung, bells.next()), ([0, 2], None));
        bells.waker(2).wake_by_ref();
        assert_eq!((bells.next(), bells.next()), (Some(2), None));
    }
}
