//! The task that owns an execution: it waits for one thing at a time and does it to the end.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use acp_bridge::fixture::{self, Side};
use acp_bridge::frame::{Line, LineReader};
use acp_bridge::outbox::Outbox;
use acp_bridge::presentation::Redactor;
use acp_bridge::process::{ExitStatus, ExitWatch, Leader};
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::asks::Asks;
use super::claims::Claims;
use super::editor::Editor;
use super::ready::{exited, lent_readable, lent_writable, read, readable, sleep_until, writable};
use super::report::Stderr;
use super::request::Request;
use super::stop::Stop;
use super::tools::ToolCalls;
use super::turns::RunningTurn;
use super::witness::Observed;
use super::{Command, Execution, Started};
use crate::daemon::hub::Hub;
use crate::limits::UNREAD_BYTES;
use crate::permission::{Delivery, Table};

/// Of so many waits, one looks at everything else before the agent's output.
const READS_IN_A_ROW: u8 = 8;

thread_local! {
    /// One buffer for all reads: an idle execution has none.
    pub(super) static SCRATCH: std::cell::RefCell<Vec<u8>> = std::cell::RefCell::new(vec![0; 64 * 1024]);
}

/// Everything that one execution owns.
pub(super) struct Task {
    pub(super) hub: Arc<Hub>,
    pub(super) exec: Arc<Execution>,
    pub(super) commands: mpsc::UnboundedReceiver<Command>,
    pub(super) stdin: Option<pipe::Sender>,
    pub(super) stdout: Option<pipe::Receiver>,
    pub(super) stderr: Option<pipe::Receiver>,
    pub(super) leader_exit: Option<ExitWatch>,
    pub(super) leader: Leader,
    pub(super) reader: LineReader,
    pub(super) outbox: Outbox<Delivery>,
    pub(super) table: Table<Arc<Request>>,
    pub(super) claims: Claims,
    pub(super) asks: Asks,
    pub(super) idle: Option<Idle>,
    pub(super) turns: HashMap<String, RunningTurn>,
    pub(super) tools: ToolCalls,
    pub(super) witness: Observed,
    pub(super) redactor: Redactor,
    pub(super) err: Stderr,
    /// The first lines that are no messages, as they came.
    pub(super) noise: String,
    pub(super) editor: Option<Box<Editor>>,
    pub(super) ready: Option<oneshot::Sender<Started>>,
    pub(super) stop: Stop,
    /// Waits in which the agent's output came first.
    pub(super) in_a_row: u8,
}

/// Ends an agent that has nothing to do.
pub(super) struct Idle {
    after: Duration,
    since: Instant,
}

impl Idle {
    /// After so many seconds.
    pub(super) fn after(seconds: u64) -> Self {
        Self { after: Duration::from_secs(seconds), since: Instant::now() }
    }
}

enum Wake {
    Command(Option<Command>),
    Stdin,
    /// So many bytes of stdout lie in the scratch buffer.
    Stdout(io::Result<usize>),
    Stderr,
    EditorInput,
    EditorOutput,
    LeaderExit,
    Timer,
}

impl Task {
    pub(super) async fn run(mut self: Box<Self>) {
        self.happened(fixture::Event::Spawned);
        if self.editor.is_none() {
            self.initialize();
        }
        while !self.is_over() {
            match self.wait().await {
                Wake::Command(Some(command)) => self.command(command),
                Wake::Command(None) => self.begin_stop("the daemon let go of it"),
                Wake::Stdin => self.flush(),
                Wake::Stdout(read) => self.read_stdout(read),
                Wake::Stderr => self.read_stderr(),
                Wake::EditorInput => self.read_editor(),
                // Below.
                Wake::EditorOutput => {}
                Wake::LeaderExit => self.leader_exited(),
                Wake::Timer => self.timers(),
            }
            self.flush_editor();
            self.exec.status.lock().pending = self.table.len();
            self.hub.bus.flush();
        }
        self.finish().await;
    }

