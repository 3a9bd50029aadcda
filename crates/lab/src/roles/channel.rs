//! A role's end of its pipes: the configuration first, then commands in and reports out.

use std::{
    fmt,
    io::{self, BufRead, Write},
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::protocol::{Command, Report, RoleConfig};

/// The commands to a role and its way to report.
#[derive(Debug)]
pub struct RoleChannel {
    commands: UnboundedReceiver<Command>,
    /// Where the role reports to.
    pub reporter: Reporter,
}

/// Writes reports, from any thread.
#[derive(Clone)]
pub struct Reporter {
    output: Arc<Mutex<Box<dyn Write + Send>>>,
}

/// The orchestrator's first line is not what a role needs.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// The input ended before it, or can't be read.
    #[error("no configuration on standard input")]
    NoConfiguration(#[source] io::Error),
    /// It is not a configuration.
    #[error("the line on standard input is no configuration of a role")]
    NotAConfiguration(#[source] serde_json::Error),
}

impl RoleChannel {
    /// Reads the configuration from `input`, then listens to it on a thread of its own.
    ///
    /// # Errors
    /// [`ChannelError`] when there is no configuration.
    pub fn open(
        mut input: impl BufRead + Send + 'static,
        output: impl Write + Send + 'static,
    ) -> Result<(RoleConfig, Self), ChannelError> {
        let mut line = String::new();
        let length = input.read_line(&mut line).map_err(ChannelError::NoConfiguration)?;
        if length == 0 {
            return Err(ChannelError::NoConfiguration(io::ErrorKind::UnexpectedEof.into()));
        }
        let config = serde_json::from_str(&line).map_err(ChannelError::NotAConfiguration)?;
        let (sender, commands) = unbounded_channel();
        // A thread, since standard input can't be waited for in any other portable way. It ends with the input, or
        // with the process.
        std::thread::spawn(move || {
            for line in input.lines() {
                let command = line.ok().and_then(|line| match serde_json::from_str(&line) {
                    Ok(command) => Some(command),
                    Err(error) => {
                        // Whoever writes such a line is not the orchestrator that this role knows.
                        tracing::error!(%error, "a line on standard input is not a command");
                        None
                    }
                });
                let Some(command) = command else { break };
                if sender.send(command).is_err() {
                    break;
                }
            }
        });
        let reporter = Reporter::new(output);
        Ok((config, Self { commands, reporter }))
    }

    /// The next command; `None` when the orchestrator has exited. Safe to cancel.
    pub async fn next(&mut self) -> Option<Command> {
        self.commands.recv().await
    }
}

impl Reporter {
    /// A reporter that writes lines to `output`.
    pub fn new(output: impl Write + Send + 'static) -> Self {
        Self { output: Arc::new(Mutex::new(Box::new(output))) }
    }

    /// Writes one report. An orchestrator that does not read any more has gone, which the end of the input tells, so
    /// a failure to write is not an error of its own.
    pub fn send(&self, report: &Report) {
        let mut line = serde_json::to_vec(report).expect("reports have text keys and finite numbers");
        line.push(b'\n');
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = output.write_all(&line).and_then(|()| output.flush()) {
            tracing::warn!(%error, "the orchestrator does not read its pipe");
        }
    }
}

impl fmt::Debug for Reporter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Reporter").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;
    use crate::{clock::RunClock, roles::protocol::ServiceConfig, scenario::WhenFull};

    fn config_line() -> String {
        let config = RoleConfig::Service(Box::new(ServiceConfig {
            clock: RunClock::starting_now(),
            hubs: Vec::new(),
            queues: Vec::new(),
            largest_message: None,
            when_full: WhenFull::Throttle,
            preallocate: false,
            storage: None,
            profile: hub::profile::ProfileConfig::default(),
            tls: None,
            blob_containers: None,
        }));
        serde_json::to_string(&config).expect("serialises")
    }

    #[tokio::test]
    async fn commands_follow_the_configuration_until_the_input_ends() {
        let text = format!("{}\n\"start\"\n{{\"allow\":{{\"events\":3}}}}\n", config_line());
        let (config, mut channel) =
            RoleChannel::open(Cursor::new(text), io::sink()).expect("a configuration");
        assert!(matches!(config, RoleConfig::Service(_)));
        assert_eq!(channel.next().await, Some(Command::Start));
        assert_eq!(channel.next().await, Some(Command::Allow { events: 3 }));
        assert_eq!(channel.next().await, None);
    }

    #[tokio::test]
    async fn a_line_that_is_no_command_ends_the_role() {
        let text = format!("{}\nnonsense\n\"start\"\n", config_line());
        let (_, mut channel) = RoleChannel::open(Cursor::new(text), io::sink()).expect("a configuration");
        assert_eq!(channel.next().await, None);
    }

    #[test]
    fn a_missing_and_a_wrong_configuration_are_errors() {
        let open = |text: &'static str| RoleChannel::open(Cursor::new(text), io::sink()).map(|_| ());
        assert!(matches!(open(""), Err(ChannelError::NoConfiguration(_))));
        assert!(matches!(open("{\"service\":3}\n"), Err(ChannelError::NotAConfiguration(_))));
    }
}
