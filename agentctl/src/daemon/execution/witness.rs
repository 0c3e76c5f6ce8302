//! The witness of an execution: what it finds is told, counted and recorded.

use acp_bridge::presentation::present;
use acp_bridge::prompt::Prompt;
use jiff::Timestamp;
use tokio::time::Instant;
use uuid::Uuid;

use super::task::Task;
use super::tools::Report;
use crate::domain::timestamp_text;
use crate::limits::FINDINGS;
use crate::wire::{self, Event, Topic};
use crate::witness::{Finding, Oddity, Witness};

/// The witness, its clock, and what it has found.
#[derive(Debug)]
pub(super) struct Observed {
    witness: Witness,
    begun: Instant,
    findings: Vec<wire::Finding>,
    /// What the audit has.
    recorded: wire::Witness,
}

impl Default for Observed {
    fn default() -> Self {
        Self { witness: Witness::default(), begun: Instant::now(), findings: Vec::new(), recorded: wire::Witness::default() }
    }
}

impl Observed {
    pub(super) fn told(&mut self, request_id: Uuid) {
        self.witness.told(request_id);
    }

    pub(super) fn listed(&mut self) {
        self.witness.listed();
    }

    pub(super) fn ended(&mut self, request_id: Uuid, allowed: bool) {
        self.witness.ended(request_id, allowed);
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.witness.due().map(|due| self.begun + due)
    }
}

impl Task {
    /// The agent told of a tool call.
    pub(super) fn witness_report(&mut self, report: &Report) {
        let Report { session, id, kind, status } = report;
        let found = self.witness.witness.reported(session.as_deref(), id, kind.as_deref(), status.as_deref());
        self.found(found);
    }

    /// A prompt was raised.
    pub(super) fn witness_asked(&mut self, request_id: Uuid, prompt: &Prompt) {
        let (call, now) = (&prompt.tool_call, self.witness.begun.elapsed());
        self.witness.witness.asked(request_id, prompt.acp_session_id.as_deref(), call.id.as_deref(), call.kind.as_deref(), now);
    }

    /// A turn has ended.
    pub(super) fn witness_turn_ended(&mut self, acp_session_id: &str, stop_reason: Option<&str>) {
        // Several agents end a turn so when a tool was refused.
        let cancelled =
            stop_reason == Some("cancelled") || self.turns.get(acp_session_id).is_some_and(super::turns::RunningTurn::is_cancelled);
        let found = self.witness.witness.turn_ended(acp_session_id, cancelled);
        self.found(found);
        self.record_witness();
    }

    pub(super) fn witness_timers(&mut self, now: Instant) {
        let found = self.witness.witness.unlisted(now.saturating_duration_since(self.witness.begun));
        self.found(found);
    }

    /// Counts and findings, for the audit.
    pub(super) fn record_witness(&mut self) {
        let counts = self.exec.status.lock().witness;
        if std::mem::replace(&mut self.witness.recorded, counts) != counts {
            let findings = acp_bridge::json::to_text(&self.witness.findings);
            self.hub.audit.witness(self.exec.id, acp_bridge::json::to_text(&counts), findings);
        }
    }

    fn found(&mut self, findings: impl IntoIterator<Item = Finding>) {
        for finding in findings {
            if self.witness.findings.len() < FINDINGS {
                let shown = self.shown(finding);
                self.witness.findings.push(shown.clone());
                self.tell(Topic::Execution, Event { event_type: "witness".into(), finding: Some(shown), ..Event::default() });
            }
        }
        let counts = self.witness.witness.counts();
        self.exec.status.lock().witness = wire::Witness {
            waited: counts.waited,
            ran_before_answer: counts.ran_before_answer,
            never_ran: counts.never_ran,
            unasked: counts.unasked,
            unlisted: counts.unlisted,
        };
    }

    /// A finding with what may be shown of its tool call.
    fn shown(&self, finding: Finding) -> wire::Finding {
        let text = |text: &String| self.redactor.text(text).text;
        let call = self.tools.get(finding.session.as_deref(), finding.tool_call_id.as_deref());
        let waiting = finding.request_id.and_then(|id| self.table.get(id)).map(|request| request.shown.title.clone());
        let title = waiting.or_else(|| {
            let prompt = Prompt { acp_session_id: None, tool_call: call?.clone(), options: Vec::new(), hint: None };
            Some(present(&prompt, call, &self.redactor).title)
        });
        wire::Finding {
            at: timestamp_text(Timestamp::now()),
            oddity: match finding.oddity {
                Oddity::RanBeforeAnswer => wire::Oddity::RanBeforeAnswer,
                Oddity::NeverRan => wire::Oddity::NeverRan,
                Oddity::Unasked => wire::Oddity::Unasked,
                Oddity::Unlisted => wire::Oddity::Unlisted,
            },
            acp_session_id: finding.session,
            tool_call_id: finding.tool_call_id.as_ref().map(text),
            request_id: finding.request_id.map(|id| id.to_string()),
            title: title.filter(|title| !title.is_empty()),
            kind: call.and_then(|call| call.kind.as_ref()).map(text),
        }
    }
}
