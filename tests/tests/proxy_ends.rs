//! `agentctl proxy`: what an agent has from its editor, and what each sees of another's end.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use agentctl_tests::harness::{Conn, Daemon, Lines, Proxied, answer, ask, piped, processes_with, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

/// `agentctl proxy -- sh -c SCRIPT`.
fn shell(daemon: &Daemon, script: &str) -> Command {
    daemon.command(&["proxy", "--task", "t", "--session", "s", "--", "sh", "-c", script])
}

/// A line of the agent, so that it is one.
const SAY: &str = r#"say() { printf '{"jsonrpc":"2.0","method":"_say","params":"%s"}\n' "$1"; }; "#;

#[test]
fn environment_folder_mask_and_limits_are_the_editors_and_nothing_of_ours_is_seen() {
    let daemon = Daemon::start();
    let script = format!(
        "{SAY} say \"$(pwd) $(umask) $(ulimit -n) $(ulimit -c) $X\"; say \"$(env | grep -c AGENTCTL_) $(ls /proc/self/fd | wc -l)\""
    );
    let mut command = Command::new("sh");
    command.args(["-c", "umask 0157; ulimit -n 77; ulimit -c 0; exec \"$@\"", "sh"]);
    let proxy = shell(&daemon, &script);
    command.arg(proxy.get_program()).args(proxy.get_args());
    command
        .env("AGENTCTL_SOCKET", daemon.socket())
        .env("AGENTCTL_STATE_DIR", "/x")
        .env("X", "ü \"1\"".replace('"', ""))
        .env("NOTIFY_SOCKET", "/n");
    let output = command.current_dir("/usr").stdin(Stdio::null()).output().expect("it runs");
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(text.contains("\"/usr 0157 77 0 ü 1\""), "{text}{}", String::from_utf8_lossy(&output.stderr));
    // Of ours it has the mark only; of descriptors the three of `ls`, and its folder.
    assert!(text.contains("\"1 4\""), "{text}");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn the_agents_status_is_ours_and_its_stderr_too() {
    let daemon = Daemon::start();
    for (script, status) in [("echo oops >&2; exit 7", 7), ("echo oops >&2; kill -9 $$", 137), ("echo oops >&2", 0)] {
        let output = shell(&daemon, script).output().expect("it runs");
        assert_eq!((output.status.code(), output.stdout.len()), (Some(status), 0), "{script}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "oops\n", "{script}");
    }
    let stderr = daemon.command(&["stderr", "--session", "s"]).output().expect("it runs");
    assert!(stderr.status.code().is_some());
    let failed = daemon.command(&["proxy", "--", "no-such-agent"]).output().expect("it runs");
    assert_eq!(failed.status.code(), Some(125));
    assert!(String::from_utf8_lossy(&failed.stderr).contains("command_not_found"));
    let nobody = Command::new(daemon.command(&[]).get_program())
        .args(["proxy", "--no-start", "--socket", "/nonexistent/s", "--", "cat"])
        .output()
        .expect("it runs");
    assert_eq!(nobody.status.code(), Some(125));
}

#[test]
fn the_last_words_of_an_agent_arrive_though_its_editor_reads_slowly() {
    let daemon = Daemon::start();
    // Of a reader so slow that every buffer on the way is full when the agent ends.
    let script = "head -c 400000 /dev/zero | tr '\\0' a >&2; echo last_words >&2";
    let mut proxy = piped(&mut shell(&daemon, script));
    let mut stderr = proxy.stderr.take().expect("a pipe");
    let (mut text, mut chunk) = (Vec::new(), [0; 4096]);
    loop {
        match stderr.read(&mut chunk).expect("it can be read") {
            0 => break,
            n => text.extend_from_slice(&chunk[..n]),
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    assert_eq!((text.len(), text.ends_with(b"last_words\n")), (400_011, true));
    assert!(proxy.wait().expect("its end").success());
}

#[test]
fn a_daemon_is_started_if_none_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let binary = agentctl_tests::harness::agentctl();
    let run = |args: &[&str]| {
        let mut command = Command::new(&binary);
        command.args(args).env("AGENTCTL_SOCKET", folder.path().join("run/s")).env("AGENTCTL_STATE_DIR", folder.path().join("state"));
        command.stdin(Stdio::null()).output().expect("it runs")
    };
    assert_eq!(run(&["proxy", "--", "sh", "-c", "exit 3"]).status.code(), Some(3));
    assert_eq!(run(&["shutdown"]).status.code(), Some(0));
}

/// Whether an end of a pipe or socket is in blocking mode.
fn is_blocking(fd: impl AsFd) -> bool {
    use nix::fcntl::{FcntlArg, OFlag, fcntl};
    !OFlag::from_bits_retain(fcntl(fd.as_fd(), FcntlArg::F_GETFL).expect("flags")).contains(OFlag::O_NONBLOCK)
}

#[test]
fn pipes_sockets_terminals_and_files_work_and_keep_their_flags() {
    let daemon = Daemon::start();
    let line = "{\"jsonrpc\":\"2.0\",\"method\":\"_x\"}";
    let echo = "read -r line; printf '%s\\n' \"$line\"; exit 4";
    // Socket pairs, as Node makes them.
    let (ours, theirs) = UnixStream::pair().expect("a pair");
    let end = |end: &UnixStream| Stdio::from(OwnedFd::from(end.try_clone().expect("a copy")));
    let mut proxy = shell(&daemon, echo).stdin(end(&theirs)).stdout(end(&theirs)).spawn().expect("it starts");
    (&ours).write_all(format!("{line}\n").as_bytes()).expect("written");
    assert_eq!(Lines::of(ours.try_clone().expect("a copy")).text(), line);
    assert!(is_blocking(&theirs) && is_blocking(&ours));
    assert_eq!(proxy.wait().expect("an end").code(), Some(4));
    // Pipes.
    let (theirs, mut ours) = std::io::pipe().expect("a pipe");
    let (read, write) = std::io::pipe().expect("a pipe");
    let copies = (theirs.try_clone().expect("a copy"), write.try_clone().expect("a copy"));
    let mut proxy = shell(&daemon, echo).stdin(theirs).stdout(write).spawn().expect("it starts");
    writeln!(ours, "{line}").expect("written");
    assert_eq!(Lines::of(read).text(), line);
    assert!(is_blocking(&copies.0) && is_blocking(&copies.1));
    assert_eq!(proxy.wait().expect("an end").code(), Some(4));
    // A terminal.
    let terminal = nix::pty::openpty(None, None).expect("a terminal");
    let end = || Stdio::from(terminal.slave.try_clone().expect("a copy"));
    let mut command = shell(&daemon, echo);
    let mut proxy = command.process_group(0).stdin(end()).stdout(end()).stderr(end()).spawn().expect("it starts");
    let mut master = File::from(terminal.master);
    writeln!(master, "{line}").expect("written");
    assert_eq!(proxy.wait().expect("an end").code(), Some(4));
    assert!(is_blocking(&terminal.slave));
    let mut shown = [0; 256];
    let n = master.read(&mut shown).expect("shown");
    assert!(String::from_utf8_lossy(&shown[..n]).contains(line));
    // Files.
    let (input, result) = (daemon.folder().join("input"), daemon.folder().join("output"));
    std::fs::write(&input, format!("{line}\n")).expect("written");
    let mut command = shell(&daemon, echo);
    command.stdin(File::open(&input).expect("a file")).stdout(File::create(&result).expect("a file"));
    assert_eq!(command.status().expect("it runs").code(), Some(4));
    assert_eq!(std::fs::read_to_string(&result).expect("a file"), format!("{line}\n"));
}

#[test]
fn descriptors_are_taken_by_one_method_with_its_exact_count_only() {
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
    let daemon = Daemon::start();
    let send = |method: &str, count: usize| {
        let stream = UnixStream::connect(daemon.socket()).expect("a daemon");
        let null = File::open("/dev/null").expect("a file");
        let descriptors = vec![null.as_fd(); count];
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(64))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
        let params = json!({"command": "cat", "cwd": "/", "task_id": "t", "env": {}, "umask": 0, "limits": []});
        let params = if method == "proxy/start" { params } else { json!({}) };
        let call = format!("{}\n", json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}));
        sendmsg(&stream, &[std::io::IoSlice::new(call.as_bytes())], &mut ancillary, SendFlags::empty()).expect("sent");
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).expect("an answer");
        serde_json::from_str::<Value>(&line).expect("JSON")
    };
    let open = || std::fs::read_dir(format!("/proc/{}/fd", daemon.pid())).expect("its descriptors").count();
    let attack = || {
        for count in [1, 2, 4, 60] {
            let answer = send("proxy/start", count);
            assert!(answer["error"]["message"].as_str().is_some_and(|text| text.contains("exactly 3")), "{count}: {answer}");
        }
        let answer = send("proxy/start", 3);
        assert!(answer["error"]["message"].as_str().is_some_and(|text| text.contains("can't be used")), "{answer}");
        assert!(send("control/status", 3).get("result").is_some());
        let without = json!({"command": "cat", "cwd": "/", "task_id": "t", "env": {}, "umask": 0, "limits": []});
        assert!(daemon.connect().call("proxy/start", without).0.get("error").is_some());
    };
    // Some of its own are opened with the first calls; one that stays open of each attack would be ten.
    attack();
    let before = open();
    (0..10).for_each(|_| attack());
    until("all descriptors to be closed", || (open() < before + 10).then_some(()));
}

