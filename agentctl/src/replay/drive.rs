//! Drives one recorded agent through the control socket and compares.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use acp_bridge::fixture::{ExitStatus, Fixture, Target};
use acp_bridge::presentation::Redactor;
use acp_bridge::process::{Process, StartTime, is_alive};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use serde_json::value::RawValue;

use super::plan::{Asked, Outcome, Plan, Step};
use crate::client::{Client, ClientError, Incoming};
use crate::domain::{ClaimResult, End};
use crate::private_daemon::PrivateDaemon;
use crate::wire::{
    AuditListParams, AuditListResult, CancelParams, CancelResult, Event, ExecutionInfo, ExecutionParams, Exit, Failure, Permission,
    PermissionCancelParams, PermissionCancelResult, PermissionListParams, PermissionListResult, PromptParams, PromptResult, Raw,
    ResolveParams, ResolveResult, StartParams, StartResult, State, StderrParams, StderrResult, StopResult, SubscribeParams,
    SubscribeResult, Topic,
};

/// Longer than any step takes on a loaded machine.
const WAIT: Duration = Duration::from_secs(30);

/// Plays a recording; returns how much was compared, and what was not as recorded.
pub(super) fn drive(daemon: &PrivateDaemon, fixture: &Fixture, plan: &Plan) -> (usize, Vec<String>) {
    let mut drive = match Drive::start(daemon, fixture) {
        Ok(drive) => drive,
        Err(error) => return (0, vec![format!("the recorded agent did not start: {}", text(&error))]),
    };
    let mut problems = Vec::new();
    for step in &plan.steps {
        if let Err(problem) = drive.step(plan, step) {
            problems.push(problem);
            break;
        }
    }
    if let Err(problem) = drive.finish(plan, problems.is_empty()) {
        problems.extend(problem);
    }
    if !problems.is_empty()
        && let Some(stderr) = drive.stderr()
    {
        problems.push(format!("the played agent says: {stderr}"));
    }
    (drive.checks, problems)
}

type Checked = Result<(), String>;

struct Drive {
    client: Client,
    task_id: String,
    started: StartResult,
    /// When its process started.
    born: Option<StartTime>,
    /// The calls of the turns, by number; their answers as they came.
    turns: HashMap<usize, u64>,
    answers: HashMap<u64, Result<Box<RawValue>, Failure>>,
    /// Prompts by number, as they were listed.
    listed: BTreeMap<usize, Permission>,
    requested: VecDeque<Permission>,
    updates: VecDeque<Box<RawValue>>,
    stopped: Option<StopResult>,
    killed: bool,
    checks: usize,
}

impl Drive {
    fn start(daemon: &PrivateDaemon, fixture: &Fixture) -> Result<Self, ClientError> {
        let mut client = daemon.connect()?;
        client.set_timeout(Some(WAIT))?;
        let topics = Some(vec![Topic::Permission, Topic::Execution, Topic::Update]);
        client.call::<_, SubscribeResult>("event/subscribe", &SubscribeParams { topics, ..Default::default() })?;
        let name: String = fixture.header.name.chars().filter(|c| !c.is_control()).take(56).collect();
        let task_id = format!("replay {name}");
        let path = fixture.path.canonicalize().unwrap_or_else(|_| fixture.path.clone());
        let own = std::env::current_exe().map_err(ClientError::Broken)?;
        let params = StartParams {
            command: own.display().to_string(),
            args: vec!["replay".into(), "--as-agent".into(), path.display().to_string()],
            cwd: "/".into(),
            task_id: task_id.clone(),
            ..Default::default()
        };
        let started: StartResult = client.call("execution/start", &params)?;
        Ok(Self {
            client,
            task_id,
            born: Process::read(Pid::from_raw(started.pid)).map(|process| process.start),
            started,
            turns: HashMap::new(),
            answers: HashMap::new(),
            listed: BTreeMap::new(),
            requested: VecDeque::new(),
            updates: VecDeque::new(),
            stopped: None,
            killed: false,
            checks: 0,
        })
    }