    async fn wait(&mut self) -> Wake {
        let deadline = self.next_deadline();
        let writing = !self.outbox.is_empty();
        let waiting = self.outbox.bulk_bytes();
        // Its output comes first, since looking at everything else each time costs as much as a frame; but it never
        // comes so often in a row that anything else waits long.
        self.in_a_row = (self.in_a_row + 1) % READS_IN_A_ROW;
        let output_first = self.in_a_row > 0;
        let Self { commands, stdin, stdout, stderr, leader_exit, editor, stop, .. } = self;
        let editor = editor.as_deref();
        let output = read(stdout.as_mut().filter(|_| editor.is_none_or(Editor::has_room)));
        let rest = async {
            tokio::select! {
                command = commands.recv() => Wake::Command(command),
                () = writable(stdin.as_ref().filter(|_| writing)) => Wake::Stdin,
                () = readable(stderr.as_ref().filter(|_| editor.is_none_or(|e| e.writing_stderr().is_none()))) => Wake::Stderr,
                () = lent_readable(editor.filter(|_| !stop.is_begun()).and_then(|e| e.reading(waiting))) => Wake::EditorInput,
                () = lent_writable(editor.and_then(Editor::writing)) => Wake::EditorOutput,
                () = lent_writable(editor.and_then(Editor::writing_stderr)) => Wake::EditorOutput,
                () = exited(leader_exit.as_ref()) => Wake::LeaderExit,
                () = sleep_until(deadline) => Wake::Timer,
            }
        };
        if output_first {
            tokio::select! { biased; read = output => Wake::Stdout(read), wake = rest => wake }
        } else {
            tokio::select! { biased; wake = rest => wake, read = output => Wake::Stdout(read) }
        }
    }

    fn command(&mut self, command: Command) {
        if !matches!(command, Command::List { .. }) {
            self.is_active();
        }
        match command {
            Command::List { reply } => {
                let _ = reply.send(self.list());
            }
            Command::Resolve { choice, actor, reply } => self.resolve(choice, actor, reply),
            Command::CancelRequest { request_id, pending_id, reply } => {
                let result = self.cancel_request(request_id, &pending_id);
                let _ = reply.send(result);
            }
            Command::ClaimDone { claim_id, result } => {
                self.claim_done(claim_id, result);
                self.editor_goes_on(claim_id);
            }
            Command::Prompt { acp_session_id, prompt, reply } => self.prompt(acp_session_id, &prompt, reply),
            Command::CancelTurn { acp_session_id, reply } => {
                let result = self.cancel_turn(acp_session_id);
                let _ = reply.send(result);
            }
            Command::Reset { acp_session_id, reply } => self.reset(acp_session_id, reply),
            Command::Stop { reason, failed, reply } => {
                self.exec.status.lock().asked |= !failed;
                self.stop.replies.push(reply);
                self.begin_stop(reason);
            }
            Command::Abandon { reason } => self.abandon(reason),
            Command::Stderr { max_bytes, reply } => {
                let _ = reply.send(self.stderr_report(max_bytes));
            }
        }
    }

