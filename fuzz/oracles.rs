//! What must hold for any bytes: one function for each fuzz target. The targets call them with what the fuzzer makes, the
//! test `fuzz_seeds` with the seeds.

use acp_bridge::envelope::{self, Message};
use acp_bridge::frame::{Line, LineReader};
use acp_bridge::presentation::{MAX_PATHS, MAX_SHOWN, Redactor, is_hidden, present};
use acp_bridge::prompt::{MAX_ID_BYTES, MAX_OPTION_ID_BYTES, MAX_OPTIONS, Prompt, ToolCall};
use agentctl::wire::rpc::{self, Incoming};
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// A value that the redactor is told of; no input of the fuzzer can show it.
const KNOWN: &str = "canary-0f1e2d3c4b5a6978";

/// However the stream is cut into chunks, the lines are those of a plain split at newlines, those over the cap by length only.
pub fn frame(data: &[u8]) {
    let Some((&sizes, stream)) = data.split_first() else { return };
    let cap = usize::from(sizes >> 4);
    let mut expected: Vec<Result<Vec<u8>, u64>> =
        stream.split(|b| *b == b'\n').map(|line| if line.len() > cap { Err(line.len() as u64) } else { Ok(line.to_vec()) }).collect();
    let rest = expected.pop().is_some_and(|rest| rest != Ok(Vec::new()));
    for size in [1, usize::from(sizes & 15) + 2, stream.len().max(1)] {
        let mut reader = LineReader::new(cap);
        let mut found = Vec::new();
        for chunk in stream.chunks(size) {
            reader.feed(chunk, |line| {
                found.push(match line {
                    Line::Whole(line) => Ok(line.to_vec()),
                    Line::TooLong { bytes } => Err(bytes),
                });
            });
        }
        assert_eq!(found, expected, "chunks of {size}");
        assert_eq!(reader.is_within_line(), rest, "chunks of {size}");
    }
}

/// What is taken for a message is the object that a common JSON parser reads, member by member.
pub fn envelope(line: &[u8]) {
    if line.contains(&b'\n') {
        return;
    }
    let Ok(message) = envelope::peek(line) else { return };
    let Some(value) = value(line) else { return };
    let same = |raw: &RawValue, name: &str| assert_eq!(serde_json::from_str::<Value>(raw.get()).ok().as_ref(), value.get(name), "{name}");
    let params = |raw: Option<&RawValue>| match raw {
        Some(raw) => same(raw, "params"),
        None => assert!(value.get("params").is_none()),
    };
    match message {
        Message::Request { id, method, params: raw } => {
            assert_eq!(value["method"], *method);
            assert_eq!(serde_json::from_str::<Value>(id.raw()).unwrap(), value["id"]);
            params(raw);
        }
        Message::Notification { method, params: raw } => {
            assert_eq!(value["method"], *method);
            assert!(value.get("id").is_none());
            params(raw);
        }
        Message::Response { id, outcome } => {
            assert_eq!(serde_json::from_str::<Value>(id.raw()).unwrap(), value["id"]);
            assert!(value.get("method").is_none() && (value.get("result").is_some() != value.get("error").is_some()));
            match outcome {
                Ok(raw) => same(raw, "result"),
                Err(raw) => same(raw, "error"),
            }
        }
    }
}

/// A prompt that is read has its bounds, and its ids are those of the JSON, unchanged and each selectable once.
pub fn prompt(data: &[u8]) {
    let Some(raw) = raw(data) else { return };
    let Ok(prompt) = Prompt::read(Some(raw)) else { return };
    assert!(prompt.options.len() <= MAX_OPTIONS);
    assert!(prompt.tool_call.id.as_ref().is_none_or(|id| id.len() <= MAX_ID_BYTES));
    let mut selectable = std::collections::HashSet::new();
    for option in &prompt.options {
        assert!(option.id.len() <= MAX_OPTION_ID_BYTES);
        assert!(!option.selectable || selectable.insert(&option.id), "an id that two options have can't be selected");
    }
    let Some(value) = value(raw.get().as_bytes()) else { return };
    let sent: Vec<&Value> = value["options"].as_array().into_iter().flatten().map(|option| &option["optionId"]).collect();
    assert!(prompt.options.iter().filter(|option| option.selectable).all(|option| sent.contains(&&json!(option.id))));
}

