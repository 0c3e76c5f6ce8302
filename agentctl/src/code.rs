//! The stable codes: one enum with each code's meaning, exit status and hint.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $text:literal, exit $exit:literal, $meaning:literal, $hint:literal;)+) => {
        /// A stable code: `data.code` of a domain error. Clients match it and nothing else.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
        pub enum Code {
            $(#[doc = $meaning] #[serde(rename = $text)] $variant,)+
        }

        impl Code {
            /// Every code.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// Its text on the wire.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }

            /// The exit status of a command that failed with it.
            pub fn exit_status(self) -> u8 {
                match self { $(Self::$variant => $exit),+ }
            }

            /// What happened, in one sentence.
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$variant => $meaning),+ }
            }

            /// What to do next.
            pub fn hint(self) -> &'static str {
                match self { $(Self::$variant => $hint),+ }
            }
        }
    };
}

codes! {
    TaskOrSessionNotFound = "task_or_session_not_found", exit 4, "There is no such task or session of yours.",
        "See `agentctl ps --all` for tasks and sessions.";
    PermissionNotFound = "permission_not_found", exit 4, "No such request was ever visible in this session.",
        "List the pending requests and copy the whole identity: task, session, request and pending id.";
    PermissionStale = "permission_stale", exit 5, "The request was withdrawn, replaced, cancelled or has expired.",
        "List the pending requests; the agent may have asked anew.";
    PermissionAlreadyResolved = "permission_already_resolved", exit 5, "The request has its answer.",
        "`agentctl audit --request REQUEST` shows all of it.";
    PermissionResolutionInProgress = "permission_resolution_in_progress", exit 5, "Another caller is answering this request.",
        "Look again in a moment.";
    PermissionOptionNotOffered = "permission_option_not_offered", exit 5, "No option of this request can be selected by that id.",
        "Use an option id exactly as listed; ids that stand twice can't be selected.";
    PermissionAuditFailed = "permission_audit_failed", exit 6, "The answer could not be recorded.",
        "Check the disk and permissions of the state folder. If the request is still listed, nothing was sent: try again.";
    PermissionDeliveryFailed = "permission_delivery_failed", exit 6, "The answer was recorded but could not be handed to the agent.",
        "List the pending requests; if this one is still there, try again.";
    ApproverIsSupervised = "approver_is_supervised", exit 7, "The caller runs inside a supervised agent's process tree.",
        "Answer from outside the agent.";
    TokenNotValid = "token_not_valid", exit 7, "The token is unknown, revoked or has expired.",
        "Ask the operator for a new one: `agentctl token create`.";
    OperatorOnly = "operator_only", exit 7, "No token allows this.",
        "A token allows list, resolve and cancel of permission requests, audit and events; the rest is the operator's.";
    ExecutionNotFound = "execution_not_found", exit 4, "There is no such execution of yours.", "See `agentctl ps --all`.";
    NoLiveExecution = "no_live_execution", exit 1, "The session has no live execution.", "Start one with `agentctl run`.";
    SessionBusy = "session_busy", exit 5, "The session has a live execution, or a turn of it is running.",
        "Wait, cancel the turn, or stop the execution (`replace` does so when starting).";
    ExecutionProxied = "execution_is_proxied", exit 5, "An editor has the turns of this execution.",
        "Prompt and cancel in the editor; permission requests can be answered here as well.";
    CommandNotFound = "command_not_found", exit 4, "The agent's command was not found.", "Check its spelling and PATH.";
    CommandNotExecutable = "command_not_executable", exit 1, "The agent's command can't be executed.",
        "Check its file mode and the interpreter in its first line.";
    CwdNotFound = "cwd_not_found", exit 4, "The working directory does not exist.", "Give an absolute path of an existing folder.";
    InitializeFailed = "initialize_failed", exit 1, "The agent answered `initialize` with an error.", "See `agentctl stderr`.";
    InitializeTimeout = "initialize_timeout", exit 1, "The agent did not answer `initialize` in time.",
        "Is it an ACP agent? Many need an argument such as `acp`.";
    SessionNewFailed = "session_new_failed", exit 1, "The agent opened no session.", "See the agent's own message, and `agentctl stderr`.";
    AgentExited = "agent_exited", exit 1, "The agent exited.", "Check its command line, and what it wrote on stderr.";
    ProtocolVersionUnsupported = "protocol_version_unsupported", exit 1, "The agent speaks another version of ACP.",
        "agentctl speaks version 1: use a release of the agent that does.";
    AuthenticationRequired = "authentication_required", exit 1, "The agent wants its user to log in first.",
        "Log in with the agent's own command; its methods are in the error's data.";
    LimitReached = "limit_reached", exit 1, "A limit of the daemon is reached.", "See the message for which one; docs/reference.md lists all limits.";
    PromptFailed = "prompt_failed", exit 1, "The agent answered the prompt with an error.", "See the agent's own message.";
    ShuttingDown = "shutting_down", exit 1, "The daemon is shutting down.", "Start it again.";
    Internal = "internal_error", exit 1, "The daemon failed to do this.", "See its log. Nothing was answered.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_unique_and_serialise_as_themselves() {
        let mut texts: Vec<_> = Code::ALL.iter().map(|c| c.as_str()).collect();
        for code in Code::ALL {
            assert_eq!(serde_json::to_value(code).unwrap(), code.as_str());
        }
        texts.sort_unstable();
        texts.dedup();
        assert_eq!(texts.len(), Code::ALL.len());
    }
}
