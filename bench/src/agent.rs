//! A small agent that does what its prompt says: `frames N SIZE`, `ask N` (one after the other), `ask-all N`, `longest`; else
//! it just ends its turn.

use std::io::{BufRead, Write, stdin, stdout};

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use crate::measure::now;

/// Before each prompt, so that what the last one caused has come to rest.
const PAUSE: Duration = Duration::from_millis(3);

/// Nanoseconds of the longest write of frames so far.
static LONGEST: AtomicU64 = AtomicU64::new(0);

#[derive(Args)]
pub struct Agent {
    /// Only write so many frames of so many bytes, and end
    #[arg(long, num_args = 2)]
    frames: Option<Vec<usize>>,
    /// Only write so many prompts, with pauses, and end
    #[arg(long)]
    prompts: Option<usize>,
}

impl Agent {
    pub fn run(self) {
        if let Some(frames) = self.frames {
            write_frames(frames[0], frames[1]);
            return;
        }
        if let Some(prompts) = self.prompts {
            for id in 0..prompts {
                std::thread::sleep(PAUSE);
                write(&prompt(id));
            }
            return;
        }
        let mut lines = stdin().lock().lines().map_while(Result::ok).map(|line| (now(), message(&line)));
        while let Some((_, message)) = lines.next() {
            let id = message["id"].clone();
            let result = match message["method"].as_str() {
                Some("initialize") => {
                    json!({"protocolVersion": 1, "agentCapabilities": {}, "agentInfo": {"name": "bench", "version": "1"}})
                }
                Some("session/new") => json!({"sessionId": "bench"}),
                Some("session/prompt") => {
                    let text = message["params"]["prompt"][0]["text"].as_str().unwrap_or_default().to_owned();
                    turn(&text, &mut lines);
                    json!({"stopReason": "end_turn"})
                }
                _ => continue,
            };
            write(&format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "result": result})));
        }
    }
}

fn turn(text: &str, lines: &mut impl Iterator<Item = (u64, Value)>) {
    let words: Vec<&str> = text.split(' ').collect();
    let number = |at: usize| words.get(at).and_then(|word| word.parse().ok()).unwrap_or(0);
    match words[0] {
        "frames" => {
            LONGEST.fetch_max(write_frames(number(1), number(2)), Ordering::Relaxed);
        }
        "longest" => say(&format!("longest={}", LONGEST.load(Ordering::Relaxed))),
        "ask" => {
            for id in 0..number(1) {
                std::thread::sleep(PAUSE);
                write(&prompt(id));
                if let Some((at, _)) = lines.next() {
                    say(&format!("read={at}"));
                }
            }
        }
        "ask-all" => {
            (0..number(1)).for_each(|id| write(&prompt(id)));
            for _ in 0..number(1) {
                let _ = lines.next();
            }
        }
        _ => say("ok"),
    }
}

fn message(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_default()
}

fn write(text: &str) {
    let mut out = stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).expect("somebody reads");
}

fn say(text: &str) {
    write(&format!("{}\n", update(text)));
}

fn update(text: &str) -> Value {
    let update = json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}});
    json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "bench", "update": update}})
}

/// Returns the nanoseconds of the longest write.
fn write_frames(count: usize, size: usize) -> u64 {
    let empty = update("").to_string().len() + 1;
    let frame = format!("{}\n", update(&"x".repeat(size.saturating_sub(empty))));
    let mut longest = 0;
    for _ in 0..count {
        let begun = now();
        write(&frame);
        longest = longest.max(now() - begun);
    }
    longest
}

/// A prompt whose title tells when it was written.
fn prompt(id: usize) -> String {
    let call = json!({"toolCallId": format!("call_{id}"), "title": format!("at={}", now()), "kind": "execute", "rawInput": {"command": "git status"}});
    let option = |id: &str, kind: &str| json!({"optionId": id, "name": id, "kind": kind});
    let options = [option("allow", "allow_once"), option("always", "allow_always"), option("reject", "reject_once")];
    let params = json!({"sessionId": "bench", "toolCall": call, "options": options});
    format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": params}))
}