    fn step(&mut self, plan: &Plan, step: &Step) -> Checked {
        match step {
            Step::Prompt { turn, content } => {
                let prompt = Some(content.iter().cloned().map(Raw).collect());
                let params = PromptParams { session_id: self.session(), acp_session_id: None, text: None, prompt, owner: None };
                let call = self.client.send("session/prompt", &params).map_err(|e| text(&e))?;
                self.turns.insert(*turn, call);
                Ok(())
            }
            Step::Update(recorded) => self.update(recorded),
            Step::Asked(number) => self.asked(*number, &plan.prompts[*number]),
            Step::Resolve { prompt, option_id, frame: answer } => {
                let listed = self.listed.get(prompt).ok_or("an answer to a prompt that was not listed")?;
                let params = ResolveParams {
                    task_id: self.task_id.clone(),
                    session_id: self.session(),
                    request_id: listed.request_id.clone(),
                    pending_id: listed.pending_id.clone(),
                    option_id: option_id.clone(),
                };
                let call: Result<ResolveResult, _> = self.client.call("permission/resolve", &params);
                call.map(drop).map_err(|e| {
                    let asked = frame(&plan.prompts[*prompt]);
                    format!("the recorded answer can't be given: {}\n  asked:    {asked}\n  answered: {answer}", text(&e))
                })
            }
            Step::CancelRequest(prompt) => {
                let listed = self.listed.get(prompt).ok_or("an answer to a prompt that was not listed")?;
                let params = PermissionCancelParams {
                    task_id: self.task_id.clone(),
                    session_id: self.session(),
                    request_id: listed.request_id.clone(),
                    pending_id: listed.pending_id.clone(),
                };
                let call: Result<PermissionCancelResult, _> = self.client.call("permission/cancel", &params);
                call.map(drop).map_err(|e| format!("permission/cancel failed: {}", text(&e)))
            }
            Step::CancelTurn => {
                let params = CancelParams { session_id: self.session(), acp_session_id: None, owner: None };
                let call: Result<CancelResult, _> = self.client.call("session/cancel", &params);
                call.map(drop).map_err(|e| format!("session/cancel failed: {}", text(&e)))
            }
            Step::TurnEnds { turn, outcome } => self.turn_ends(*turn, outcome),
            Step::Stop => self.stop(),
            Step::Kill { signal, target } => {
                self.killed = true;
                let signal = Signal::try_from(*signal).map_err(|_| format!("no signal {signal}"))?;
                let pid = Pid::from_raw(self.started.pid);
                // The daemon reaps it when it ends: the number must still be the process that was started.
                if !self.born.is_some_and(|start| is_alive(pid, start)) {
                    return Err("the agent had ended before it was to be killed".into());
                }
                match target {
                    Target::Leader => kill(pid, signal),
                    Target::Group => killpg(pid, signal),
                }
                .map_err(|errno| format!("the agent could not be killed: {errno}"))
            }
        }
    }

    fn update(&mut self, recorded: &RawValue) -> Checked {
        while self.updates.is_empty() {
            self.receive("an update of the agent")?;
        }
        let seen = self.updates.pop_front().unwrap_or_else(|| RawValue::NULL.to_owned());
        self.checks += 1;
        if seen.get() == recorded.get() { Ok(()) } else { Err(mismatch("an update", recorded.get(), seen.get())) }
    }

