//! A strict ACP agent for tests: newline-delimited JSON-RPC on stdio, driven by scripts.
//!
//! It never forgives its client: `session/new` before `initialize`, an answer whose id names nothing pending
//! (also one of the wrong JSON type), a second answer to one id, an option that was not offered and a line that
//! is no JSON-RPC object are *violations*: logged as `{"violation":"..."}`, printed on stderr, and the
//! process exits with status 70 (`--lenient`: only logged).
//!
//! With `--log FILE` every received line is appended as `{"at_us":..,"recv":"<line>"}` when it is read, every
//! sent one as `{"at_us":..,"sent":"<line>"}` right before it is written (`at_us`: Unix time). Other lines:
//! `violation`, `script_error`, `env` + `value`, `cwd`, `spawned` (a child's pid), `ran`, `eof`.
//!
//! # Scripts
//!
//! A `session/prompt` whose text is a JSON array is a script of steps, run one after the other. Any other text
//! is answered with one chunk and `end_turn`. `{{session}}` in `raw` texts stands for the session's id.
//!
//! | step | what it does |
//! | --- | --- |
//! | `{"ask":{"id":5,"options":[..],"toolCall":{..},"session":"..","meta":{..},"pad_to":N}}` | sends a `session/request_permission` and goes on. All optional: `id` any JSON value (else the next free integer), three usual options, `pad_to` makes the frame exactly N bytes |
//! | `{"ask":{"id":5,"raw":"<line>"}}` | the same with a line of your own; the id is taken from `id`, else from the line |
//! | `{"await":5}`, `{"await_all":true}` | waits for the answer to that id, to all |
//! | `{"withdraw":5}` | `$/cancel_request` for it |
//! | `{"request":{"id":"r1","method":"fs/read_text_file","params":{}}}` | any other request, awaitable |
//! | `{"notify":{"method":"..","params":{}}}` | any notification |
//! | `{"update":{..}}`, `{"text":".."}` | `session/update` with that update, with a message chunk |
//! | `{"frame":{"len":N,"chunk":M}}` | a message chunk whose frame has exactly N bytes, written M bytes at a time |
//! | `{"raw":".."}`, `{"raw_hex":"efbbbf"}` | that text, those bytes, and a newline |
//! | `{"part":".."}` | that text without a newline; what follows it is the same line |
//! | `{"bytes":{"len":N,"chunk":M,"newline":false}}` | N times `x` on stdout |
//! | `{"stderr":{"bytes":N,"newline":false}}`, `{"stderr":{"text":".."}}` | the same on stderr |
//! | `{"stop_reason":"refusal"}` | answers the turn; steps that follow run outside of any turn |
//! | `{"error":{"code":-32603,"message":".."}}` | answers the turn with an error |
//! | `{"echo":true}` | a message chunk with all answers so far: `{"answers":[{"id":5,"result":{..}}]}` |
//! | `{"loop":{"times":N,"steps":[..]}}` | repeats |
//! | `{"sleep_ms":N}`, `{"await_file":"/path"}`, `{"hang":true}` | waits so long, until the file is there, for ever; a cancel ends it |
//! | `{"exit":2}`, `{"signal":9}` | ends the process |
//! | `{"close_stdout":true}`, `{"close_stderr":true}`, `{"close_stdin":true}` | closes that end |
//! | `{"stop_reading":true}`, `{"resume_reading":true}` | stdin is left unread |
//! | `{"spawn":{"setsid":true,"double_fork":true,"clear_env":true,"hold_stdio":true,"rename":"x","ignore_sigterm":true,"argv":[..],"sleep_s":N}}` | a child (logs `spawned` with its pid once it is detached) that runs `argv`, if given, logs its end as `ran`, and then sleeps (default 0 with `argv`, else 3600) |
//! | `{"env":"NAME"}`, `{"cwd":true}` | logs the value (`null` if absent), the working directory |
//!
//! `session/cancel` ends a running script: the turn is answered `cancelled`. With `--prompt-after-cancel` a
//! prompt (id `"after-cancel"`) is sent first and its answer awaited, with `--cancel-ignored` the turn is never answered.
//! A script that came to its end answers `end_turn`.

use std::process::ExitCode;
use std::sync::Arc;

mod agent;
mod child;
mod cli;
mod io;
mod reader;
mod run;
mod script;

/// Runs the fake agent with the arguments of this process.
pub fn main() -> ExitCode {
    use clap::Parser as _;
    let cli = cli::Cli::parse();
    match cli.child.clone() {
        Some(json) => child::main(&json, cli.log.as_deref()),
        None => start(cli),
    }
}

fn start(cli: cli::Cli) -> ExitCode {
    let log = match io::Log::open(cli.log.as_deref()) {
        Ok(log) => log,
        Err(err) => {
            io::stderr_line(&format!("fake-agent: can't open the log: {err}"));
            return ExitCode::from(74);
        }
    };
    if let Some(code) = cli.exit_at_start {
        return ExitCode::from(code);
    }
    if cli.usage {
        let text = "Usage: fake-agent acp [OPTIONS]\n\nThis agent has to be started in another way.\n";
        io::stdout_bytes(text.as_bytes());
        io::stderr_line(text);
        return ExitCode::from(2);
    }
    if cli.ignore_sigterm {
        child::ignore_sigterm();
    }
    if let Some(banner) = &cli.banner {
        io::stdout_bytes(format!("{banner}\n").as_bytes());
    }
    if let Some(ms) = cli.exit_after_ms {
        let code = i32::from(cli.exit_code);
        run::spawn_small("exit-timer", move || {
            std::thread::sleep(std::time::Duration::from_millis(ms));
            std::process::exit(code);
        });
    }
    match reader::Reader::new() {
        Ok((reader, gate)) => agent::Agent::new(cli, log, gate).serve(reader),
        Err(err) => {
            io::stderr_line(&format!("fake-agent: {err}"));
            ExitCode::from(74)
        }
    }
}

/// What every thread of the agent shares.
type Shared = Arc<agent::Agent>;