/// What is going on when somebody dies.
#[derive(Debug, Clone, Copy, PartialEq)]
enum When {
    Idle,
    Output,
    Pending,
}

fn prepared(daemon: &Daemon, conn: &mut Conn, session: &str, when: When) -> Proxied {
    let mut proxied = Proxied::start(daemon, session, &[]);
    proxied.begin();
    match when {
        When::Idle => {}
        When::Output => {
            let mut to = proxied.to_editor.as_ref().and_then(|to| to.try_clone().ok()).expect("open");
            std::thread::spawn(
                move || while writeln!(to, "{{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{{}}}}").is_ok() {},
            );
        }
        When::Pending => {
            proxied.to_editor(&ask("5"));
            conn.await_permissions("t", session, 1);
        }
    }
    proxied
}

fn pid_of(conn: &mut Conn, session: &str) -> i32 {
    let pid = conn.call("execution/get", json!({"session_id": session})).ok()["pid"].as_i64();
    i32::try_from(pid.expect("a pid")).expect("a pid")
}

#[test]
fn when_the_editor_dies_its_agent_ends_and_what_was_pending_with_it() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    // By its pipes alone, with an agent that does not care; and with the proxy.
    for (n, (when, with_proxy)) in
        [When::Idle, When::Output, When::Pending].into_iter().flat_map(|when| [(when, false), (when, true)]).enumerate()
    {
        let session = format!("s{n}");
        let mut proxied = prepared(&daemon, &mut conn, &session, when);
        if with_proxy {
            proxied.proxy.kill().expect("it is ours");
        }
        drop(proxied.to_agent.take());
        if !with_proxy && when != When::Output {
            // Its stdin's end reaches the agent, whatever else is open.
            while proxied.agent.try_next().is_some() {}
        }
        if with_proxy {
            until("the end of the agent", || {
                let list = conn.call("execution/list", json!({"session_id": session})).ok();
                (list["executions"][0]["state"] == "exited").then_some(())
            });
        } else {
            drop(proxied.to_editor.take());
            if when == When::Output {
                conn.call("execution/stop", json!({"session_id": session})).ok();
            }
            until("the proxy's end", || proxied.proxy.try_wait().ok().flatten());
        }
        if when == When::Pending {
            assert!(conn.permissions("t", &session).is_empty());
            let records = conn.call("audit/list", json!({"session_id": session})).ok();
            assert!(["expired", "cancelled"].contains(&records["records"][0]["end"].as_str().unwrap_or_default()), "{records}");
        }
    }
    until("no process to be left", || (conn.call("control/status", json!({})).ok()["live_executions"] != 1).then_some(()));
}

