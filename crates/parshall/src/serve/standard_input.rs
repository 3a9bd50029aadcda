//! The end of standard input: how a service notices that the process that started it is gone.
//!
//! A process that is killed has no chance to stop what it started. The system closes its ends of pipes, though, so the other
//! end of one is a sign of life that can't be forgotten, unlike a process's number, which may soon be another's.

use std::io;
use std::thread;

use tokio::sync::oneshot;

use crate::exit::CommandError;

/// Standard input, as something that ends.
#[derive(Debug)]
pub(super) struct StandardInput(oneshot::Receiver<()>);

impl StandardInput {
    /// Reads it from now on.
    ///
    /// # Errors
    /// There is no thread for it.
    pub(super) fn watch() -> Result<Self, CommandError> {
        let (ended, end) = oneshot::channel();
        // A thread of its own, for which no runtime waits when the service stops before its input ends.
        let read = move || {
            // What can't be read has ended as well.
            let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
            let _ = ended.send(());
        };
        thread::Builder::new().name("stdin".to_owned()).spawn(read).map_err(CommandError::System)?;
        Ok(Self(end))
    }
}

/// Waits for the end of what is watched; forever, if nothing is.
pub(super) async fn end(input: Option<StandardInput>) {
    match input {
        Some(StandardInput(end)) => {
            let _ = end.await;
        }
        None => std::future::pending().await,
    }
}
