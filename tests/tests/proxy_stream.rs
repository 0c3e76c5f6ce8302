//! `agentctl proxy` as a pipe: many frames, odd ones, large ones; and one side that does not read.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use std::hash::{DefaultHasher, Hasher};
use std::io::{BufWriter, Write};
use std::thread;

use agentctl_tests::harness::{Daemon, Lines, Proxied, rounds, until};

/// Frames that look alike to a parser and not to a hash. No two are the same.
fn frame(n: usize, seed: u64) -> String {
    let odd =
        ["1e3", "1E+3", "-0", "0.1000", "123456789012345678901234567890", "1.7976931348623157e308", "5e-324", "100000000000000000000.0"];
    let texts = ["\\u00e9\\/", "é", "\\ud83d\\ude00", "\u{1F600}", "\\\"\\\\\\b\\f\\n\\r\\t", "\u{2028}\u{202e}", "\\u0000", "tool_call"];
    let mix = (n as u64).wrapping_mul(6_364_136_223_846_793_005).wrapping_add(seed).rotate_left(29);
    let pick = |list: &[&'static str], shift: u32| list[usize::try_from(mix >> shift).unwrap_or(0) % list.len()];
    let (number, text) = (pick(&odd, 5), pick(&texts, 11));
    let filler = "x".repeat(usize::try_from(mix >> 40).unwrap_or(0) % 300);
    match mix % 4 {
        0 => format!(
            r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"a","n":{n},"{text}":[{number},"{text}",{{"_meta":null}}],"f":"{filler}"}}}}"#
        ),
        1 => format!(r#"{{ "method" : "_x/{text}" , "unknown":{number}, "jsonrpc":"2.0","params":[ {n}, {number} ,"{filler}"] }}"#),
        2 => {
            format!(r#"{{"jsonrpc":"2.0","id":"{seed}-{n}","method":"fs/read_text_file","params":{{"a":{number},"b":"{text}{filler}"}}}}"#)
        }
        _ => format!("{{\"jsonrpc\":\"2.0\",\"method\":\"_r\",\"params\":{{\"a\":{number},\"n\":{n},\"b\":\"{text}\"}},\"z\":{{}}}}\r"),
    }
}

/// The hash and number of all lines up to the last one, whose text is given.
fn digest(lines: &Lines, last: &str) -> (u64, usize) {
    let (mut hash, mut count) = (DefaultHasher::new(), 0);
    loop {
        let line = lines.try_next().expect("not the end");
        if line == last.as_bytes() {
            return (hash.finish(), count);
        }
        hash.write(&line);
        count += 1;
    }
}

/// Writes frames, sometimes noise between them, and a last line; the hash and number of what is to arrive.
fn pour(to: impl Write, count: usize, seed: u64, answers: bool, last: &str) -> (u64, usize) {
    let mut to = BufWriter::with_capacity(1 << 16, to);
    let (mut hash, mut sent) = (DefaultHasher::new(), 0);
    let mut line = |text: &str, passes: bool| {
        let text = format!("{text}\n");
        to.write_all(text.as_bytes()).expect("it is read");
        if passes {
            hash.write(text.as_bytes());
            sent += 1;
        }
    };
    for n in 0..count {
        line(&frame(n, seed), true);
        if n % 97 == 0 {
            line("not a message", false);
            line(r#"{"id":3,"level":"info"}"#, false);
        }
        if n == count / 2 {
            line(&format!(r#"{{"jsonrpc":"2.0","method":"_large","params":"{}"}}"#, "é\\n".repeat((50 << 20) / 4)), true);
        }
        if answers && n % 50 == 0 {
            line(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"content":1.0e1}}}}"#, n / 50), true);
        }
    }
    line(last.trim_end(), false);
    to.flush().expect("it is read");
    (hash.finish(), sent)
}

#[test]
fn a_hundred_thousand_frames_pass_both_ways_as_they_were_written() {
    let count = rounds("AGENTCTL_TEST_FRAMES", 100_000);
    let daemon = Daemon::start();
    let mut proxied = Proxied::start(&daemon, "s", &[]);
    proxied.begin();
    // What the editor answers in the midst of its own frames.
    for id in 0..=count / 50 {
        proxied.agent_sends(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"terminal/output"}}"#));
    }
    for _ in 0..=count / 50 {
        proxied.editor.text();
    }
    let last = "{\"jsonrpc\":\"2.0\",\"method\":\"_last\"}\n";
    let (to_agent, to_editor) = (proxied.to_agent.take().expect("open"), proxied.to_editor.take().expect("open"));
    let (agent, editor) = (&proxied.agent, &proxied.editor);
    thread::scope(|scope| {
        let sent = [scope.spawn(move || pour(to_agent, count, 1, true, last)), scope.spawn(move || pour(to_editor, count, 2, false, last))];
        let got = [agent, editor].map(|lines| digest(lines, last));
        for (sent, got) in sent.into_iter().zip(got) {
            assert_eq!(sent.join().expect("poured"), got);
        }
    });
    let mut conn = daemon.connect();
    let counters = conn.call("execution/list", serde_json::json!({"session_id": "s"})).ok()["executions"][0]["counters"].clone();
    assert!(counters["noise"].as_u64() >= Some(count as u64 / 97), "{counters}");
}

