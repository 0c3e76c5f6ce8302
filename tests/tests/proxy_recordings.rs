//! Recorded sessions of five real agents through `agentctl proxy`: every message of both sides, byte for byte and in order,
//! but for the answers that the table gives in the editor's place. Among them are those whose client serves fs and
//! terminals, answers with an error, with an option that was not offered, or not at all (`tests/recordings`).

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};

use agentctl_tests::harness::{Daemon, Proxied};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

#[derive(Deserialize)]
struct Entry<'a> {
    from: Option<&'a str>,
    #[serde(borrow)]
    frame: Option<&'a RawValue>,
}

/// A live prompt: the id, its session and the options.
struct Asked {
    id: Value,
    session: Value,
    options: Vec<Value>,
}

/// What must come out, said a second time and more simply than in the daemon: turns one at a time, ids never reused.
#[derive(Default)]
struct Expect {
    live: Vec<Asked>,
    turn: Option<(Value, Value)>,
    cancelled: bool,
}

/// Lines for the agent and for the editor, in order. A text is to be met byte for byte, a value as JSON.
#[derive(Default)]
struct Out {
    agent: Vec<Result<String, Value>>,
    editor: Vec<Result<String, Value>>,
    replaced: usize,
}

fn cancelled(id: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": {"outcome": {"outcome": "cancelled"}}})
}

fn take_back(id: &Value) -> Value {
    json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": id}})
}

impl Expect {
    fn of_editor(&mut self, text: &str, frame: &Value, out: &mut Out) {
        match frame["method"].as_str() {
            Some("session/prompt") => self.turn = Some((frame["id"].clone(), frame["params"]["sessionId"].clone())),
            Some("session/cancel") => {
                self.cancelled = self.turn.is_some();
                for asked in self.live.extract_if(.., |asked| asked.session == frame["params"]["sessionId"]) {
                    out.agent.push(Err(cancelled(&asked.id)));
                    out.replaced += 1;
                }
            }
            Some(_) => {}
            None if frame["id"].is_null() => panic!("{frame}"),
            None => {
                let Some(at) = self.live.iter().position(|asked| asked.id == frame["id"]) else { return self.other(text, frame, out) };
                let asked = self.live.remove(at);
                let outcome = &frame["result"]["outcome"];
                if !(outcome["outcome"] == "cancelled" || asked.options.contains(&outcome["optionId"])) {
                    out.agent.push(Err(cancelled(&asked.id)));
                    out.replaced += 1;
                    return;
                }
            }
        }
        out.agent.push(Ok(text.to_owned()));
    }

    /// An answer to what is no live prompt: to an fs or terminal request it passes, to an ended prompt it is late.
    fn other(&mut self, text: &str, frame: &Value, out: &mut Out) {
        let outcome = &frame["result"]["outcome"];
        if outcome.is_null() && frame["error"]["code"] != -32800 {
            out.agent.push(Ok(text.to_owned()));
        } else {
            out.replaced += 1;
        }
    }

    fn of_agent(&mut self, text: &str, frame: &Value, out: &mut Out) {
        match frame["method"].as_str() {
            Some("session/request_permission") => {
                out.editor.push(Ok(text.to_owned()));
                let options = frame["params"]["options"].as_array().into_iter().flatten().map(|o| o["optionId"].clone()).collect();
                let asked = Asked { id: frame["id"].clone(), session: frame["params"]["sessionId"].clone(), options };
                if self.cancelled {
                    out.agent.push(Err(cancelled(&asked.id)));
                    out.editor.push(Err(take_back(&asked.id)));
                } else {
                    self.live.push(asked);
                }
                return;
            }
            Some("$/cancel_request") => {
                if let Some(at) = self.live.iter().position(|asked| asked.id == frame["params"]["requestId"]) {
                    let id = self.live.remove(at).id;
                    out.agent
                        .push(Err(json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32800, "message": "the request was cancelled"}})));
                }
            }
            None if self.turn.as_ref().is_some_and(|(id, _)| *id == frame["id"]) => {
                (self.turn, self.cancelled) = (None, false);
                for asked in self.live.drain(..) {
                    out.agent.push(Err(cancelled(&asked.id)));
                    out.editor.push(Err(take_back(&asked.id)));
                }
            }
            _ => {}
        }
        out.editor.push(Ok(text.to_owned()));
    }
}

#[track_caller]
fn meet(expected: Vec<Result<String, Value>>, lines: &agentctl_tests::harness::Lines, place: &str) {
    for line in expected {
        let got = lines.text();
        match line {
            Ok(text) => assert_eq!(got, text, "{place}"),
            Err(value) => assert_eq!(serde_json::from_str::<Value>(&got).expect("JSON"), value, "{place}"),
        }
    }
}

fn recordings() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = |root: PathBuf| std::fs::read_dir(root).expect("recordings").flatten().map(|entry| entry.path());
    let agents = folders(root.join("recordings")).chain(folders(root.join("../fixtures"))).filter(|path| path.is_dir());
    let mut files: Vec<PathBuf> = agents.flat_map(folders).filter(|path| path.extension().is_some_and(|e| e == "jsonl")).collect();
    files.sort();
    files
}

#[test]
fn every_recording_passes_byte_for_byte() {
    let daemon = Daemon::start();
    let files = recordings();
    assert!(files.len() > 130, "{} recordings", files.len());
    let (mut frames, mut replaced) = (0, 0);
    for (n, file) in files.iter().enumerate() {
        let mut proxied = Proxied::start(&daemon, &format!("s{n}"), &[]);
        let mut expect = Expect::default();
        for (at, line) in std::fs::read_to_string(file).expect("a recording").lines().enumerate().skip(1) {
            let place = format!("{}:{}", file.display(), at + 1);
            let entry: Entry<'_> = serde_json::from_str(line).expect("an entry");
            let (Some(from), Some(frame)) = (entry.from, entry.frame) else { continue };
            let value: Value = serde_json::from_str(frame.get()).expect("JSON");
            let mut out = Out::default();
            if from == "client" {
                expect.of_editor(frame.get(), &value, &mut out);
                proxied.editor_sends(frame.get());
            } else {
                expect.of_agent(frame.get(), &value, &mut out);
                proxied.agent_sends(frame.get());
            }
            frames += 1;
            replaced += out.replaced;
            meet(out.agent, &proxied.agent, &place);
            meet(out.editor, &proxied.editor, &place);
        }
        drop((proxied.to_agent.take(), proxied.to_editor.take()));
        assert_eq!((proxied.agent.try_next(), proxied.editor.try_next()), (None, None), "{}: nothing more", file.display());
    }
    assert!(frames > 1900, "{frames}");
    println!("{} recordings, {frames} messages, {replaced} answers of editors in whose place the table answered", files.len());
}
