//! Both ends of a proxied execution in the hands of a test: the editor's, and the agent's.

use std::ffi::CString;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nix::sys::stat::Mode;
use serde_json::Value;

use super::daemon::Daemon;
use super::{WAIT, until};

/// An `agentctl proxy` whose editor is the test, and whose agent does nothing but pass bytes to and from the test.
pub struct Proxied {
    /// The proxy's process.
    pub proxy: Child,
    /// Its session.
    pub session: String,
    /// The editor's writing end.
    pub to_agent: Option<ChildStdin>,
    /// The agent's writing end.
    pub to_editor: Option<File>,
    /// What the editor gets.
    pub editor: Lines,
    /// What the agent gets.
    pub agent: Lines,
    /// What the proxy wrote on stderr.
    pub stderr: PathBuf,
}

/// The lines that come out of an end, with their newlines.
pub struct Lines {
    lines: Receiver<Vec<u8>>,
    /// Held while nothing is to be read.
    reads: Arc<Mutex<()>>,
}

impl Lines {
    /// Reads them in a thread, so that the writer never waits.
    pub fn of(from: impl Read + Send + 'static) -> Self {
        let (sender, lines) = channel();
        let reads = Arc::new(Mutex::new(()));
        let may_read = reads.clone();
        std::thread::spawn(move || {
            let mut from = BufReader::with_capacity(1 << 16, from);
            let mut line = Vec::new();
            while from.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
                drop(may_read.lock());
                if sender.send(std::mem::take(&mut line)).is_err() {
                    return;
                }
            }
        });
        Self { lines, reads }
    }

    /// While this is locked only what is already in memory is read.
    pub fn reads(&self) -> Arc<Mutex<()>> {
        self.reads.clone()
    }

    /// The next line; `None` at the end.
    #[track_caller]
    pub fn try_next(&self) -> Option<Vec<u8>> {
        match self.lines.recv_timeout(WAIT) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("waited {WAIT:?} for a line"),
        }
    }

    /// The next line as text, without its newline.
    #[track_caller]
    pub fn text(&self) -> String {
        let line = self.try_next().expect("a line, but it is the end");
        String::from_utf8_lossy(&line).trim_end_matches('\n').to_owned()
    }

    /// The next line as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        let text = self.text();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// Whether nothing comes for a moment. For what must not come: a wrong version may still pass, a right one never fails.
    pub fn is_quiet(&self) -> bool {
        matches!(self.lines.recv_timeout(Duration::from_millis(30)), Err(RecvTimeoutError::Timeout))
    }
}

impl Proxied {
    /// Starts one for a session, with further arguments of `proxy`.
    pub fn start(daemon: &Daemon, session: &str, args: &[&str]) -> Self {
        let fifo = |name: &str| {
            let path = daemon.folder().join(format!("{session}.{name}"));
            let text = CString::new(path.to_string_lossy().into_owned()).expect("no NUL");
            nix::unistd::mkfifo(text.as_c_str(), Mode::S_IRWXU).expect("a fifo");
            path
        };
        let (out, into) = (fifo("out"), fifo("in"));
        let stderr = daemon.folder().join(format!("{session}.stderr"));
        let mut command = daemon.command(&["proxy", "--task", "t", "--session", session]);
        command.args(args).args(["--", "sh", "-c", "cat < \"$1\" & cat > \"$2\"; wait", "sh"]).args([&out, &into]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(File::create(&stderr).expect("a file"));
        let mut proxy = command.spawn().expect("agentctl starts");
        let to_agent = proxy.stdin.take();
        let editor = Lines::of(proxy.stdout.take().expect("stdout"));
        let to_editor = Some(File::options().write(true).open(out).expect("the agent's stdout"));
        let agent = Lines::of(File::open(into).expect("the agent's stdin"));
        Self { proxy, session: session.to_owned(), to_agent, to_editor, editor, agent, stderr }
    }

    /// The editor writes a line.
    pub fn editor_sends(&mut self, line: &str) {
        self.to_agent.as_mut().expect("stdin is open").write_all(format!("{line}\n").as_bytes()).expect("the proxy reads");
    }

    /// The agent writes a line.
    pub fn agent_sends(&mut self, line: &str) {
        self.to_editor.as_mut().expect("stdout is open").write_all(format!("{line}\n").as_bytes()).expect("the daemon reads");
    }

    /// The editor writes a line, which the agent gets as it is.
    #[track_caller]
    pub fn to_agent(&mut self, line: &str) {
        self.editor_sends(line);
        assert_eq!(self.agent.text(), line);
    }

    /// The agent writes a line, which the editor gets as it is.
    #[track_caller]
    pub fn to_editor(&mut self, line: &str) {
        self.agent_sends(line);
        assert_eq!(self.editor.text(), line);
    }

    /// Opens the acp session `a` and starts a turn in it.
    pub fn begin(&mut self) {
        self.to_agent(r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}"#);
        self.to_editor(r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1,"agentInfo":{"name":"fifo","version":"1"}}}"#);
        self.to_agent(r#"{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/","mcpServers":[]}}"#);
        self.to_editor(r#"{"jsonrpc":"2.0","id":1,"result":{"sessionId":"a"}}"#);
        self.to_agent(r#"{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":"a","prompt":[]}}"#);
    }

    /// Waits until the proxy has said this on its stderr.
    #[track_caller]
    pub fn says(&self, text: &str) {
        super::until(&format!("{text:?} on stderr"), || std::fs::read_to_string(&self.stderr).ok()?.contains(text).then_some(()));
    }

    /// Both write nothing more; waits for the proxy's end.
    #[track_caller]
    pub fn end(mut self) -> ExitStatus {
        drop((self.to_agent.take(), self.to_editor.take()));
        until("the proxy's end", || self.proxy.try_wait().ok().flatten())
    }
}

impl Drop for Proxied {
    fn drop(&mut self) {
        let _ = self.proxy.kill();
        let _ = self.proxy.wait();
    }
}

/// A permission prompt of the agent in the acp session `a`, with the options `yes` and `no`.
pub fn ask(id: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"session/request_permission","params":{{"sessionId":"a","toolCall":{{"toolCallId":"c"}},"options":[{{"optionId":"yes","name":"Yes","kind":"allow_once"}},{{"optionId":"no","name":"No","kind":"reject_once"}}]}}}}"#
    )
}

/// An editor's answer to a prompt: no two look alike to us.
pub fn answer(id: &str, option: &str) -> String {
    format!(
        r#"{{"id":{id}, "result":{{"_meta":{{"n":1.50e1}},"outcome":{{"optionId":"{option}","outcome":"selected"}}}},"jsonrpc":"2.0"}}"#
    )
}

/// A command whose stdio are pipes and whose descriptors are the test's.
pub fn piped(command: &mut Command) -> Child {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
}