    /// The prompt is listed with the recorded options, or answered at once if its turn was cancelled.
    fn asked(&mut self, number: usize, asked: &Asked) -> Checked {
        if !asked.listed {
            return Ok(());
        }
        while self.requested.is_empty() {
            self.receive("a permission request of the agent")?;
        }
        let Some(shown) = self.requested.pop_front() else { return Ok(()) };
        let params = PermissionListParams { task_id: Some(self.task_id.clone()), session_id: Some(self.session()) };
        let list: PermissionListResult = self.client.call("permission/list", &params).map_err(|e| text(&e))?;
        let listed = list.permissions.into_iter().find(|p| p.request_id == shown.request_id);
        // An agent that dies right after it asked may be gone before the list is read.
        let listed = listed.or(Some(shown).filter(|_| asked.outcome == Outcome::Expired)).ok_or("a prompt was told but not listed")?;
        let redactor = Redactor::default();
        let wanted: Vec<(String, String, String)> = asked
            .prompt
            .iter()
            .flat_map(|p| &p.options)
            .map(|o| (o.id.clone(), redactor.text(&o.name).text, o.kind.as_ref().map_or("null", |k| k.get()).to_owned()))
            .collect();
        let seen: Vec<(String, String, String)> =
            listed.options.iter().map(|o| (o.option_id.clone(), o.name.clone(), o.kind.0.get().to_owned())).collect();
        self.listed.insert(number, listed);
        self.checks += 1;
        if seen == wanted { Ok(()) } else { Err(mismatch("the options of a prompt", &frame(asked), &format!("{seen:?}"))) }
    }

    fn turn_ends(&mut self, turn: usize, recorded: &Result<String, i64>) -> Checked {
        let call = *self.turns.get(&turn).ok_or("a turn ends that never began")?;
        while !self.answers.contains_key(&call) {
            self.receive("the end of a turn")?;
        }
        let seen = match self.answers.remove(&call) {
            Some(Ok(result)) => Ok(serde_json::from_str::<PromptResult>(result.get()).map_err(|e| e.to_string())?.stop_reason),
            Some(Err(failure)) => match failure.data.as_ref().and_then(|data| data.agent_error.as_ref()) {
                Some(error) => Err(error.code),
                None => return Err(format!("the turn failed: {}", text(&ClientError::Failure(failure)))),
            },
            None => return Ok(()),
        };
        self.checks += 1;
        if seen == *recorded { Ok(()) } else { Err(mismatch("the end of a turn", &format!("{recorded:?}"), &format!("{seen:?}"))) }
    }

    fn stop(&mut self) -> Checked {
        if self.stopped.is_none() {
            let params = ExecutionParams { execution_id: Some(self.started.execution_id.clone()), ..Default::default() };
            self.stopped = Some(self.client.call("execution/stop", &params).map_err(|e| format!("execution/stop failed: {}", text(&e)))?);
        }
        Ok(())
    }

    /// Takes in what comes next.
    fn receive(&mut self, waiting_for: &str) -> Checked {
        match self.client.recv().map_err(|e| format!("{waiting_for} did not come: {}", text(&e)))? {
            Incoming::Answer(call, outcome) => drop(self.answers.insert(call, outcome)),
            Incoming::Event(event) if event.execution_id.as_deref() == Some(&self.started.execution_id) => {
                return self.event(*event, waiting_for);
            }
            Incoming::Event(_) => {}
        }
        Ok(())
    }

    fn event(&mut self, event: Event, waiting_for: &str) -> Checked {
        if let Some(frame) = event.frame {
            self.updates.push_back(frame.0);
        } else if let Some(permission) = event.permission {
            self.requested.push_back(Arc::unwrap_or_clone(permission));
        } else if event.state == Some(State::Exited) {
            return Err(format!("{waiting_for} did not come: the agent ended"));
        }
        Ok(())
    }

    /// What must hold at the end, whatever was recorded.
    fn finish(&mut self, plan: &Plan, compare: bool) -> Result<(), Vec<String>> {
        let mut problems = Vec::new();
        let mut check = |outcome: Checked| problems.extend(outcome.err());
        if self.killed {
            check(self.wait_exited());
        }
        check(self.stop());
        if compare {
            check(self.compare_end(plan));
        }
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }

