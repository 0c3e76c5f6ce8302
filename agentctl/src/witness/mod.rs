//! What the wire tells about tools that ran: after they were asked for, before, or without. Pure: times come in.
//!
//! Only what an agent reports can be seen, and the kind of a tool is the agent's claim. A tool counts as run when it is
//! reported `completed` (after an approval also `failed`): `in_progress` is sent by several agents before they ask.
//!
//! Invariants:
//! 1. A prompt that ends in any way but an approval never makes a tool "approved".
//! 2. A tool call is counted once as waited, unasked or run before its answer, unless it is announced anew.
//! 3. A turn that was cancelled says nothing about what was approved in it, nor does an approval that a refusal of the same
//!    tool call goes with.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use uuid::Uuid;

use crate::limits::{UNLISTED, WITNESSED_CALLS};

/// How often what was seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Tools that ran after their approval.
    pub waited: u64,
    /// Tools that completed while their prompt waited for an answer.
    pub ran_before_answer: u64,
    /// Approved tools that had not run when their turn ended.
    pub never_ran: u64,
    /// Tools that edit or execute and completed without any prompt.
    pub unasked: u64,
    /// Prompts that nobody has listed or been told of for a minute.
    pub unlisted: u64,
}

/// Something that should not be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Oddity {
    /// A tool completed while its prompt waited for an answer.
    RanBeforeAnswer,
    /// An approved tool had not run when its turn ended.
    NeverRan,
    /// A tool that edits or executes completed without any prompt.
    Unasked,
    /// Nobody has listed a prompt, or been told of it, for a minute.
    Unlisted,
}

/// An oddity, and of what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What is odd.
    pub oddity: Oddity,
    /// The acp session.
    pub session: Option<String>,
    /// The agent's id of the tool call.
    pub tool_call_id: Option<String>,
    /// The request, if it is about one.
    pub request_id: Option<Uuid>,
}

/// What one execution's tools and prompts did. At most [`WITNESSED_CALLS`] tool calls are remembered: the oldest is forgotten.
#[derive(Debug, Default)]
pub struct Witness {
    calls: VecDeque<Call>,
    live: HashMap<Uuid, Prompt>,
    counts: Counts,
}

#[derive(Debug)]
struct Call {
    session: Option<String>,
    id: String,
    /// It edits or executes.
    acts: bool,
    asked: bool,
    /// Its prompts without an answer.
    live: usize,
    /// The latest of those.
    prompt: Option<Uuid>,
    /// It was approved and has not run yet.
    approved: Option<Uuid>,
    /// It has begun since, or was also refused: nothing is odd if it never ends.
    excused: bool,
    over: bool,
}

#[derive(Debug)]
struct Prompt {
    session: Option<String>,
    call: Option<String>,
    raised: Duration,
    listed: bool,
}

impl Witness {
    /// What was seen so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The agent reports a tool call.
    pub fn reported(&mut self, session: Option<&str>, id: &str, kind: Option<&str>, status: Option<&str>) -> Option<Finding> {
        let call = remembered(&mut self.calls, session, id);
        call.acts |= kind.is_some_and(acts);
        let ended = matches!(status, Some("completed" | "failed"));
        let oddity = match status {
            Some("pending" | "in_progress") if call.over => {
                // Announced anew.
                (call.over, call.asked) = (false, call.live > 0);
                None
            }
            Some("in_progress") if call.approved.is_some() => {
                call.excused = true;
                None
            }
            Some("completed" | "failed") if call.approved.take().is_some() => {
                self.counts.waited += 1;
                None
            }
            Some("completed") if call.over => None,
            Some("completed") if call.live > 0 => Some(Oddity::RanBeforeAnswer),
            Some("completed") if call.acts && !call.asked => Some(Oddity::Unasked),
            _ => None,
        };
        call.over |= ended;
        let request_id = call.prompt.filter(|_| call.live > 0);
        oddity.map(|oddity| self.found(Finding { oddity, session: session.map(Into::into), tool_call_id: Some(id.into()), request_id }))
    }

    /// A prompt was raised, for a tool call or for none that it names.
    pub fn asked(&mut self, request_id: Uuid, session: Option<&str>, call: Option<&str>, kind: Option<&str>, now: Duration) {
        if let Some(id) = call {
            let call = remembered(&mut self.calls, session, id);
            call.acts |= kind.is_some_and(acts);
            call.excused &= call.live > 0 || call.approved.is_some();
            call.asked = true;
            call.over = false;
            call.live += 1;
            call.prompt = Some(request_id);
        }
        let prompt = Prompt { session: session.map(Into::into), call: call.map(Into::into), raised: now, listed: false };
        self.live.insert(request_id, prompt);
    }

