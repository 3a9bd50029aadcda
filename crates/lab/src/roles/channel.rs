//! A role's end of its pipes: the configuration first, then commands in and reports out.

use std::{
    fmt,
    io::{self, BufRead, Write},
    sync::{Arc, Mutex, PoisonError, Weak},
    thread,
    time::{Duration, Instant},
};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::protocol::{Assignment, ClockAnswer, ClockQuestion, Command, Hello, Line, Report};
use crate::{clock::monotonic_ns, probe::ProcessSample};

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
    output: Arc<Output>,
}

type Output = Mutex<Box<dyn Write + Send>>;

/// The orchestrator's first lines are not what a role needs.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// The input ended before it, or can't be read.
    #[error("no configuration on standard input")]
    NoConfiguration(#[source] io::Error),
    /// It is not a configuration.
    #[error("the line on standard input is no configuration of a role")]
    NotAConfiguration(#[source] serde_json::Error),
    /// It is a command.
    #[error("a command came before the configuration of the role")]
    Unassigned,
}

impl RoleChannel {
    /// Says which program this is, reads from `input` what it is to be, then listens to it on a thread of its own.
    ///
    /// # Errors
    /// [`ChannelError`] when there is no configuration.
    pub fn open(
        mut input: impl BufRead + Send + 'static,
        output: impl Write + Send + 'static,
    ) -> Result<(Assignment, Self), ChannelError> {
        let reporter = Reporter::new(output);
        reporter.send(&Report::Hello(Box::new(Hello::of_this_process())));
        let assignment = loop {
            let mut line = String::new();
            let length = input.read_line(&mut line).map_err(ChannelError::NoConfiguration)?;
            let heard_ns = monotonic_ns();
            if length == 0 {
                return Err(ChannelError::NoConfiguration(io::ErrorKind::UnexpectedEof.into()));
            }
            match serde_json::from_str(&line).map_err(ChannelError::NotAConfiguration)? {
                Line::Role(assignment) => break *assignment,
                Line::Clock(question) => reporter.answer(question, heard_ns),
                Line::Do(_) => return Err(ChannelError::Unassigned),
            }
        };
        let (sender, commands) = unbounded_channel();
        let inbox = Arc::new(Mutex::new(Inbox { last_line: Instant::now(), commands: Some(sender) }));
        if assignment.is_launched {
            let inbox = Arc::downgrade(&inbox);
            thread::spawn(move || watch(&inbox));
        }
        // A thread, since standard input can't be waited for in any other portable way. It ends with the input, or
        // with the process.
        let output = Arc::downgrade(&reporter.output);
        thread::spawn(move || listen(input, &inbox, &output));
        Ok((assignment, Self { commands, reporter }))
    }

    /// The next command; `None` when the orchestrator has exited. Safe to cancel.
    pub async fn next(&mut self) -> Option<Command> {
        self.commands.recv().await
    }
}

/// What comes to a role.
struct Inbox {
    /// When the last line came.
    last_line: Instant,
    /// Where commands go; `None` once none are taken any more.
    commands: Option<UnboundedSender<Command>>,
}

/// Takes what comes until the input ends, or has a line that is none. Questions about the clock are answered at once,
/// whatever the role is busy with.
fn listen(mut input: impl BufRead, inbox: &Mutex<Inbox>, output: &Weak<Output>) {
    let mut line = String::new();
    loop {
        line.clear();
        let has_ended = !matches!(input.read_line(&mut line), Ok(1..));
        let heard_ns = monotonic_ns();
        let mut inbox = inbox.lock().unwrap_or_else(PoisonError::into_inner);
        inbox.last_line = Instant::now();
        let heard = match has_ended {
            true => None,
            false => match serde_json::from_str(&line) {
                Ok(Line::Clock(question)) => {
                    // The output is the role's own: it ends when the role does.
                    if let Some(output) = output.upgrade() {
                        Reporter { output }.answer(question, heard_ns);
                    }
                    continue;
                }
                Ok(Line::Do(command)) => Some(command),
                Ok(Line::Role(_)) => {
                    tracing::error!("the role was configured twice");
                    None
                }
                Err(error) => {
                    // This is not the orchestrator that the role knows.
                    tracing::error!(%error, "a line on standard input is not a command");
                    None
                }
            },
        };
        let is_heard = heard
            .zip(inbox.commands.as_ref())
            .is_some_and(|(command, commands)| commands.send(command).is_ok());
        if !is_heard {
            inbox.commands = None;
            return;
        }
    }
}

/// Takes no more commands once nothing has come for too long.
fn watch(inbox: &Weak<Mutex<Inbox>>) {
    loop {
        thread::sleep(WATCH_EVERY);
        let Some(inbox) = inbox.upgrade() else { return };
        let mut inbox = inbox.lock().unwrap_or_else(PoisonError::into_inner);
        if inbox.last_line.elapsed() > SILENCE {
            tracing::error!("the orchestrator has sent nothing for {}", units::duration::text(SILENCE));
            inbox.commands = None;
            return;
        }
    }
}

impl Reporter {
    /// A reporter that writes lines to `output`.
    pub fn new(output: impl Write + Send + 'static) -> Self {
        Self { output: Arc::new(Mutex::new(Box::new(output))) }
    }

    fn answer(&self, question: ClockQuestion, heard_ns: i64) {
        let usage = question.with_usage.then(|| ProcessSample::of(std::process::id())).flatten();
        let ClockQuestion { asked_ns, .. } = question;
        self.send(&Report::Clock(ClockAnswer { asked_ns, heard_ns, answered_ns: monotonic_ns(), usage }));
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

/// The orchestrator asks for the clock several times a second. One that has been silent for so long is gone, and nothing
/// on the way has noticed.
pub(crate) const SILENCE: Duration = Duration::from_secs(60);

const WATCH_EVERY: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeSet,
        io::{BufReader, Cursor},
    };

    use super::*;
    use crate::{
        clock::RunClock,
        roles::protocol::{Build, RoleConfig, ServiceConfig},
        scenario::WhenFull,
    };

    fn configuration() -> String {
        let config = RoleConfig::Service(Box::new(ServiceConfig {
            clock: RunClock::starting_now(),
            entities: Vec::new(),
            size_of_each: units::ByteSize::from_mebibytes(1),
            when_full: WhenFull::Throttle,
            preallocate: false,
            storage: None,
            profile: hub::profile::ProfileConfig::default(),
            connections: BTreeSet::new(),
            certificates: "tls".into(),
            blob_containers: None,
            address: None,
        }));
        let line = Line::Role(Box::new(Assignment { config, is_launched: false }));
        serde_json::to_string(&line).expect("serialises")
    }

    #[tokio::test]
    async fn commands_follow_the_configuration_until_the_input_ends() {
        let commands = "{\"do\":\"start\"}\n{\"do\":{\"allow\":{\"events\":3}}}\n";
        let text = format!("{}\n{commands}", configuration());
        let (assignment, mut channel) =
            RoleChannel::open(Cursor::new(text), io::sink()).expect("a configuration");
        assert!(matches!(assignment.config, RoleConfig::Service(_)));
        assert_eq!(channel.next().await, Some(Command::Start));
        assert_eq!(channel.next().await, Some(Command::Allow { events: 3 }));
        assert_eq!(channel.next().await, None);
    }

    #[tokio::test]
    async fn a_line_that_is_no_command_ends_the_role() {
        for line in ["nonsense", "\"start\"", &configuration()] {
            let text = format!("{}\n{line}\n{{\"do\":\"start\"}}\n", configuration());
            let (_, mut channel) = RoleChannel::open(Cursor::new(text), io::sink()).expect("a configuration");
            assert_eq!(channel.next().await, None, "{line}");
        }
    }

    #[test]
    fn a_missing_and_a_wrong_configuration_are_errors() {
        let open = |text: &'static str| RoleChannel::open(Cursor::new(text), io::sink()).map(|_| ());
        assert!(matches!(open(""), Err(ChannelError::NoConfiguration(_))));
        assert!(matches!(open("{\"role\":3}\n"), Err(ChannelError::NotAConfiguration(_))));
        assert!(matches!(open("{\"do\":\"stop\"}\n"), Err(ChannelError::Unassigned)));
    }

    #[tokio::test]
    async fn a_role_says_which_build_it_is_and_what_its_clock_shows_before_and_after_its_configuration() {
        let ask = |with_usage| {
            let question = ClockQuestion { asked_ns: -7, with_usage };
            serde_json::to_string(&Line::Clock(question)).expect("serialises")
        };
        let text = format!("{}\n{}\n{}\n", ask(false), configuration(), ask(true));
        let (theirs, ours) = io::pipe().expect("a pipe");
        let before = monotonic_ns();
        let (_, mut channel) = RoleChannel::open(Cursor::new(text), ours).expect("a configuration");
        assert_eq!(channel.next().await, None);
        let mut reports = BufReader::new(theirs)
            .lines()
            .map(|line| serde_json::from_str::<Report>(&line.expect("a line")).expect("a report"));
        let Some(Report::Hello(hello)) = reports.next() else { panic!("it says which program it is") };
        assert_eq!(hello.build, Build::of_this_program());
        for with_usage in [false, true] {
            let Some(Report::Clock(answer)) = reports.next() else { panic!("it answers") };
            assert_eq!(answer.asked_ns, -7);
            assert!(before <= answer.heard_ns && answer.heard_ns <= answer.answered_ns);
            assert_eq!(answer.usage.is_some(), with_usage);
        }
    }
}
