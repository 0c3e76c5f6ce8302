//! Every committed fixture is played by its own recorded client, and by one that behaves as our headless client does.

#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, PipeReader, PipeWriter, Write};
use std::path::Path;

use acp_bridge::fixture::{self, EntryKind, Event, ExitStatus, Fixture, Message, Side};

/// One play on a thread of its own, and the client's ends.
struct Played {
    to_agent: Option<PipeWriter>,
    from_agent: BufReader<PipeReader>,
    end: std::thread::JoinHandle<Result<fixture::End, fixture::Failure>>,
}

impl Played {
    fn start(fixture: &Fixture) -> Self {
        let (agent_in, to_agent) = std::io::pipe().unwrap();
        let (from_agent, agent_out) = std::io::pipe().unwrap();
        let fixture = fixture.clone();
        let end = std::thread::spawn(move || fixture::play(&fixture, BufReader::new(agent_in), agent_out, || Ok(())));
        Self { to_agent: Some(to_agent), from_agent: BufReader::new(from_agent), end }
    }

    fn send(&mut self, line: &str) {
        self.to_agent.as_mut().unwrap().write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    fn recv(&mut self) -> String {
        let mut line = String::new();
        self.from_agent.read_line(&mut line).unwrap();
        line.trim_end_matches('\n').to_owned()
    }

    /// Closes the agent's stdin; what else it said and how it ended.
    fn end(mut self) -> (Vec<String>, Result<fixture::End, fixture::Failure>) {
        drop(self.to_agent.take());
        let rest = self.from_agent.lines().map(Result::unwrap).collect();
        (rest, self.end.join().unwrap())
    }
}

fn committed() -> Vec<Fixture> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures");
    let paths = fixture::files(&folder).unwrap();
    assert!(paths.len() >= 100, "{} fixtures", paths.len());
    paths.iter().map(|path| Fixture::read(path).unwrap()).collect()
}

fn expected_end(fixture: &Fixture) -> fixture::End {
    let killed = fixture.entries.iter().find_map(|entry| match entry.kind {
        EntryKind::Event(Event::Killed { signal, .. }) => Some(signal),
        _ => None,
    });
    match (fixture.entries.last().map(|entry| &entry.kind), killed) {
        (Some(EntryKind::Event(Event::Exited(status))), None) => fixture::End::Exits(*status),
        // It handled the signal.
        (Some(EntryKind::Event(Event::Exited(ExitStatus::Code(code)))), Some(signal)) => fixture::End::ExitsOn { signal, code: *code },
        _ => fixture::End::Stays,
    }
}

#[test]
fn every_fixture_is_complete_and_says_who_made_it() {
    for fixture in committed() {
        assert!(!fixture.cut, "{:?}", fixture.path);
        assert!(!fixture.header.agent.name.is_empty() && !fixture.header.agent.version.is_empty());
        let file = fixture.path.file_stem().unwrap().to_str().unwrap();
        let folder = fixture.path.parent().unwrap().file_name().unwrap().to_str().unwrap();
        // What agentctl records is named as its file.
        let name = if folder == "recorded" { file.to_owned() } else { format!("{folder}-{file}") };
        assert_eq!(fixture.header.name, name);
    }
}

#[test]
fn the_recorded_client_gets_the_recorded_frames() {
    for fixture in committed() {
        let mut played = Played::start(&fixture);
        for entry in &fixture.entries {
            match &entry.kind {
                EntryKind::Frame(Side::Client, frame) => played.send(frame.get()),
                EntryKind::Frame(Side::Agent, frame) => assert_eq!(played.recv(), frame.get(), "{:?}", fixture.path),
                EntryKind::Line(Side::Client, line) => played.send(line),
                EntryKind::Line(Side::Agent, line) => assert_eq!(&played.recv(), line),
                EntryKind::Event(Event::StdinClosed) => drop(played.to_agent.take()),
                EntryKind::Event(_) => {}
            }
        }
        let (rest, end) = played.end();
        assert!(rest.is_empty(), "{:?}: {rest:?}", fixture.path);
        assert_eq!(end.unwrap(), expected_end(&fixture), "{:?}", fixture.path);
    }
}

