//! The requests of the agent, as a person at a terminal is asked about them and answers.

use std::time::Instant;

use acp_bridge::presentation::terminal as visible;
use serde_json::value::RawValue;

use super::question::{Act, render};
use super::terminal::{Terminal, paint};
use super::{Call, Person};
use crate::cli::output;
use crate::client::ClientError;
use crate::code::Code;
use crate::wire::{Event, Failure, Permission, PermissionCancelParams, PermissionListParams, PermissionListResult, ResolveParams};

impl Person {
    /// Shows the question that is due: during a turn at once; else the person is writing and must ask for it.
    pub(super) fn ask(&mut self) {
        if self.questions.is_shown() {
            return;
        }
        if self.turn {
            self.show_question();
        } else if self.terminal.reads_keys() {
            // A question outside a turn was answered: the person writes again.
            self.terminal.read_lines();
            self.terminal.prompt(&paint("1", "> "));
        }
    }

    pub(super) fn show_question(&mut self) {
        let Some(permission) = self.questions.first() else { return self.terminal.read_lines() };
        let text = render(permission, self.questions.len(), Terminal::width(), false);
        self.terminal.read_keys();
        self.terminal.tell(&text);
        self.questions.shown(Instant::now());
    }

    pub(super) fn raised(&mut self, permission: Permission) {
        let title = visible(&permission.title).into_owned();
        self.questions.add(permission);
        if !self.turn && !self.questions.is_shown() {
            self.terminal.tell(&paint("1;33", &format!("? The agent asks: {title}; press Enter on an empty line to answer it")));
        }
    }

    /// A request has ended. If that was not this surface's doing, it says whose.
    pub(super) fn ended(&mut self, request_id: &str, event: &Event) {
        let ours = self.calls.values().any(|call| matches!(call, Call::Resolve(id, _) | Call::CancelRequest(id) if id == request_id));
        if ours {
            // If that was not our doing after all, our own call will say so.
            self.ended_meanwhile.insert(request_id.to_owned());
            return;
        }
        let Some(shown) = self.questions.remove(request_id) else { return };
        self.terminal.tell(&match &event.resolution {
            Some(r) => {
                let (who, through, option) = (visible(&r.actor_user_id), r.source.as_str(), visible(&r.option_id));
                format!("  answered elsewhere, by user {who} through {through}: {option}")
            }
            None => format!("  the request ended: {}", event.event_type),
        });
        if shown && self.questions.first().is_none() {
            self.terminal.read_lines();
        }
    }

    pub(super) fn list(&mut self) -> Result<(), ClientError> {
        let params =
            PermissionListParams { task_id: Some(self.started.task_id.clone()), session_id: Some(self.started.session_id.clone()) };
        let waited = self.questions.ids();
        self.call("permission/list", &params, Call::List(waited))
    }

    /// What waits. What was raised after the list was asked for stays: its event may have come before the list.
    pub(super) fn listed(&mut self, result: &RawValue, waited: &[String]) {
        let Ok(list) = serde_json::from_str::<PermissionListResult>(result.get()) else { return };
        for gone in waited.iter().filter(|id| !list.permissions.iter().any(|p| p.request_id == **id)) {
            self.questions.remove(gone);
        }
        for permission in list.permissions {
            if !self.questions.has(&permission.request_id) {
                self.raised(permission);
            }
        }
    }

    pub(super) fn not_answered(&mut self, request_id: &str, failure: &Failure) {
        self.terminal.tell(&format!("  not answered: {}", output::describe(failure)));
        match failure.stable_code() {
            Some(Code::PermissionAuditFailed | Code::PermissionDeliveryFailed | Code::PermissionResolutionInProgress)
                if failure.data.as_ref().is_none_or(|data| data.end.is_none()) && !self.ended_meanwhile.remove(request_id) =>
            {
                self.questions.not_taken();
            }
            _ => drop(self.questions.remove(request_id)),
        }
    }

    pub(super) fn key(&mut self, typed: &[u8], at: Instant) -> Result<(), ClientError> {
        let act = self.questions.key(typed, at);
        let Some(permission) = self.questions.first() else { return Ok(()) };
        let Permission { task_id, session_id, request_id, pending_id, options, .. } = permission.clone();
        match act {
            Act::Choose(option_id) => {
                let name = options.into_iter().find(|o| o.option_id == option_id).map(|o| o.name).unwrap_or_default();
                let call = Call::Resolve(request_id.clone(), name);
                self.call("permission/resolve", &ResolveParams { task_id, session_id, request_id, pending_id, option_id }, call)
            }
            Act::Cancel => {
                let call = Call::CancelRequest(request_id.clone());
                self.call("permission/cancel", &PermissionCancelParams { task_id, session_id, request_id, pending_id }, call)
            }
            Act::View => {
                let text = render(permission, self.questions.len(), Terminal::width(), true);
                self.terminal.tell(&text);
                Ok(())
            }
            Act::Early | Act::Nothing => Ok(()),
        }
    }
}
