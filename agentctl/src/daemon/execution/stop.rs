//! The end of an execution: asked for, or by itself.

use std::sync::Arc;

use acp_bridge::fixture;
use acp_bridge::presentation::Redactor;
use acp_bridge::process::{ExitStatus, TreeEnd};
use jiff::Timestamp;
use nix::sys::signal::Signal;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Execution;
use super::task::Task;
use crate::code::Code;
use crate::daemon::hub::Hub;
use crate::limits::{DRAIN_WAIT, ENDED_STDERR, STOP_EOF_WAIT, STOP_TERM_WAIT};
use crate::wire::{Event, Exit, Failure, ProcessInfo, State, StopResult, Topic};

/// How far the end has come.
#[derive(Debug, Default)]
pub(super) struct Stop {
    stage: Stage,
    deadline: Option<Instant>,
    /// Whether stdout said something since the last look.
    active: bool,
    reason: Option<&'static str>,
    pub(super) replies: Vec<oneshot::Sender<StopResult>>,
    /// Why the start failed.
    pub(super) failure: Option<Failure>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Stage {
    #[default]
    None,
    /// The leader or stdout is gone; the rest may follow.
    Drain,
    /// Stdin was closed.
    Eof,
    /// SIGTERM was sent to the group.
    Term,
    /// Out of patience.
    Kill,
}

impl Stop {
    /// Whether it is being stopped.
    pub(super) fn is_begun(&self) -> bool {
        matches!(self.stage, Stage::Eof | Stage::Term | Stage::Kill)
    }

    /// Whether it is to be killed now.
    pub(super) fn is_out_of_patience(&self) -> bool {
        self.stage == Stage::Kill
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    pub(super) fn stdout_was_active(&mut self) {
        self.active = true;
    }

    fn by(&self) -> &'static str {
        match self.stage {
            Stage::None | Stage::Drain => "exit",
            Stage::Eof => "closed_stdin",
            Stage::Term => "sigterm",
            Stage::Kill => "sigkill",
        }
    }
}

impl Task {
    /// Starts to end it: live requests are answered `cancelled`, stdin is closed behind them.
    pub(super) fn begin_stop(&mut self, reason: &'static str) {
        if self.stop.is_begun() {
            return;
        }
        self.stop.stage = Stage::Eof;
        self.stop.reason = Some(reason);
        self.stop.deadline = Some(Instant::now() + STOP_EOF_WAIT);
        self.set_state(State::Stopping, Some(reason.to_owned()));
        self.leader.look();
        self.end_requests("stopped", |_, _| true, |table| table.cancel_all());
        self.flush();
    }

    /// Starts to end it without a wait for what closing stdin does.
    pub(super) fn stop_soon(&mut self, reason: &'static str) {
        self.begin_stop(reason);
        self.stop.deadline = Some(Instant::now());
    }

    /// It is to end without further ado: nobody keeps its tree any more, or will soon.
    pub(super) fn abandon(&mut self, reason: &'static str) {
        if !self.stop.is_begun() {
            self.stop.reason = Some(reason);
            self.set_state(State::Stopping, Some(reason.to_owned()));
        }
        // Nobody answers what it asked: it would not live to read that.
        self.stop.stage = Stage::Kill;
        self.stop.deadline = None;
    }

    /// The leader or stdout is gone: what is left has a bounded time to follow.
    pub(super) fn drain(&mut self, reason: &'static str) {
        if self.stop.stage == Stage::Drain {
            return;
        }
        self.stop.stage = Stage::Drain;
        self.stop.reason = Some(reason);
        self.stop.active = false;
        self.stop.deadline = Some(Instant::now() + DRAIN_WAIT);
        self.set_state(State::Draining, Some(reason.to_owned()));
    }

    pub(super) fn stop_timers(&mut self, now: Instant) {
        if self.stop.deadline.is_none_or(|deadline| now < deadline) {
            return;
        }
        match self.stop.stage {
            Stage::None | Stage::Kill => self.stop.deadline = None,
            // A wrapper exits and its agent goes on: what talks, or waits for an answer, is alive.
            Stage::Drain if self.is_open() && (self.stop.active || !self.table.is_empty()) => {
                self.stop.active = false;
                self.stop.deadline = Some(now + DRAIN_WAIT);
            }
            Stage::Drain => self.begin_stop(self.stop.reason.unwrap_or("drained")),
            Stage::Eof => {
                self.leader.signal_group(Signal::SIGTERM);
                self.happened(fixture::Event::Killed { signal: Signal::SIGTERM as i32, target: fixture::Target::Group });
                self.stop.stage = Stage::Term;
                self.stop.deadline = Some(now + STOP_TERM_WAIT);
            }
            Stage::Term => {
                self.happened(fixture::Event::Killed { signal: Signal::SIGKILL as i32, target: fixture::Target::Group });
                self.stop.stage = Stage::Kill;
                self.stop.deadline = None;
            }
        }
    }

