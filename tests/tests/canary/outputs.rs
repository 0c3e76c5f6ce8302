//! What left the processes under test, by name.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use agentctl_tests::harness::{Conn, Daemon, agentctl, until};
use serde_json::Value;

use super::corpus::{Corpus, mark};

/// Outputs by name.
#[derive(Default)]
pub struct Outputs(BTreeMap<String, Vec<u8>>);

impl Outputs {
    /// Adds to an output.
    pub fn add(&mut self, name: &str, bytes: &[u8]) {
        self.0.entry(name.to_owned()).or_default().extend([bytes, b"\n"].concat());
    }

    /// Adds what a finished command wrote.
    pub fn command(&mut self, name: &str, output: &Output) {
        self.add(name, &[&output.stdout[..], b"\n", &output.stderr].concat());
    }

    /// Runs a command of the daemon's, as text and as JSON, to its end.
    pub fn run(&mut self, daemon: &Daemon, name: &str, args: &[&str]) {
        for (suffix, json) in [("", None), (" --json", Some("--json"))] {
            let output = daemon.command(args).args(json).output().expect("it runs");
            self.command(&format!("{name}{suffix}"), &output);
        }
    }

    /// Adds the answer to a call, whatever it is.
    #[track_caller]
    pub fn call(&mut self, conn: &mut Conn, name: &str, method: &str, params: Value) -> Value {
        let reply = conn.call(method, params).0;
        self.add(name, reply.to_string().as_bytes());
        reply
    }

    /// Adds every file below a folder.
    pub fn files(&mut self, name: &str, folder: &Path) {
        for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
            let name = format!("{name}/{}", entry.file_name().display());
            if entry.file_type().is_ok_and(|kind| kind.is_file()) {
                self.add(&name, &std::fs::read(entry.path()).expect("a file"));
            }
        }
    }

    /// Whether what is named was written with what stands beside the secrets of a place.
    fn reached(&self, output: &str, place: &str) -> bool {
        let (bytes, mark) = (&self.0.get(output).unwrap_or_else(|| panic!("there is no output {output:?}"))[..], mark(place));
        bytes.windows(mark.len()).any(|window| window == mark.as_bytes())
    }

    /// Every secret that is in an output.
    pub fn leaks(&self, corpus: &Corpus) -> Vec<String> {
        let of = |(output, bytes): (&String, &Vec<u8>)| {
            corpus.found(bytes).into_iter().map(|secret| format!("{output}: {secret}")).collect::<Vec<_>>()
        };
        self.0.iter().flat_map(of).collect()
    }

    /// Panics if a secret is in any output, or if a place did not reach where it must.
    pub fn check(&self, corpus: &Corpus, reach: &[(&str, &[&str])]) {
        let leaks = self.leaks(corpus);
        assert!(leaks.is_empty(), "{} leaks:\n{}", leaks.len(), leaks[..leaks.len().min(60)].join("\n"));
        let missing = reach.iter().flat_map(|(place, outputs)| outputs.iter().map(move |output| (*output, *place)));
        let missing: Vec<_> = missing.filter(|(output, place)| !self.reached(output, place)).collect();
        assert!(missing.is_empty(), "nothing of these places is in these outputs, so nothing was shown: {missing:?}");
        let bytes: usize = self.0.values().map(Vec::len).sum();
        println!("{} outputs, {bytes} bytes", self.0.len());
    }
}

/// A command that goes on, and the file that it writes into.
pub struct Follower(Child, std::path::PathBuf, String);

impl Follower {
    /// Starts one.
    pub fn start(daemon: &Daemon, name: &str, args: &[&str]) -> Self {
        let path = daemon.folder().join(name.replace(' ', "_"));
        let file = std::fs::File::create(&path).expect("a file");
        let both = file.try_clone().expect("a file");
        let child = daemon.command(args).stdout(file).stderr(both).spawn().expect("it runs");
        Self(child, path, name.to_owned())
    }

    /// Whether it has written this.
    pub fn has(&self, text: &str) -> bool {
        std::fs::read(&self.1).is_ok_and(|bytes| bytes.windows(text.len()).any(|window| window == text.as_bytes()))
    }

    /// Waits until it has written this, and ends it.
    #[track_caller]
    pub fn end(mut self, outputs: &mut Outputs, text: &str) {
        until(&format!("{text} in {}", self.2), || self.has(text).then_some(()));
        let _ = self.0.kill();
        let _ = self.0.wait();
        outputs.add(&self.2, &std::fs::read(&self.1).expect("a file"));
    }
}

/// `agentctl mcp`, given these requests; all that it answers.
pub fn mcp(daemon: &Daemon, calls: &[(&str, Value)]) -> Vec<u8> {
    use std::io::Write as _;
    let mut child = daemon.command(&["mcp", "--no-start"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it runs");
    let mut stdin = child.stdin.take().expect("a pipe");
    for (id, (method, params)) in calls.iter().enumerate() {
        let mut params = params.clone();
        params["_meta"] =
            serde_json::json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}});
        writeln!(stdin, "{}", serde_json::json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).expect("it reads");
    }
    drop(stdin);
    child.wait_with_output().expect("its end").stdout
}

/// Runs a command line at a terminal of its own, with what is typed.
pub fn at_terminal(daemon: &Daemon, line: &str) -> Child {
    let mut command = Command::new("script");
    command.args(["-qec", &format!("{} {line}", agentctl().display()), "/dev/null"]);
    command.env("AGENTCTL_SOCKET", daemon.socket()).env("NO_COLOR", "1").env("COLUMNS", "4000");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("script is there")
}
