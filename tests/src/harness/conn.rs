//! A plain client of the control socket.

use std::collections::{HashMap, VecDeque};
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::WAIT;

/// A connection. Not shared: each thread opens its own.
pub struct Conn {
    reader: BufReader<UnixStream>,
    partial: Vec<u8>,
    next_id: u64,
    answers: HashMap<u64, Reply>,
    /// Events that nobody has asked for yet.
    pub events: VecDeque<Value>,
    /// Answers whose id is `null`.
    pub without_id: VecDeque<Value>,
}

/// The answer to a call.
#[derive(Debug, Clone)]
pub struct Reply(pub Value);

impl Reply {
    /// The result; panics on an error.
    #[track_caller]
    pub fn ok(self) -> Value {
        assert!(self.0.get("error").is_none(), "the call failed: {}", self.0);
        self.0["result"].clone()
    }

    /// The error; panics on a result.
    #[track_caller]
    pub fn error(self) -> Value {
        assert!(self.0.get("error").is_some(), "the call did not fail: {}", self.0);
        self.0["error"].clone()
    }

    /// The stable code of a domain error; `None` for a result.
    pub fn code(&self) -> Option<&str> {
        self.0["error"]["data"]["code"].as_str()
    }
}

impl Conn {
    /// Connects.
    pub fn open(socket: &Path) -> Self {
        Self::try_open(socket).unwrap_or_else(|error| panic!("cannot connect to {}: {error}", socket.display()))
    }

    /// Connects, if that can be done now.
    ///
    /// # Errors
    /// Those of `connect(2)`.
    pub fn try_open(socket: &Path) -> std::io::Result<Self> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(Duration::from_millis(50)))?;
        Ok(Self {
            reader: BufReader::new(stream),
            partial: Vec::new(),
            next_id: 1,
            answers: HashMap::new(),
            events: VecDeque::new(),
            without_id: VecDeque::new(),
        })
    }

    /// Writes raw bytes.
    pub fn write(&mut self, bytes: &[u8]) {
        self.reader.get_mut().write_all(bytes).expect("the daemon reads");
    }

    /// Sends a call without waiting; its number is for [`reply`](Self::reply).
    pub fn send(&mut self, method: &str, params: &Value) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.write(format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).as_bytes());
        id
    }

    /// Waits for the answer to a call.
    #[track_caller]
    pub fn reply(&mut self, id: u64) -> Reply {
        self.receive_until(&format!("the answer to call {id}"), |conn| conn.answers.remove(&id))
    }

    /// The answer to a call, if it has come.
    pub fn try_reply(&mut self, id: u64) -> Option<Reply> {
        self.receive(Instant::now());
        self.answers.remove(&id)
    }

    /// Makes a call and waits for its answer.
    #[track_caller]
    pub fn call(&mut self, method: &str, params: Value) -> Reply {
        let id = self.send(method, &params);
        self.reply(id)
    }

    /// Waits for an answer whose id is `null`.
    #[track_caller]
    pub fn reply_without_id(&mut self) -> Value {
        self.receive_until("an answer without id", |conn| conn.without_id.pop_front())
    }

    /// Subscribes to the usual topics, or to those of `params`.
    #[track_caller]
    pub fn subscribe(&mut self, params: Value) -> u64 {
        self.call("event/subscribe", params).ok()["seq"].as_u64().expect("a seq")
    }

    /// Waits for an event that `is_it`; earlier ones are dropped.
    #[track_caller]
    pub fn event(&mut self, waiting_for: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        self.receive_until(&format!("the event {waiting_for}"), |conn| {
            while let Some(event) = conn.events.pop_front() {
                if is_it(&event) {
                    return Some(event);
                }
            }
            None
        })
    }

    /// Waits for an event of this type; earlier ones are dropped.
    #[track_caller]
    pub fn event_of_type(&mut self, event_type: &str) -> Value {
        self.event(event_type, |event| event["type"] == event_type)
    }

    /// Starts an agent with these params of `execution/start`; returns its result.
    #[track_caller]
    pub fn start(&mut self, params: Value) -> Value {
        self.call("execution/start", params).ok()
    }

    /// The live requests of a session.
    #[track_caller]
    pub fn permissions(&mut self, task: &str, session: &str) -> Vec<Value> {
        let result = self.call("permission/list", json!({"task_id": task, "session_id": session})).ok();
        let list = result["permissions"].as_array().expect("a list").clone();
        assert_eq!(result["total"], list.len());
        list
    }

    /// Waits until exactly `n` requests of a session are live.
    #[track_caller]
    pub fn await_permissions(&mut self, task: &str, session: &str, n: usize) -> Vec<Value> {
        super::until(&format!("{n} live requests"), || Some(self.permissions(task, session)).filter(|list| list.len() == n))
    }

    /// Resolves a listed request with one of its options.
    #[track_caller]
    pub fn resolve(&mut self, permission: &Value, option_id: &str) -> Reply {
        let params = resolve_params(permission, option_id);
        self.call("permission/resolve", params)
    }

    /// The audit record of a request, once it has ended.
    #[track_caller]
    pub fn audit_of(&mut self, request_id: &Value) -> Value {
        super::until("the end of a request in the audit", || {
            let records = self.call("audit/list", json!({"request_id": request_id})).ok()["records"].clone();
            records.get(0).filter(|record| !record["end"].is_null()).cloned()
        })
    }

    /// Whether the daemon has closed the connection.
    pub fn is_closed(&mut self) -> bool {
        matches!(self.reader.fill_buf(), Ok(bytes) if bytes.is_empty())
    }

    #[track_caller]
    fn receive_until<T>(&mut self, waiting_for: &str, mut found: impl FnMut(&mut Self) -> Option<T>) -> T {
        let deadline = Instant::now() + WAIT;
        loop {
            if let Some(value) = found(self) {
                return value;
            }
            assert!(Instant::now() < deadline, "waited {WAIT:?} for {waiting_for}");
            assert!(self.receive(Instant::now() + Duration::from_millis(50)), "the daemon closed the connection before {waiting_for}");
        }
    }

    /// Takes in what has come by then, at least one line if there is one; false at the end of the connection.
    fn receive(&mut self, by: Instant) -> bool {
        loop {
            match self.reader.read_until(b'\n', &mut self.partial) {
                Ok(0) => return false,
                Ok(_) if self.partial.last() == Some(&b'\n') => {
                    let line = std::mem::take(&mut self.partial);
                    let value: Value = serde_json::from_slice(&line).unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&line)));
                    self.sort(value);
                    return true;
                }
                Ok(_) => return false,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    if Instant::now() >= by {
                        return true;
                    }
                }
                Err(_) => return false,
            }
        }
    }

    fn sort(&mut self, value: Value) {
        assert_eq!(value["jsonrpc"], "2.0", "{value}");
        if value["method"] == "event" {
            self.events.push_back(value["params"].clone());
        } else if let Some(id) = value["id"].as_u64() {
            assert!(self.answers.insert(id, Reply(value)).is_none(), "call {id} was answered twice");
        } else {
            self.without_id.push_back(value);
        }
    }
}

/// The params that resolve a listed request.
pub fn resolve_params(permission: &Value, option_id: &str) -> Value {
    let mut params = identity(permission);
    params["option_id"] = option_id.into();
    params
}

/// The four strings that name a listed request.
pub fn identity(permission: &Value) -> Value {
    json!({
        "task_id": permission["task_id"],
        "session_id": permission["session_id"],
        "request_id": permission["request_id"],
        "pending_id": permission["pending_id"],
    })
}