/// What is shown is bounded, holds no known value, keeps the ids of options, and is the same whether the tool call was told
/// in the prompt or before.
pub fn projection(data: &[u8]) {
    let redactor = Redactor::new([("A_TOKEN", KNOWN)]);
    let text = String::from_utf8_lossy(data).replace('\u{1}', KNOWN);
    let Ok(raw) = serde_json::from_str::<&RawValue>(&text) else { return };
    let Ok(prompt) = Prompt::read(Some(raw)) else { return };
    let mut thin = prompt.clone();
    let earlier: ToolCall = std::mem::replace(&mut thin.tool_call, ToolCall { id: prompt.tool_call.id.clone(), ..ToolCall::default() });
    for (prompt, earlier) in [(&prompt, None), (&thin, Some(&earlier))] {
        let view = present(prompt, earlier, &redactor);
        let action = serde_json::to_value(&view.action).expect("an action is JSON");
        for (name, value) in action.as_object().expect("an action is an object") {
            let texts: Vec<&str> =
                value.as_str().into_iter().chain(value.as_array().into_iter().flatten().filter_map(Value::as_str)).collect();
            assert!(texts.iter().all(|text| text.len() <= MAX_SHOWN && !text.contains(KNOWN)), "{name}: {texts:?}");
        }
        assert!(view.action.paths.len() <= MAX_PATHS);
        assert!(view.title.len() <= MAX_SHOWN && !view.title.contains(KNOWN));
        assert_eq!(view.options.len(), prompt.options.len());
        for (shown, sent) in view.options.iter().zip(&prompt.options) {
            assert_eq!((&shown.option_id, shown.selectable), (&sent.id, sent.selectable));
            assert!(shown.name.len() <= MAX_SHOWN && !shown.name.contains(KNOWN));
        }
    }
}

/// A redacted text stays as it is when it is redacted again, is bounded, and holds no known value.
pub fn redactor(data: &[u8]) {
    let redactor = Redactor::new([("A_TOKEN", KNOWN)]);
    let text = String::from_utf8_lossy(data).replace('\u{1}', KNOWN);
    let once = redactor.text(&text);
    assert!(once.text.len() <= MAX_SHOWN && !once.text.contains(KNOWN));
    assert!(once.redacted || text.starts_with(&once.text));
    let twice = redactor.text(&once.text);
    assert_eq!((&twice.text, twice.redacted), (&once.text, false));
    let long = redactor.long_text(&text);
    assert!(!long.contains(KNOWN));
    assert_eq!(redactor.long_text(&long), long);
    if let Some(once) = redactor.command(&text) {
        assert!(once.text.len() <= MAX_SHOWN && !once.text.contains(KNOWN));
        if once.full_length.is_none() {
            assert_eq!(redactor.command(&once.text).map(|again| again.text), Some(once.text));
        }
    }
    let document = redactor.document(&text, &str::to_owned);
    assert!(!document.contains(KNOWN));
    if let Ok(before) = serde_json::from_str::<Value>(&text) {
        let after: Value = serde_json::from_str(&document).expect("a document stays one");
        assert!(before.is_string() || std::mem::discriminant(&before) == std::mem::discriminant(&after) || after.is_string());
    }
}

/// A line of a client is a call, blank, or gets one error; whatever is answered is one line of JSON with the caller's id,
/// without a character that a terminal would act on.
pub fn control(line: &[u8]) {
    if line.contains(&b'\n') {
        return;
    }
    let (id, outcome) = match rpc::parse(line) {
        Incoming::Nothing => return assert!(line.iter().all(|b| b.is_ascii_whitespace())),
        Incoming::Wrong(failure) => (None, Err(failure)),
        Incoming::Call(call) => {
            let Some(value) = value(line) else { return };
            assert_eq!(value["method"], call.method);
            assert_eq!(value.get("id").is_some(), call.id.is_some());
            let Some(id) = call.id else { return };
            // The most hostile result: the caller's own words.
            (Some(id), Ok(call.params.unwrap_or_else(|| RawValue::NULL.to_owned())))
        }
    };
    let answer = rpc::response_line(id.as_ref(), &outcome);
    let text = std::str::from_utf8(&answer).expect("an answer is UTF-8").strip_suffix('\n').expect("an answer ends its line");
    assert!(!text.chars().any(is_hidden), "{text:?}");
    let Some(value) = value(text.as_bytes()) else { return };
    let sent = id.map_or(Value::Null, |id| serde_json::from_str(id.raw()).expect("an id is JSON"));
    assert_eq!((&value["jsonrpc"], &value["id"]), (&json!("2.0"), &sent));
    assert!(value.get("result").is_some() != value.get("error").is_some());
}

/// What must be JSON; `None` if a number in it is out of the range that a `Value` can hold.
fn value(text: &[u8]) -> Option<Value> {
    serde_json::from_slice::<&RawValue>(text).expect("this is JSON");
    serde_json::from_slice(text).ok()
}

fn raw(data: &[u8]) -> Option<&RawValue> {
    serde_json::from_str(std::str::from_utf8(data).ok()?).ok()
}