#[test]
fn an_editor_that_vanishes_is_noticed_though_its_agent_ignores_the_end_of_its_input() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let mut proxy = piped(&mut shell(&daemon, "exec sleep 1000"));
    until("the execution", || conn.call("execution/get", json!({"session_id": "s"})).0.get("result").cloned());
    drop((proxy.stdin.take(), proxy.stdout.take()));
    assert_eq!(until("the proxy's end", || proxy.try_wait().ok().flatten()).code(), Some(143));
    // One that only has nothing more to say is served to the end.
    let script = format!("{SAY} cat > /dev/null; sleep 1; say done");
    let mut proxy = piped(&mut shell(&daemon, &script));
    drop(proxy.stdin.take());
    let lines = Lines::of(proxy.stdout.take().expect("stdout"));
    assert_eq!(lines.json()["params"], "done");
    assert_eq!(proxy.wait().expect("an end").code(), Some(0));
}

#[test]
fn when_the_agent_dies_the_editor_sees_the_end_and_the_status() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    for (n, when) in [When::Idle, When::Output, When::Pending].into_iter().enumerate() {
        let session = format!("s{n}");
        let mut proxied = prepared(&daemon, &mut conn, &session, when);
        let request = (when == When::Pending).then(|| conn.permissions("t", &session).remove(0));
        let pid = pid_of(&mut conn, &session);
        kill(Pid::from_raw(-pid), Signal::SIGKILL).expect("its group is there");
        while proxied.editor.try_next().is_some() {}
        let status = until("the proxy's end", || proxied.proxy.try_wait().ok().flatten());
        assert_eq!(status.code(), Some(137), "{when:?}");
        if let Some(request) = request {
            assert_eq!(conn.audit_of(&request["request_id"])["end"], "expired");
            assert_eq!(conn.resolve(&request, "yes").code(), Some("permission_stale"));
        }
    }
}

