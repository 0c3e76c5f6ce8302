//! `agentctl proxy`.

use std::fs::File;
use std::io::{self, PipeReader};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread::JoinHandle;

use acp_bridge::presentation::terminal;
use acp_bridge::process::Inherited;
use anyhow::Context as _;
use clap::Args;
use rustix::fs::{FileType, fstat};
use uuid::Uuid;

use super::record::{self, Recording};
use super::start_args::{StartArgs, environment};
use super::start_daemon::connect_or_start;
use super::{CliError, Global, output};
use crate::client::{Client, ClientError, Incoming};
use crate::wire::{Event, Exit, Failure, ProxyParams, ProxyResult};

/// The status of a failure of our own: the agent's own statuses are passed on.
const FAILED: u8 = 125;
/// Reports of the daemon that are shown.
const SHOWN_REPORTS: usize = 100;

/// Be the agent command of an editor: its stdin and stdout are the agent's, which runs under the daemon. Each permission
/// request is asked in the editor and listed by `agentctl permissions`; the first answer wins and the other side is told.
/// Ends with the agent's exit status (128 + the number of a signal), or with 125 if agentctl itself fails.
#[derive(Debug, Args)]
pub(super) struct Proxy {
    #[command(flatten)]
    what: StartArgs,
    /// Record the session into this new file; known secrets, your name and home folder are left out
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
}

impl Proxy {
    pub(super) fn run(self, global: &Global) -> ExitCode {
        match self.proxy(global) {
            Ok(status) => ExitCode::from(status),
            Err(error) => {
                if let CliError::Client(ClientError::Broken(_)) = error {
                    output::note("agentctl: the daemon has ended, and the agent with it");
                } else {
                    output::report(&error, global.json);
                }
                ExitCode::from(FAILED)
            }
        }
    }

    fn proxy(self, global: &Global) -> Result<u8, CliError> {
        let inherited = Inherited::of_this_process().context("cannot tell our own limits")?;
        let params = self.params(global, inherited)?;
        let mut recording = self.record.as_deref().map(|path| Recording::create(path, &params.env)).transpose()?;
        if let (Some(_), Some(session_id)) = (&recording, &params.session_id) {
            record::stop_on(record::end_by_signals(), global, session_id.clone());
        }
        let mut client = connect_or_start(global, !self.what.no_start)?;
        let own = (io::stdin(), io::stdout(), io::stderr());
        let (stdin, _) = Stdio::reading(own.0.as_fd())?;
        let (stdout, copied) = Stdio::writing(own.1.as_fd())?;
        let (stderr, copied_errors) = Stdio::writing(own.2.as_fd())?;
        let call = client.send_with("proxy/start", &params, &[stdin.as_fd(), stdout.as_fd(), stderr.as_fd()])?;
        // The ends must be the daemon's alone: the editor sees the agent's when they are closed.
        drop((stdin, stdout, stderr));
        let outcome = attend(&mut client, call, recording.as_mut());
        // Should the agent still run, it ends with this connection, and the copies with it.
        drop(client);
        for copy in [copied, copied_errors].into_iter().flatten() {
            let _ = copy.join();
        }
        let recorded = recording.map_or(Ok(()), Recording::finish);
        let result = outcome?;
        recorded?;
        Ok(match result.exit {
            Some(Exit::Code(code)) => u8::try_from(code).unwrap_or(FAILED),
            Some(Exit::Signal(signal)) => u8::try_from(128 + signal).unwrap_or(FAILED),
            None => FAILED,
        })
    }

    fn params(&self, global: &Global, inherited: Inherited) -> Result<ProxyParams, CliError> {
        let agent = self.what.agent(global)?;
        let cwd = std::env::current_dir().context("cannot tell the working folder")?;
        let mut env = environment();
        env.extend(agent.env.clone());
        let task_id = self.what.task(&cwd);
        Ok(ProxyParams {
            command: agent.command,
            args: agent.args,
            env,
            strip_env: agent.strip_env,
            cwd: cwd.into_os_string().into_string().map_err(|cwd| anyhow::anyhow!("{} is not UTF-8", cwd.display()))?,
            umask: inherited.umask,
            limits: inherited.limits,
            task_id,
            // A recording is ended by this name.
            session_id: self.what.session.clone().or_else(|| self.record.is_some().then(|| Uuid::new_v4().to_string())),
            record: self.record.is_some(),
        })
    }
}

/// Waits for the end of the agent; shows what the daemon reports, and records.
fn attend(client: &mut Client, call: u64, mut recording: Option<&mut Recording>) -> Result<ProxyResult, CliError> {
    let mut shown = 0;
    loop {
        match client.recv()? {
            Incoming::Answer(id, outcome) if id == call => {
                let result = outcome.map_err(|failure: Failure| ClientError::Failure(failure))?;
                return Ok(serde_json::from_str(result.get()).map_err(ClientError::Unreadable)?);
            }
            Incoming::Answer(..) => {}
            Incoming::Event(event) => {
                if let Some(recording) = &mut recording {
                    recording.take(&event);
                }
                shown += usize::from(shown < SHOWN_REPORTS && report(&event));
            }
        }
    }
}

/// Shows a report; false if the event is none.
fn report(event: &Event) -> bool {
    match (event.event_type.as_str(), &event.reason) {
        ("reported", Some(reason)) => output::note(&format!("agentctl: {}", terminal(reason))),
        _ => return false,
    }
    true
}

/// One of our descriptors, or a pipe that is copied to or from it: a file can't be waited for.
enum Stdio<'a> {
    Own(BorrowedFd<'a>),
    Pipe(OwnedFd),
}

type Copy = JoinHandle<()>;

impl<'a> Stdio<'a> {
    fn reading(fd: BorrowedFd<'a>) -> Result<(Self, Option<Copy>), CliError> {
        if can_wait(fd) {
            return Ok((Self::Own(fd), None));
        }
        let (reader, writer) = io::pipe().context("cannot make a pipe")?;
        Ok((Self::Pipe(reader.into()), Some(copy(own(fd)?, writer))))
    }

    fn writing(fd: BorrowedFd<'a>) -> Result<(Self, Option<Copy>), CliError> {
        if can_wait(fd) {
            return Ok((Self::Own(fd), None));
        }
        let (reader, writer): (PipeReader, _) = io::pipe().context("cannot make a pipe")?;
        Ok((Self::Pipe(writer.into()), Some(copy(reader, own(fd)?))))
    }
}

impl AsFd for Stdio<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Own(fd) => *fd,
            Self::Pipe(fd) => fd.as_fd(),
        }
    }
}

fn own(fd: BorrowedFd<'_>) -> Result<File, CliError> {
    Ok(File::from(fd.try_clone_to_owned().context("cannot copy a descriptor")?))
}

fn can_wait(fd: BorrowedFd<'_>) -> bool {
    let kind = fstat(fd).map(|stat| FileType::from_raw_mode(stat.st_mode));
    matches!(kind, Ok(FileType::Fifo | FileType::Socket)) || rustix::termios::isatty(fd)
}

fn copy(mut from: impl io::Read + Send + 'static, mut to: impl io::Write + Send + 'static) -> Copy {
    std::thread::spawn(move || drop(io::copy(&mut from, &mut to)))
}
