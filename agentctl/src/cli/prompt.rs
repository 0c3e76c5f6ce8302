//! `agentctl prompt`.

use std::io::Read;
use std::process::ExitCode;

use acp_bridge::presentation::{Redactor, terminal, terminal_multiline};
use anyhow::Context as _;
use clap::Args;

use super::update::Update;
use super::{CliError, Global, output};
use crate::client::{Client, ClientError, Incoming};
use crate::wire::{PromptParams, PromptResult, Topic};

/// Send a prompt and stream the turn. The exit status is 0 on `end_turn`. Interrupting this command does not end the turn.
#[derive(Debug, Args)]
pub(super) struct Prompt {
    /// The session
    #[arg(long, value_name = "SESSION", allow_hyphen_values = true)]
    session: String,
    /// The prompt; `-` reads it from stdin
    #[arg(value_name = "TEXT", allow_hyphen_values = true)]
    text: String,
}

impl Prompt {
    pub(super) fn run(self, global: &Global) -> Result<ExitCode, CliError> {
        let mut text = self.text;
        if text == "-" {
            text.clear();
            std::io::stdin().read_to_string(&mut text).context("cannot read the prompt from stdin")?;
        }
        let mut client = global.connect()?;
        Turn::start(&mut client, &self.session, text)?.stream(global, &Redactor::default())
    }
}

/// A turn that was asked for.
pub(super) struct Turn<'a> {
    client: &'a mut Client,
    call: u64,
}

impl<'a> Turn<'a> {
    /// Asks for a turn, with its events.
    pub(super) fn start(client: &'a mut Client, session_id: &str, text: String) -> Result<Self, ClientError> {
        super::events::subscribe(client, None, Some(session_id), Some(vec![Topic::Update, Topic::Permission, Topic::Session]))?;
        let params = PromptParams { session_id: session_id.to_owned(), acp_session_id: None, text: Some(text), prompt: None, owner: None };
        let call = client.send("session/prompt", &params)?;
        Ok(Self { client, call })
    }

    /// Waits until the turn has started.
    pub(super) fn wait_started(self) -> Result<(), ClientError> {
        loop {
            match self.client.recv()? {
                Incoming::Event(event) if event.event_type == "turn_started" => return Ok(()),
                Incoming::Answer(id, outcome) if id == self.call => return outcome.map(drop).map_err(ClientError::Failure),
                _ => {}
            }
        }
    }

    /// Prints what the agent says until the turn ends.
    pub(super) fn stream(self, global: &Global, redactor: &Redactor) -> Result<ExitCode, CliError> {
        let mut at_line_start = true;
        let outcome = loop {
            match self.client.recv()? {
                Incoming::Answer(id, outcome) if id == self.call => break outcome,
                Incoming::Answer(..) => {}
                Incoming::Event(event) => {
                    super::permissions::notice(&event);
                    if let Some(text) = event.frame.as_ref().and_then(|frame| Update::read(frame.0.get())).as_ref().and_then(Update::said)
                        && !global.json
                    {
                        at_line_start = text.ends_with('\n');
                        output::out(&terminal_multiline(&redactor.long_text(text)));
                    }
                }
            }
        };
        if !at_line_start {
            output::out("\n");
        }
        let result = outcome.map_err(ClientError::Failure)?;
        let result: PromptResult = serde_json::from_str(result.get()).map_err(ClientError::Unreadable)?;
        if global.json {
            output::json(&result);
        } else if result.stop_reason != "end_turn" {
            output::note(&format!("the turn ended: {}", terminal(&result.stop_reason)));
        }
        Ok(if result.stop_reason == "end_turn" { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}