    /// The last thing that the task does.
    pub(super) async fn finish(mut self: Box<Self>) {
        self.drain_stderr();
        self.serve_last_stderr().await;
        self.expire_requests("execution_ended");
        self.record_witness();
        self.end_claims();
        let by = self.stop.by();
        self.exec.status.lock().stderr = Some(self.stderr_report(ENDED_STDERR));
        let exited = self.exited_failure();
        let Self { hub, exec, leader, stop, mut turns, ready, redactor, .. } = *self;
        let tree = leader.end().await;
        if let Some(status) = tree.exit {
            let status = match status {
                ExitStatus::Code(code) => fixture::ExitStatus::Code(code),
                ExitStatus::Signal(signal) => fixture::ExitStatus::Signal(signal),
            };
            exec.happened(&hub, fixture::Event::Exited(status));
        }
        let exit = tree.exit.map(exit_of);
        for (_, turn) in turns.drain() {
            turn.fail(exited.clone().with(|data| data.exit = exit));
        }
        record_end(&hub, &exec, stop.reason.unwrap_or("exited"), tree, by, &redactor);
        hub.execution_ended(&exec);
        if let Some(ready) = ready {
            let _ = ready.send(Err(stop.failure.unwrap_or(exited).with(|data| data.exit = exit)));
        }
        let result = exec.stop_result().unwrap_or_default();
        for reply in stop.replies {
            let _ = reply.send(result.clone());
        }
    }

    /// What those hear who waited for the agent.
    fn exited_failure(&self) -> Failure {
        const STDERR: usize = 2048;
        let stderr = self.err.tail(&self.redactor, STDERR);
        let mut text = match self.leader.exit() {
            Some(ExitStatus::Code(code)) => format!("The agent exited with status {code}."),
            Some(ExitStatus::Signal(signal)) => format!("The agent was ended by signal {signal}."),
            None => "The agent was ended.".to_owned(),
        };
        if self.ready.is_some() && self.exec.info().counters.noise > 0 {
            text += " It wrote lines that are no ACP messages: does this command speak ACP?";
        }
        Failure::because(Code::AgentExited, text).with(|data| data.stderr = (!stderr.is_empty()).then_some(stderr))
    }
}

fn exit_of(status: ExitStatus) -> Exit {
    match status {
        ExitStatus::Code(code) => Exit::Code(code),
        ExitStatus::Signal(signal) => Exit::Signal(signal),
    }
}

/// Records and tells the end of an execution.
pub(super) fn record_end(hub: &Hub, exec: &Arc<Execution>, reason: &str, tree: TreeEnd, by: &str, redactor: &Redactor) {
    let now = Timestamp::now();
    let exit = tree.exit.map(exit_of);
    let processes = |list: Vec<(i32, String)>| -> Vec<ProcessInfo> {
        list.into_iter().map(|(pid, command)| ProcessInfo { pid, command: redactor.text(&command).text }).collect()
    };
    {
        let mut status = exec.status.lock();
        status.state = State::Exited;
        status.pid = None;
        status.pending = 0;
        status.ended_at = Some(now);
        status.exit = exit;
        status.reason = Some(reason.to_owned());
        status.stop = Some(StopResult {
            execution_id: exec.id.to_string(),
            exit,
            by: by.to_owned(),
            tree_empty: tree.survivors.is_empty(),
            ended: processes(tree.ended),
            killed: processes(tree.killed),
            survivors: processes(tree.survivors),
        });
    }
    let text = match exit {
        Some(Exit::Code(code)) => format!("code {code}: {reason}"),
        Some(Exit::Signal(signal)) => format!("signal {signal}: {reason}"),
        None => reason.to_owned(),
    };
    hub.audit.execution_ended(exec.id, text, now);
    exec.tell(
        hub,
        Topic::Execution,
        Event { event_type: "state".into(), state: Some(State::Exited), exit, reason: Some(reason.to_owned()), ..Event::default() },
    );
}
