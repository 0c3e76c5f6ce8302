//! `agentctl events`.

use std::process::ExitCode;

use acp_bridge::presentation::terminal;
use clap::{Args, ValueEnum};

use super::{CliError, Global, output, token_file::TokenFile};
use crate::client::{Client, ClientError, Incoming};
use crate::wire::{Event, Finding, Oddity, SubscribeParams, SubscribeResult, Topic};

/// Show events as they come.
#[derive(Debug, Args)]
pub(super) struct Events {
    /// Only of this task
    #[arg(long, value_name = "TASK", allow_hyphen_values = true)]
    task: Option<String>,
    /// Only of this session
    #[arg(long, value_name = "SESSION", allow_hyphen_values = true)]
    session: Option<String>,
    /// Only of these topics; `update` and `frame` (raw and unredacted) must be named [default: all others]
    #[arg(long, value_name = "TOPIC", value_delimiter = ',')]
    topics: Vec<TopicName>,
    #[command(flatten)]
    token: TokenFile,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum TopicName {
    Permission,
    Execution,
    Session,
    Update,
    Frame,
}

impl Events {
    pub(super) fn run(self, global: &Global) -> Result<ExitCode, CliError> {
        let topics: Vec<Topic> = self
            .topics
            .iter()
            .map(|t| match t {
                TopicName::Permission => Topic::Permission,
                TopicName::Execution => Topic::Execution,
                TopicName::Session => Topic::Session,
                TopicName::Update => Topic::Update,
                TopicName::Frame => Topic::Frame,
            })
            .collect();
        let mut client = self.token.connect(global)?;
        subscribe(&mut client, self.task.as_deref(), self.session.as_deref(), Some(topics).filter(|t| !t.is_empty()))?;
        loop {
            if let Incoming::Event(event) = client.recv()? {
                if global.json {
                    output::json(&event);
                } else {
                    output::out(&describe(&event));
                }
            }
        }
    }
}

/// Subscribes on a connection.
pub(super) fn subscribe(
    client: &mut Client,
    task: Option<&str>,
    session: Option<&str>,
    topics: Option<Vec<Topic>>,
) -> Result<(), ClientError> {
    let params = SubscribeParams { topics, task_id: task.map(str::to_owned), session_id: session.map(str::to_owned) };
    client.call::<_, SubscribeResult>("event/subscribe", &params).map(drop)
}

/// What the witness has found, in words.
pub(super) fn finding(f: &Finding) -> String {
    let what = match f.oddity {
        Oddity::RanBeforeAnswer => "ran before its answer",
        Oddity::NeverRan => "was approved and did not run",
        Oddity::Unasked => "ran without asking",
        Oddity::Unlisted => "nobody has listed the request for a minute",
    };
    let mut words = vec![what.to_owned()];
    words.extend(f.kind.as_deref().map(|kind| format!("[{}]", terminal(kind))));
    words.extend(f.title.as_deref().map(|title| terminal(title).into_owned()));
    words.extend(f.request_id.as_deref().map(|id| format!("request {id}")));
    words.join("  ")
}

fn describe(event: &Event) -> String {
    let mut words = vec![event.at.clone().unwrap_or_else(|| "-".repeat(24)), event.event_type.clone()];
    words.extend(event.state.and_then(|state| serde_json::to_value(state).ok()?.as_str().map(str::to_owned)));
    words.extend(event.count.map(|count| format!("{count} events missed")));
    words.extend(event.task_id.as_deref().map(|id| format!("task {}", output::quote(id))));
    words.extend(event.session_id.as_deref().map(|id| format!("session {}", output::quote(id))));
    words.extend(event.request_id.as_deref().map(|id| format!("request {id}")));
    words.extend(event.pending_id.as_deref().map(|id| format!("pending {}", output::quote(id))));
    words.extend(event.permission.as_ref().map(|p| terminal(&p.title).into_owned()));
    words.extend(
        event.resolution.as_ref().map(|r| format!("{} by user {} through {}", terminal(&r.option_id), r.actor_user_id, r.source.as_str())),
    );
    words.extend(event.stop_reason.as_deref().map(|reason| terminal(reason).into_owned()));
    words.extend(event.reason.as_deref().map(|reason| format!("({})", terminal(reason))));
    words.extend(event.finding.as_ref().map(finding));
    words.extend(event.entry.as_ref().map(|entry| terminal(entry.0.get()).into_owned()));
    words.extend(event.frame.as_ref().map(|frame| terminal(frame.0.get()).into_owned()));
    words.join("  ") + "\n"
}
