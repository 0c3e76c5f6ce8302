//! What an agent says, how it is started, where it runs, what it is called, and how its start fails.

use std::io::{Read, Write};

use agentctl_tests::harness::{Daemon, fake_agent, until};
use serde_json::json;

use super::corpus::{Corpus, mark};
use super::outputs::{Outputs, at_terminal};
use super::{check, daemon};

/// `sh` ignores what follows the agent: only `ps`, lists and errors show it.
const WRAPPER: &str = "agent=$0; log=$1; shift; exec \"$agent\" --lenient --texts \"$log\"";

struct Run {
    corpus: Corpus,
    outputs: Outputs,
    daemon: Daemon,
}

impl Run {
    fn new() -> Self {
        Self { corpus: Corpus::new(), outputs: Outputs::default(), daemon: daemon() }
    }

    /// The agent's own texts, each with a secret of this shape.
    fn texts(&mut self, shape: usize) -> String {
        let mut text = |place: &str| format!("{} {}", mark(place), self.corpus.secret(place, shape));
        let texts = json!({"name": text("name"), "version": text("version"), "error": text("error"), "login": text("login")});
        let path = self.daemon.folder().join(format!("texts-{shape}"));
        std::fs::write(&path, texts.to_string()).expect("a file");
        path.display().to_string()
    }

    /// A command line whose arguments hold a secret of this shape.
    fn line(&mut self, shape: usize, more: &[&str]) -> Vec<String> {
        let texts = self.texts(shape);
        let secret = self.corpus.secret("argument", shape);
        let mut line = vec!["sh".into(), "-c".into(), format!("{WRAPPER} {}", more.join(" ")), fake_agent().display().to_string(), texts];
        line.extend([mark("argument"), "--api-key".into(), secret]);
        line
    }
}

#[test]
fn no_output_shows_a_secret_of_a_run() {
    let mut run = Run::new();
    let shapes = run.corpus.len();
    for shape in 0..shapes {
        // Half of what there is to say as a text of the agent, the other half on stderr and as titles.
        let said = format!("{} {}", mark("said"), run.corpus.secret("said", shape));
        let title = format!("{} {}", mark("title"), run.corpus.secret("title", shape));
        let stderr = format!("{} {}\n", mark("stderr"), run.corpus.secret("stderr", shape));
        let content = run.corpus.secret("content", shape);
        let script = json!([
            {"text": said},
            {"update": {"sessionUpdate": "tool_call", "toolCallId": "c", "title": title, "kind": "execute", "rawInput": {"command": content}}},
            {"update": {"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed"}},
            {"stderr": {"text": stderr}}, {"raw": format!("{} {content}", mark("noise"))},
        ])
        .to_string();
        let line = run.line(shape, &[]);
        // A folder can hold most of them.
        let folder = run.corpus.secret("folder", shape);
        let cwd = run.daemon.folder().join(format!("{} {}", mark("folder"), if folder.contains('/') { "" } else { &folder }));
        std::fs::create_dir_all(&cwd).expect("a folder");
        let (session, cwd) = (format!("s{shape}"), cwd.display().to_string());
        let started =
            run.daemon.command(&["run", "--detach", "--task", "t", "--session", &session, "--cwd", &cwd, "--"]).args(&line).output();
        run.outputs.command("run --detach", &started.expect("it runs"));
        let turn = run.daemon.command(&["prompt", "--session", &session, &script]).output().expect("it runs");
        run.outputs.command("prompt", &turn);
        run.outputs.run(&run.daemon, "stderr", &["stderr", "--session", &session]);
        if shape % 8 == 0 {
            let file = run.daemon.folder().join(format!("recording-{shape}"));
            let mut command = run.daemon.command(&["run", "--task", "t", "--session", "r", "-p", &script, "--record"]);
            run.outputs.command("run", &command.arg(&file).arg("--").args(&line).output().expect("it runs"));
            run.outputs.add("recording", &std::fs::read(&file).expect("a recording"));
        }
        for (name, switch) in [("error", "--init-error"), ("login", "--new-auth-required"), ("error", "--new-error")] {
            let line = run.line(shape, &[switch]);
            let failed =
                run.daemon.command(&["run", "--task", "t", "--session", "f", "-p", "x", "--"]).args(&line).output().expect("it runs");
            assert!(!failed.status.success(), "{name}");
            run.outputs.command("failed run", &failed);
        }
    }
    run.outputs.run(&run.daemon, "ps", &["ps", "--all", "--tree"]);
    run.outputs.run(&run.daemon, "audit", &["audit"]);
    let Run { corpus, outputs, daemon } = run;
    let reach: &[(&str, &[&str])] = &[
        ("said", &["prompt", "run", "recording"]),
        ("title", &["recording"]),
        ("stderr", &["stderr", "stderr --json"]),
        ("folder", &["ps --json"]),
        ("argument", &["ps --json"]),
        ("name", &["ps --json"]),
        ("error", &["failed run"]),
        ("login", &["failed run"]),
    ];
    check(daemon, outputs, &corpus, reach);
}

#[test]
fn no_terminal_shows_a_secret() {
    let mut run = Run::new();
    for chunk in 0..run.corpus.len().div_ceil(12) {
        let shapes = chunk * 12..(chunk * 12 + 12).min(run.corpus.len());
        let mut steps = Vec::new();
        for shape in shapes {
            steps.push(json!({"text": format!("{} {}\n", mark("said"), run.corpus.secret("said", shape))}));
            let title = format!("{} {}", mark("title"), run.corpus.secret("title", shape));
            let option = format!("{} {}", mark("option"), run.corpus.secret("option", shape));
            let options = json!([{"optionId": "y", "name": option, "kind": "allow_once"}]);
            steps.push(json!({"ask": {"id": shape, "toolCall": {"toolCallId": "c", "title": title}, "options": options}}));
        }
        steps.push(json!({"hang": true}));
        // Long lines are not shown again by a terminal: the script comes from a file.
        let file = run.daemon.folder().join(format!("script-{chunk}"));
        std::fs::write(&file, json!(steps).to_string()).expect("a file");
        let line = format!("run --task t --session t{chunk} -p \"$(cat {})\" -- {} --lenient", file.display(), fake_agent().display());
        let mut child = at_terminal(&run.daemon, &line);
        let mut conn = run.daemon.connect();
        until("its session", || conn.call("permission/list", json!({"session_id": format!("t{chunk}")})).code().is_none().then_some(()));
        conn.await_permissions("t", &format!("t{chunk}"), 12.min(run.corpus.len() - chunk * 12));
        // All of the first question, then the end.
        let mut keys = child.stdin.take().expect("a pipe");
        std::thread::sleep(std::time::Duration::from_millis(700));
        keys.write_all(b"v").expect("it reads");
        std::thread::sleep(std::time::Duration::from_millis(300));
        conn.call("execution/stop", json!({"session_id": format!("t{chunk}")})).ok();
        let mut screen = Vec::new();
        child.stdout.take().expect("a pipe").read_to_end(&mut screen).expect("its screen");
        until("its end", || child.try_wait().expect("it is ours"));
        run.outputs.add("terminal", &screen);
    }
    let Run { corpus, outputs, daemon } = run;
    check(daemon, outputs, &corpus, &[("said", &["terminal"]), ("title", &["terminal"]), ("option", &["terminal"])]);
}