    /// A prompt has ended: `allowed` if an option that allows was delivered.
    pub fn ended(&mut self, request_id: Uuid, allowed: bool) {
        let Some(Prompt { session, call: Some(id), .. }) = self.live.remove(&request_id) else { return };
        if let Some(call) = self.calls.iter_mut().rfind(|call| call.is(session.as_deref(), &id)) {
            call.live = call.live.saturating_sub(1);
            // What completed before its answer has been counted.
            call.approved = (allowed && !call.over).then_some(request_id).or(call.approved);
            call.excused |= !allowed;
        }
    }

    /// A turn has ended.
    pub fn turn_ended(&mut self, session: &str, cancelled: bool) -> Vec<Finding> {
        let mut found = Vec::new();
        for call in self.calls.iter_mut().filter(|call| call.session.as_deref() == Some(session)) {
            if let Some(request_id) = call.approved.take().filter(|_| !cancelled && !call.excused) {
                let (session, tool_call_id) = (call.session.clone(), Some(call.id.clone()));
                found.push(Finding { oddity: Oddity::NeverRan, session, tool_call_id, request_id: Some(request_id) });
            }
        }
        found.into_iter().map(|finding| self.found(finding)).collect()
    }

    /// Somebody has listed all live prompts.
    pub fn listed(&mut self) {
        self.live.values_mut().for_each(|prompt| prompt.listed = true);
    }

    /// Somebody was told of a prompt.
    pub fn told(&mut self, request_id: Uuid) {
        if let Some(prompt) = self.live.get_mut(&request_id) {
            prompt.listed = true;
        }
    }

    /// When the next prompt will have been unlisted for too long.
    pub fn due(&self) -> Option<Duration> {
        self.live.values().filter(|prompt| !prompt.listed).map(|prompt| prompt.raised + UNLISTED).min()
    }

    /// Prompts that nobody has listed for too long, each once.
    pub fn unlisted(&mut self, now: Duration) -> Vec<Finding> {
        let overdue = self.live.iter_mut().filter(|(_, prompt)| !prompt.listed && prompt.raised + UNLISTED <= now);
        let found: Vec<Finding> = overdue
            .map(|(request_id, prompt)| {
                prompt.listed = true;
                let (session, tool_call_id) = (prompt.session.clone(), prompt.call.clone());
                Finding { oddity: Oddity::Unlisted, session, tool_call_id, request_id: Some(*request_id) }
            })
            .collect();
        found.into_iter().map(|finding| self.found(finding)).collect()
    }

    fn found(&mut self, finding: Finding) -> Finding {
        let count = match finding.oddity {
            Oddity::RanBeforeAnswer => &mut self.counts.ran_before_answer,
            Oddity::NeverRan => &mut self.counts.never_ran,
            Oddity::Unasked => &mut self.counts.unasked,
            Oddity::Unlisted => &mut self.counts.unlisted,
        };
        *count += 1;
        finding
    }
}

/// A tool call, from now on remembered if it was not.
fn remembered<'a>(calls: &'a mut VecDeque<Call>, session: Option<&str>, id: &str) -> &'a mut Call {
    let at = calls.iter().rposition(|call| call.is(session, id)).unwrap_or_else(|| {
        if calls.len() == WITNESSED_CALLS {
            // One that nothing is expected of, if there is one.
            let settled = calls.iter().position(|call| call.live == 0 && call.approved.is_none());
            calls.remove(settled.unwrap_or(0));
        }
        let session = session.map(Into::into);
        let id = id.into();
        calls.push_back(Call {
            session,
            id,
            acts: false,
            asked: false,
            live: 0,
            prompt: None,
            approved: None,
            excused: false,
            over: false,
        });
        calls.len() - 1
    });
    &mut calls[at]
}

impl Call {
    fn is(&self, session: Option<&str>, id: &str) -> bool {
        self.id == id && self.session.as_deref() == session
    }
}

/// Whether a tool of this kind changes something: ACP's words.
fn acts(kind: &str) -> bool {
    matches!(kind, "execute" | "edit" | "delete" | "move")
}

#[cfg(test)]
mod tests;
