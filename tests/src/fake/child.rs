//! Children of the fake agent: the binary again, which leaves its parent as far as it was asked to.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal, raise};
use serde_json::json;

use super::io::{Log, stderr_line};
use super::script::{Calls, Spawn};

/// Sends a signal to this process.
pub(super) fn signal_self(number: i32) -> Result<(), String> {
    // Twice: Rust's own handler of SIGSEGV and SIGBUS takes the first one and restores the default.
    Signal::try_from(number).and_then(|signal| raise(signal).and_then(|()| raise(signal))).map_err(|err| format!("signal {number}: {err}"))
}

/// Blocks SIGTERM in this thread and all that it starts; children get their own empty mask.
pub(super) fn ignore_sigterm() {
    let mut set = SigSet::empty();
    set.add(Signal::SIGTERM);
    if let Err(err) = set.thread_block() {
        stderr_line(&format!("fake-agent: can't block SIGTERM: {err}"));
    }
}

/// Starts a child; waits only for the one in between, if there is one.
pub(super) fn spawn(spawn: &Spawn, log: Option<&Path>) -> Result<(), String> {
    let json = serde_json::to_string(spawn).map_err(|err| err.to_string())?;
    let exe = std::env::current_exe().map_err(|err| err.to_string())?;
    let mut command = Command::new(exe);
    command.arg("--child").arg(json);
    if let Some(log) = log {
        command.arg("--log").arg(log);
    }
    if spawn.clear_env {
        command.env_clear();
    }
    if !spawn.hold_stdio {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    }
    let mut child = command.spawn().map_err(|err| err.to_string())?;
    if spawn.double_fork {
        child.wait().map_err(|err| err.to_string())?;
    }
    Ok(())
}

/// The child's own main.
pub(super) fn main(json: &str, log: Option<&Path>) -> ExitCode {
    match serde_json::from_str::<Spawn>(json).map_err(|err| err.to_string()).and_then(|spawn| live(spawn, log)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(err) => {
            stderr_line(&format!("fake-agent: child: {err}"));
            ExitCode::FAILURE
        }
    }
}

fn call(calls: &Calls) -> std::io::Result<Vec<String>> {
    let mut stream = UnixStream::connect(&calls.socket)?;
    for line in &calls.lines {
        writeln!(stream, "{line}")?;
    }
    BufReader::new(stream).lines().take(calls.lines.len()).collect()
}

fn live(mut asked: Spawn, log: Option<&Path>) -> Result<(), String> {
    if std::mem::take(&mut asked.setsid) {
        nix::unistd::setsid().map_err(|err| format!("setsid: {err}"))?;
    }
    if std::mem::take(&mut asked.double_fork) {
        return spawn(&asked, log);
    }
    if asked.ignore_sigterm {
        ignore_sigterm();
    }
    if let Some(name) = &asked.rename {
        std::fs::write("/proc/self/comm", name).map_err(|err| err.to_string())?;
    }
    let path = log;
    let log = Log::open(path).map_err(|err| err.to_string())?;
    log.write(json!({"spawned": std::process::id()}));
    if let Some((program, args)) = asked.argv.split_first() {
        let entry = match Command::new(program).args(args).stdin(Stdio::null()).output() {
            Ok(output) => json!({
                "ran": asked.argv,
                "code": output.status.code(),
                "stdout": String::from_utf8_lossy(&output.stdout),
                "stderr": String::from_utf8_lossy(&output.stderr),
            }),
            Err(err) => json!({"ran": asked.argv, "failed": err.to_string()}),
        };
        log.write(entry);
    }
    if let Some(calls) = &asked.calls {
        log.write(json!({"answers": call(calls).unwrap_or_else(|err| vec![err.to_string()])}));
    }
    let sleep = asked.sleep_s.unwrap_or(if asked.argv.is_empty() && asked.calls.is_none() { 3600 } else { 0 });
    std::thread::sleep(Duration::from_secs(sleep));
    Ok(())
}