#[test]
fn when_the_daemon_dies_the_proxy_says_so_and_the_agent_is_gone() {
    for when in [When::Idle, When::Output, When::Pending] {
        let daemon = Daemon::start();
        let mut conn = daemon.connect();
        let mut proxied = prepared(&daemon, &mut conn, "s", when);
        let (folder, pid) = (daemon.folder().display().to_string(), pid_of(&mut conn, "s"));
        let (_, _folder) = daemon.end(Signal::SIGKILL);
        let status = until("the proxy's end", || proxied.proxy.try_wait().ok().flatten());
        assert_eq!(status.code(), Some(125), "{when:?}");
        proxied.says("the daemon has ended");
        until("the agent to be gone", || agentctl_tests::harness::is_gone(pid.into()).then_some(()));
        while proxied.editor.try_next().is_some() {}
        drop((proxied.to_agent.take(), proxied.to_editor.take()));
        until("nothing to be left", || processes_with(&format!("{folder}/s.")).is_empty().then_some(()));
    }
}

#[test]
fn a_recording_has_what_the_agent_saw() {
    let daemon = Daemon::start();
    let file = daemon.folder().join("r.jsonl");
    let mut proxied = Proxied::start(&daemon, "s", &["--record", file.to_str().expect("text")]);
    proxied.begin();
    proxied.to_editor(&ask("5"));
    proxied.to_agent(&answer("5", "no"));
    proxied.to_editor(r#"{"jsonrpc":"2.0","id":2,"result":{"stopReason":"end_turn"}}"#);
    assert!(proxied.end().success());
    let text = std::fs::read_to_string(&file).expect("a recording");
    for part in ["\"method\":\"initialize\"", "session/request_permission", "\"optionId\":\"no\"", "end_turn", "\"exited\""] {
        assert!(text.contains(part), "{part}: {text}");
    }
}