    /// Writes what waits. Called after every change of the outbox.
    pub(super) fn flush(&mut self) {
        if self.outbox.urgent_bytes() > UNREAD_BYTES && !self.stop.is_begun() {
            self.report("the agent does not read its stdin and keeps asking; it is ended".to_owned());
            return self.begin_stop("it does not read its stdin");
        }
        let Some(stdin) = &self.stdin else { return self.stdin_gone() };
        if self.outbox.is_empty() {
            return self.close_stdin_if_asked();
        }
        let written = self.outbox.write(|slices| stdin.try_write_vectored(slices));
        for (frame, delivery) in written.done {
            self.passed(Side::Client, &frame);
            if let Some(delivery) = delivery {
                crate::failpoint::hit("deliver.after");
                self.delivered(&delivery);
            }
        }
        match written.stopped {
            None => self.close_stdin_if_asked(),
            Some(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Some(_) => {
                self.stdin = None;
                self.stdin_gone();
            }
        }
    }

    fn close_stdin_if_asked(&mut self) {
        let editor_ended = self.editor.as_ref().is_some_and(|editor| editor.is_silent());
        if (self.stop.is_begun() || editor_ended) && self.stdin.take().is_some() {
            self.happened(fixture::Event::StdinClosed);
            if !self.stop.is_begun() {
                self.stdin_gone();
            }
        }
    }

    fn read_stdout(&mut self, read: io::Result<usize>) {
        // Lent out, so that its lines can be handled by the whole task.
        let mut reader = std::mem::replace(&mut self.reader, LineReader::new(0));
        let n = read.unwrap_or(0);
        if n > 0 {
            self.is_active();
            self.stop.stdout_was_active();
            SCRATCH.with_borrow_mut(|scratch| {
                reader.feed(&scratch[..n], |line| match line {
                    Line::Whole(line) => self.line(line),
                    Line::TooLong { bytes } => self.too_long(bytes),
                });
            });
        } else {
            if reader.is_within_line() {
                self.unfinished_line();
            }
            self.stdout = None;
            self.stdout_closed();
        }
        self.reader = reader;
    }

    fn read_stderr(&mut self) {
        let eof = SCRATCH.with_borrow_mut(|scratch| match self.stderr.as_ref().map(|pipe| pipe.try_read(scratch)) {
            Some(Ok(0)) | None => true,
            Some(Ok(n)) => {
                self.err.push(&scratch[..n]);
                self.count(|c| c.stderr_bytes += n as u64);
                if let Some(editor) = &mut self.editor {
                    editor.send_stderr(&scratch[..n]);
                }
                false
            }
            Some(Err(error)) => !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted),
        });
        if eof {
            self.stderr = None;
        }
    }

    /// Takes what stderr still holds, without waiting.
    pub(super) fn drain_stderr(&mut self) {
        loop {
            let seen = self.err.total();
            self.read_stderr();
            if self.err.total() == seen {
                return;
            }
        }
    }

    fn leader_exited(&mut self) {
        self.leader_exit = None;
        if self.leader.is_abandoned() {
            return self.abandon("its keeper was killed");
        }
        if self.stdout.is_some() && !self.stop.is_begun() {
            match self.leader.exit() {
                // A wrapper that hands over to its agent exits; what was killed has handed over nothing.
                Some(ExitStatus::Signal(_)) => {
                    // Whoever holds its output would not read an answer.
                    self.expire_requests("leader_killed");
                    self.stop_soon("the leader was killed while its output is still open");
                }
                _ => self.drain("the leader exited while its output is still open"),
            }
        }
    }

    fn stdout_closed(&mut self) {
        self.happened(fixture::Event::StdoutClosed);
        self.expire_requests("stdout_closed");
        if self.leader_exit.is_some() && !self.stop.is_begun() {
            self.drain("the agent closed its stdout");
        }
    }

    fn is_over(&self) -> bool {
        let is_served = self.editor.as_ref().is_none_or(|editor| editor.is_served());
        self.stdout.is_none() && self.leader_exit.is_none() && is_served || self.stop.is_out_of_patience()
    }

    /// Whether the agent's output is still open.
    pub(super) fn is_open(&self) -> bool {
        self.stdout.is_some()
    }

    fn next_deadline(&self) -> Option<Instant> {
        let look = self.editor.as_ref().and_then(|editor| editor.look());
        let turns = self.turns.values().filter_map(|turn| turn.deadline).min();
        let witness = self.witness.deadline();
        [look, self.stop.deadline(), self.asks.deadline(), self.claims.deadline(), turns, witness, self.idle_until()]
            .into_iter()
            .flatten()
            .min()
    }

    fn timers(&mut self) {
        let now = Instant::now();
        self.delivery_timers(now);
        self.ask_timers(now);
        self.turn_timers(now);
        self.witness_timers(now);
        self.look_for_editor(now);
        if self.idle_until().is_some_and(|until| until <= now) {
            self.exec.status.lock().asked = true;
            self.begin_stop("idle");
        }
        self.stop_timers(now);
    }

    /// When it will have had nothing to do for too long.
    fn idle_until(&self) -> Option<Instant> {
        let idle = self.idle.as_ref()?;
        let is_idle = self.turns.is_empty() && self.table.is_empty() && self.ready.is_none() && !self.stop.is_begun();
        is_idle.then(|| idle.since.checked_add(idle.after)).flatten()
    }

    fn is_active(&mut self) {
        if let Some(idle) = &mut self.idle {
            idle.since = Instant::now();
        }
    }
}