/// It has string ids, answers `cancelled` before it cancels, cancels live prompts before it closes stdin.
#[test]
fn our_kind_of_client_gets_the_recorded_frames_with_its_own_ids() {
    for fixture in committed() {
        let mut played = Played::start(&fixture);
        let mut answered: Vec<String> = Vec::new();
        let mut live: Vec<String> = Vec::new();
        let cancel = |played: &mut Played, live: &mut Vec<String>, answered: &mut Vec<String>| {
            for id in live.drain(..) {
                played.send(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"outcome":{{"outcome":"cancelled"}}}}}}"#));
                answered.push(id);
            }
        };
        for entry in &fixture.entries {
            match &entry.kind {
                EntryKind::Frame(Side::Client, frame) => match Message::read(frame.get()).unwrap() {
                    Message::Request { id, method } => {
                        let (id, method) = (id.raw(), serde_json::Value::from(method));
                        played.send(&format!(r#"{{"id":"live-{id}","method":{method},"jsonrpc":"2.0"}}"#));
                    }
                    Message::Notification { .. } => {
                        let recorded_first = frame.get().contains("session/cancel");
                        if recorded_first {
                            cancel(&mut played, &mut live, &mut answered);
                        }
                        played.send(frame.get());
                    }
                    Message::Response { id } => {
                        if !answered.iter().any(|other| other == id.raw()) {
                            live.retain(|other| other != id.raw());
                            answered.push(id.raw().to_owned());
                            played.send(frame.get());
                        }
                    }
                },
                EntryKind::Frame(Side::Agent, frame) => {
                    let expected = match Message::read(frame.get()) {
                        Some(Message::Request { id, .. }) => {
                            live.push(id.raw().to_owned());
                            frame.get().to_owned()
                        }
                        Some(Message::Response { id }) => {
                            frame.get().replacen(&format!("\"id\":{}", id.raw()), &format!("\"id\":\"live-{}\"", id.raw()), 1)
                        }
                        _ => frame.get().to_owned(),
                    };
                    assert_eq!(played.recv(), expected, "{:?}", fixture.path);
                }
                EntryKind::Event(Event::StdinClosed) if played.to_agent.is_some() => {
                    cancel(&mut played, &mut live, &mut answered);
                    drop(played.to_agent.take());
                }
                _ => {}
            }
        }
        let (rest, end) = played.end();
        assert!(rest.is_empty(), "{:?}: {rest:?}", fixture.path);
        assert_eq!(end.unwrap(), expected_end(&fixture), "{:?}", fixture.path);
    }
}

fn small(lines: &[&str]) -> Fixture {
    let header = r#"{"fixture":1,"name":"n","agent":{"name":"a","version":"1"},"protocol_version":1}"#;
    let text: String = std::iter::once(&header).chain(lines).map(|line| format!("{line}\n")).collect();
    Fixture::parse(Path::new("small.jsonl"), &text).unwrap()
}

const ASK: &str = r#"{"at_ms":1,"from":"agent","frame":{"jsonrpc":"2.0","id":0,"method":"session/request_permission","params":{}}}"#;
const ALLOW: &str = r#"{"jsonrpc":"2.0","id":0,"result":{"outcome":{"outcome":"selected","optionId":"allow"}}}"#;
const REJECT: &str = r#"{"jsonrpc":"2.0","id":0,"result":{"outcome":{"outcome":"selected","optionId":"reject"}}}"#;