    fn wait_exited(&mut self) -> Checked {
        let params = ExecutionParams { execution_id: Some(self.started.execution_id.clone()), ..Default::default() };
        loop {
            let info: ExecutionInfo = self.client.call("execution/get", &params).map_err(|e| text(&e))?;
            if info.state == State::Exited {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn compare_end(&mut self, plan: &Plan) -> Checked {
        let params = PermissionListParams { task_id: Some(self.task_id.clone()), session_id: Some(self.session()) };
        let list: PermissionListResult = self.client.call("permission/list", &params).map_err(|e| text(&e))?;
        if list.total > 0 {
            return Err(format!("{} prompts are still pending", list.total));
        }
        let stopped = self.stopped.clone().unwrap_or_default();
        if !stopped.tree_empty {
            return Err(format!("processes are left: {:?}", stopped.survivors));
        }
        let recorded = plan.exit.map(|exit| match exit {
            ExitStatus::Code(code) => Exit::Code(code),
            ExitStatus::Signal(signal) => Exit::Signal(signal),
        });
        if recorded.is_some() && recorded != stopped.exit {
            return Err(mismatch("the exit", &format!("{recorded:?}"), &format!("{:?}", stopped.exit)));
        }
        self.compare_audit(plan)
    }

    fn compare_audit(&mut self, plan: &Plan) -> Checked {
        let params = AuditListParams {
            task_id: Some(self.task_id.clone()),
            session_id: Some(self.session()),
            limit: Some(1000),
            ..Default::default()
        };
        let audit: AuditListResult = self.client.call("audit/list", &params).map_err(|e| text(&e))?;
        if audit.records.len() != plan.prompts.len() {
            return Err(format!("{} prompts were recorded, the audit has {}", plan.prompts.len(), audit.records.len()));
        }
        for (number, asked) in plan.prompts.iter().enumerate() {
            let Some(listed) = self.listed.get(&number) else { continue };
            let record = audit.records.iter().find(|r| r.request_id == listed.request_id).ok_or("a listed prompt is not in the audit")?;
            let accepted: Vec<&str> =
                record.resolutions.iter().filter(|r| r.result == ClaimResult::Accepted).map(|r| r.option_id.as_str()).collect();
            let as_recorded = match &asked.outcome {
                Outcome::Selected(option) => {
                    record.end == Some(End::Resolved) && accepted == [option.as_str()] && record.resolutions.len() == 1
                }
                Outcome::Cancelled => record.end == Some(End::Cancelled) && record.resolutions.is_empty(),
                Outcome::Expired => record.end == Some(End::Expired) && record.resolutions.is_empty(),
            };
            self.checks += 1;
            if !as_recorded {
                let seen = format!("{:?} with {:?}", record.end, record.resolutions);
                return Err(mismatch("the end of a prompt", &format!("{:?} of {}", asked.outcome, frame(asked)), &seen));
            }
        }
        Ok(())
    }

    /// What the played agent said before it gave up.
    fn stderr(&mut self) -> Option<String> {
        let params = StderrParams { execution_id: Some(self.started.execution_id.clone()), ..Default::default() };
        let result: StderrResult = self.client.call("execution/stderr", &params).ok()?;
        Some(result.text.trim().to_owned()).filter(|text| !text.is_empty())
    }

    fn session(&self) -> String {
        self.started.session_id.clone()
    }
}

fn frame(asked: &Asked) -> String {
    asked.frame.get().to_owned()
}

fn mismatch(what: &str, recorded: &str, seen: &str) -> String {
    format!("{what} is not as recorded\n  recorded: {recorded}\n  seen:     {seen}")
}

fn text(error: &ClientError) -> String {
    match error {
        ClientError::Failure(failure) => {
            let code = failure.stable_code().map_or_else(String::new, |code| format!(" [{}]", code.as_str()));
            let stderr = failure.data.as_ref().and_then(|data| data.stderr.as_ref());
            format!(
                "{}{code}{}",
                failure.message,
                stderr.map_or_else(String::new, |text| format!("\n  the agent's stderr: {}", text.trim()))
            )
        }
        other => other.to_string(),
    }
}
