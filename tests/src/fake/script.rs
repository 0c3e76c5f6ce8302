//! Steps of a script, as JSON.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One step; see the table in the parent module.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Step {
    Ask(Box<Ask>),
    Await(Value),
    AwaitAll(bool),
    Withdraw(Value),
    Request(Call),
    Notify(Call),
    Update(Map<String, Value>),
    Text(String),
    Frame(Bulk),
    Raw(String),
    RawHex(String),
    Part(String),
    Bytes(Bulk),
    Stderr(Stderr),
    StopReason(String),
    Error(CallError),
    Echo(bool),
    Loop(Loop),
    SleepMs(u64),
    AwaitFile(std::path::PathBuf),
    Hang(bool),
    Exit(i32),
    Signal(i32),
    CloseStdout(bool),
    CloseStderr(bool),
    CloseStdin(bool),
    StopReading(bool),
    ResumeReading(bool),
    Spawn(Spawn),
    Env(String),
    Cwd(bool),
}

/// A permission prompt.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ask {
    /// `Some(Null)` is the id `null`, `None` the next free integer.
    #[serde(default, deserialize_with = "present")]
    pub(super) id: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    pub(super) options: Option<Value>,
    #[serde(default, rename = "toolCall", deserialize_with = "present")]
    pub(super) tool_call: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    pub(super) session: Option<Value>,
    #[serde(default)]
    pub(super) meta: Option<Value>,
    #[serde(default)]
    pub(super) pad_to: Option<usize>,
    #[serde(default)]
    pub(super) raw: Option<String>,
}

/// A request or a notification.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Call {
    #[serde(default, deserialize_with = "present")]
    pub(super) id: Option<Value>,
    pub(super) method: String,
    #[serde(default)]
    pub(super) params: Option<Value>,
}

/// A JSON-RPC error.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CallError {
    pub(super) code: i64,
    pub(super) message: String,
}

/// Many bytes, `chunk` of them a write.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Bulk {
    pub(super) len: usize,
    #[serde(default = "default_chunk")]
    pub(super) chunk: usize,
    #[serde(default)]
    pub(super) newline: bool,
}

/// Output on stderr.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Stderr {
    #[serde(default)]
    pub(super) bytes: usize,
    #[serde(default)]
    pub(super) text: String,
    #[serde(default)]
    pub(super) newline: bool,
}

/// Steps that are repeated.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Loop {
    pub(super) times: usize,
    pub(super) steps: Vec<Step>,
}

/// A child process.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Spawn {
    pub(super) setsid: bool,
    pub(super) double_fork: bool,
    pub(super) clear_env: bool,
    pub(super) hold_stdio: bool,
    pub(super) ignore_sigterm: bool,
    pub(super) rename: Option<String>,
    pub(super) argv: Vec<String>,
    pub(super) calls: Option<Calls>,
    pub(super) sleep_s: Option<u64>,
}

/// Lines that a child writes to a socket, as if it were a client; it logs as many answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Calls {
    pub(super) socket: std::path::PathBuf,
    pub(super) lines: Vec<String>,
}

fn default_chunk() -> usize {
    64 * 1024
}

/// Tells a member that is `null` from one that is absent.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// The steps in the text of a prompt; `None` if it is no JSON array.
pub(super) fn parse(text: &str) -> Option<Result<Vec<Step>, String>> {
    let values = match serde_json::from_str(text) {
        Ok(Value::Array(values)) => values,
        _ => return None,
    };
    let steps = values.into_iter().enumerate();
    Some(steps.map(|(i, value)| serde_json::from_value(value).map_err(|err| format!("step {i}: {err}"))).collect())
}

/// The bytes written as hexadecimal digits.
pub(super) fn hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text.chars().map(|c| c.to_digit(16).and_then(|d| u8::try_from(d).ok())).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(text: &str) -> Vec<Step> {
        parse(text).unwrap().unwrap()
    }

    #[test]
    fn a_text_that_is_no_array_is_no_script() {
        for text in ["hello", "5", "{}", "[", ""] {
            assert!(parse(text).is_none(), "{text}");
        }
        assert!(steps("[]").is_empty());
    }

    #[test]
    fn ids_keep_their_type_and_null_is_told_from_absent() {
        let asks = steps(r#"[{"ask":{"id":5}},{"ask":{"id":"5"}},{"ask":{"id":null}},{"ask":{}}]"#);
        let ids: Vec<_> = asks.iter().map(|s| if let Step::Ask(ask) = s { ask.id.clone() } else { panic!() }).collect();
        assert_eq!(ids, [Some(Value::from(5)), Some(Value::from("5")), Some(Value::Null), None]);
    }

    #[test]
    fn every_step_of_the_table_is_read() {
        let text = r#"[{"ask":{"id":5,"options":[],"toolCall":{},"session":"s","meta":{},"pad_to":500}},{"ask":{"raw":"x"}},{"await":5},{"await_all":true},
          {"withdraw":5},{"request":{"id":"r1","method":"fs/read_text_file","params":{}}},{"notify":{"method":"x"}},{"update":{"sessionUpdate":"x"}},
          {"text":"t"},{"frame":{"len":300,"chunk":1}},{"raw":"x"},{"raw_hex":"ff"},{"bytes":{"len":3,"chunk":1,"newline":false}},
          {"stderr":{"bytes":3,"newline":false}},{"stderr":{"text":"x"}},{"stop_reason":"refusal"},{"error":{"code":-32603,"message":"x"}},
          {"echo":true},{"loop":{"times":2,"steps":[{"text":"x"},{"loop":{"times":1,"steps":[]}}]}},{"sleep_ms":1},{"hang":true},{"exit":2},{"signal":9},
          {"close_stdout":true},{"close_stderr":true},{"close_stdin":true},{"stop_reading":true},{"resume_reading":true},
          {"spawn":{"setsid":true,"double_fork":true,"clear_env":true,"hold_stdio":true,"rename":"x","ignore_sigterm":true,"argv":["true"],"sleep_s":1}},
          {"env":"HOME"},{"cwd":true}]"#;
        assert_eq!(steps(text).len(), 31);
    }

    #[test]
    fn an_unknown_step_or_member_is_an_error_that_names_the_step() {
        assert!(parse(r#"[{"text":"a"},{"nope":1}]"#).unwrap().unwrap_err().contains("step 1"));
        assert!(parse(r#"[{"ask":{"ids":1}}]"#).unwrap().unwrap_err().contains("step 0"));
    }

    #[test]
    fn hex_is_read() {
        assert_eq!(hex("efBB00"), Some(vec![0xef, 0xbb, 0]));
        assert_eq!(hex("e"), None);
        assert_eq!(hex("zz"), None);
    }
}