fn client(frame: &str) -> String {
    format!(r#"{{"at_ms":2,"from":"client","frame":{frame}}}"#)
}

fn agent(frame: &str) -> String {
    format!(r#"{{"at_ms":3,"from":"agent","frame":{frame}}}"#)
}

#[test]
fn another_answer_ends_the_play_and_both_frames_are_named() {
    for other in [
        REJECT,
        r#"{"jsonrpc":"2.0","id":0,"result":{"outcome":{"outcome":"cancelled"}}}"#,
        r#"{"jsonrpc":"2.0","id":0,"error":{"code":-32800,"message":"x"}}"#,
    ] {
        let mut played = Played::start(&small(&[ASK, &client(ALLOW), &agent(r#"{"jsonrpc":"2.0","method":"x"}"#)]));
        played.recv();
        played.send(other);
        let (rest, end) = played.end();
        assert!(rest.is_empty());
        let message = end.unwrap_err().to_string();
        assert!(message.contains(ALLOW) && message.contains(other) && message.contains("small.jsonl:3"), "{message}");
    }
}

#[test]
fn a_second_answer_and_a_line_that_is_no_message_end_the_play() {
    for (second, expected) in [(ALLOW, "answers one request twice"), ("[1]", "no JSON-RPC message")] {
        let mut played = Played::start(&small(&[ASK, &client(ALLOW)]));
        played.recv();
        played.send(ALLOW);
        played.send(second);
        let message = played.end().1.unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn a_missing_entry_ends_the_play_at_the_end_of_stdin() {
    let mut played = Played::start(&small(&[ASK, &client(ALLOW), r#"{"at_ms":4,"event":"exited","status":{"code":0}}"#]));
    played.recv();
    let wrong_type = r#"{"jsonrpc":"2.0","id":"0","result":{"outcome":{"outcome":"selected","optionId":"allow"}}}"#;
    played.send(wrong_type);
    let message = played.end().1.unwrap_err().to_string();
    assert!(message.contains("small.jsonl:3") && message.contains(ALLOW) && message.contains(wrong_type), "{message}");
}

#[test]
fn an_unknown_request_is_refused_and_unknown_answers_and_notifications_are_taken() {
    let mut played =
        Played::start(&small(&[&client(r#"{"jsonrpc":"2.0","id":1,"method":"a"}"#), &agent(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#)]));
    played.send(r#"{"jsonrpc":"2.0","id":9,"result":{}}"#);
    played.send(r#"{"jsonrpc":"2.0","method":"session/cancel"}"#);
    played.send(r#"{"jsonrpc":"2.0","id":"u","method":"b\"c"}"#);
    let refused = played.recv();
    assert!(refused.starts_with(r#"{"jsonrpc":"2.0","id":"u","error":{"code":-32601,"#) && refused.contains(r#"b\"c"#), "{refused}");
    played.send(r#"{"jsonrpc":"2.0","id":7,"method":"a"}"#);
    assert_eq!(played.recv(), r#"{"jsonrpc":"2.0","id":7,"result":{}}"#);
    played.send(r#"{"jsonrpc":"2.0","id":8,"method":"a"}"#);
    assert!(played.recv().contains("-32601"));
    assert_eq!(played.end().1.unwrap(), fixture::End::Stays);
}

#[test]
fn nothing_is_sent_before_all_client_entries_of_the_set_have_come() {
    let fixture = small(&[
        r#"{"at_ms":0,"from":"agent","line":"hello, \u001b[1mI am no JSON"}"#,
        &client(r#"{"jsonrpc":"2.0","id":1,"method":"a"}"#),
        &client(r#"{"jsonrpc":"2.0","id":2,"method":"b"}"#),
        &agent(r#"{"jsonrpc":"2.0","id":1,"result":1}"#),
        &client(r#"{"jsonrpc":"2.0","method":"c"}"#),
        &agent(r#"{"jsonrpc":"2.0","id":2,"result":2}"#),
        r#"{"at_ms":4,"event":"exited","status":{"code":3}}"#,
    ]);
    let mut play = fixture::Play::new(&fixture);
    let sent = |acts: Vec<fixture::Act>| format!("{acts:?}");
    assert!(sent(play.start()).contains("hello, \\u{1b}[1mI am no JSON"));
    assert!(play.line(br#"{"jsonrpc":"2.0","method":"c"}"#).unwrap().is_empty(), "one may come early");
    assert!(play.line(br#"{"jsonrpc":"2.0","id":"x","method":"b"}"#).unwrap().is_empty(), "a set has no order");
    assert_eq!(play.end(), None);
    let acts = play.line(br#"{"jsonrpc":"2.0","id":"y","method":"a"}"#).unwrap();
    let lines = [r#"{"jsonrpc":"2.0","id":"y","result":1}"#, r#"{"jsonrpc":"2.0","id":"x","result":2}"#];
    assert_eq!(acts, lines.map(|line| fixture::Act::Send(line.to_owned())));
    assert_eq!(play.end(), Some(fixture::End::Exits(ExitStatus::Code(3))));
}

#[test]
fn a_reused_id_has_one_answer_for_each_time_it_was_sent_at_most() {
    let fixture = small(&[ASK, ASK, &client(ALLOW), &agent(r#"{"jsonrpc":"2.0","method":"x"}"#)]);
    let mut play = fixture::Play::new(&fixture);
    assert_eq!(play.start().len(), 2);
    assert_eq!(play.line(ALLOW.as_bytes()).unwrap().len(), 1);
}

#[test]
fn a_recorded_stdin_closed_is_waited_for() {
    let fixture = small(&[ASK, r#"{"at_ms":4,"event":"stdin_closed"}"#, &agent(r#"{"jsonrpc":"2.0","method":"bye"}"#)]);
    let mut play = fixture::Play::new(&fixture);
    assert_eq!(play.start().len(), 1);
    assert!(play.line(REJECT.as_bytes()).unwrap().is_empty(), "a live answer that the recording lacks");
    assert_eq!(play.stdin_closed().unwrap().len(), 1);
    assert_eq!(play.end(), Some(fixture::End::Stays), "no end was recorded");
}

/// What real agents and their clients say in ordinary work holds no secret: nothing of it may be changed.
#[test]
fn redaction_changes_no_recorded_frame() {
    let redactor = acp_bridge::presentation::Redactor::default();
    let mut changed = Vec::new();
    for path in fixture::files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures")).unwrap() {
        for entry in Fixture::read(&path).unwrap().entries {
            if let EntryKind::Frame(_, frame) = entry.kind {
                let out = redactor.document(frame.get(), &str::to_owned);
                if out != frame.get() {
                    changed.push(format!("{}\n  {}\n  {out}", path.display(), frame.get()));
                }
            }
        }
    }
    assert!(changed.is_empty(), "{}", changed.join("\n"));
}