fn resident_kib(pid: nix::unistd::Pid) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or_default()
}

/// Writes until the pipe takes no more for a moment; how much it took.
fn stuff(to: &mut (impl Write + std::os::fd::AsFd), at_most: usize) -> usize {
    use nix::fcntl::{FcntlArg, OFlag, fcntl};
    // Our own end of a pipe or fifo: the other end is another open file.
    fcntl(to.as_fd(), FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).expect("a flag can be set");
    let line = format!("{{\"jsonrpc\":\"2.0\",\"method\":\"_x\",\"params\":\"{}\"}}\n", "x".repeat(4000));
    let (mut taken, mut waits) = (0, 0);
    while waits < 200 && taken < at_most {
        let offset = taken % line.len();
        match to.write(&line.as_bytes()[offset..]) {
            Ok(n) => (taken, waits) = (taken + n, 0),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                waits += 1;
                thread::sleep(std::time::Duration::from_millis(2));
            }
            Err(error) => panic!("{error}"),
        }
    }
    taken
}

#[test]
fn a_paused_editor_holds_its_agent_up_and_grows_nothing_while_the_socket_still_answers() {
    const FLOOD: usize = 64 << 20;
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    // The editor's end stays unread: no thread takes lines from it.
    let session = "s";
    let (fifo_out, fifo_in) = (daemon.folder().join("o"), daemon.folder().join("i"));
    for fifo in [&fifo_out, &fifo_in] {
        nix::unistd::mkfifo(fifo, nix::sys::stat::Mode::S_IRWXU).expect("a fifo");
    }
    let mut command =
        daemon.command(&["proxy", "--task", "t", "--session", session, "--", "sh", "-c", "cat < \"$1\" & cat > \"$2\"; wait", "sh"]);
    let mut proxy = agentctl_tests::harness::piped(command.args([&fifo_out, &fifo_in]));
    let mut to_editor = std::fs::File::options().write(true).open(&fifo_out).expect("the agent's stdout");
    let agent = Lines::of(std::fs::File::open(&fifo_in).expect("the agent's stdin"));
    writeln!(to_editor, "{}", agentctl_tests::harness::ask("5")).expect("it is read");
    let request = conn.await_permissions("t", session, 1).remove(0);
    let before = resident_kib(daemon.pid());
    let taken = stuff(&mut to_editor, FLOOD);
    assert!(taken < 4 << 20, "the stream stops: {taken} bytes were taken");
    assert!(resident_kib(daemon.pid()) < before + 4096, "{} KiB before, {} now", before, resident_kib(daemon.pid()));
    conn.resolve(&request, "no").ok();
    assert_eq!(agent.json()["result"]["outcome"]["optionId"], "no");
    // It reads again, and gets all of it.
    let lines = Lines::of(proxy.stdout.take().expect("stdout"));
    assert_eq!(lines.json()["id"], 5);
    assert_eq!(lines.json()["method"], "_x");
    drop(to_editor);
    drop(proxy.stdin.take());
    until("the proxy's end", || proxy.try_wait().ok().flatten());
}

#[test]
fn an_agent_that_does_not_read_holds_its_editor_up_and_grows_nothing() {
    const FLOOD: usize = 64 << 20;
    let daemon = Daemon::start();
    let mut command = daemon.command(&["proxy", "--task", "t", "--session", "s", "--", "sleep", "1000"]);
    let mut proxy = agentctl_tests::harness::piped(&mut command);
    let mut conn = daemon.connect();
    until("the execution", || conn.call("execution/get", serde_json::json!({"session_id": "s"})).0.get("result").cloned());
    let before = resident_kib(daemon.pid());
    let taken = stuff(proxy.stdin.as_mut().expect("stdin"), FLOOD);
    assert!(taken < 4 << 20, "the stream stops: {taken} bytes were taken");
    assert!(resident_kib(daemon.pid()) < before + 4096);
    conn.call("execution/stop", serde_json::json!({"session_id": "s"})).ok();
    let status = until("the proxy's end", || proxy.try_wait().ok().flatten());
    assert_eq!(status.code(), Some(128 + 15), "the agent's own end");
}
