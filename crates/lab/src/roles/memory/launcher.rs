//! Roles as threads of the test, with real pipes to the orchestrator.

use std::{io::BufReader, os::fd::OwnedFd, path::Path, pin::Pin, thread, time::Duration};

use tokio::net::unix::pipe;

use super::MemoryBackend;
use crate::{
    results::Role,
    roles::{
        process::{LaunchError, RoleControl, RoleEnd, RoleExit, RoleHandle, RoleLauncher},
        run_role,
    },
    scenario::Launch,
};

/// Starts roles as threads of the test.
#[derive(Debug)]
pub struct ThreadLauncher {
    /// The world that they live in.
    pub backend: MemoryBackend,
}

impl RoleLauncher for ThreadLauncher {
    fn launch(
        &self,
        role: Role,
        name: &str,
        _: Option<&Launch>,
        log: &Path,
    ) -> Result<RoleHandle, LaunchError> {
        std::fs::write(log, format!("log of the {name}\n")).expect("the folder of logs is there");
        let (their_input, our_input) = std::io::pipe().expect("a pipe");
        let (our_output, their_output) = std::io::pipe().expect("a pipe");
        let backend = self.backend.clone();
        let thread = thread::spawn(move || {
            // What went wrong has been reported.
            let _ = run_role(role, backend, BufReader::new(their_input), their_output);
        });
        let input = pipe::Sender::from_owned_fd(OwnedFd::from(our_input)).expect("our end of a pipe");
        let output = pipe::Receiver::from_owned_fd(OwnedFd::from(our_output)).expect("our end of a pipe");
        Ok(RoleHandle {
            input: Box::new(input),
            output: Box::new(output),
            control: Box::new(ThreadControl {
                thread: Some(thread),
                last_line: format!("log of the {name}"),
            }),
        })
    }
}

#[derive(Debug)]
struct ThreadControl {
    thread: Option<thread::JoinHandle<()>>,
    last_line: String,
}

impl RoleControl for ThreadControl {
    fn process_id(&self) -> Option<u32> {
        None
    }

    fn end(mut self: Box<Self>, _: Duration) -> Pin<Box<dyn Future<Output = RoleExit> + Send>> {
        Box::pin(async move {
            let thread = self.thread.take();
            let _ = tokio::task::spawn_blocking(move || thread.map(thread::JoinHandle::join)).await;
            RoleExit {
                end: RoleEnd::Exited(None),
                last_log_lines: vec![self.last_line.clone()],
                log_error: None,
            }
        })
    }
}
