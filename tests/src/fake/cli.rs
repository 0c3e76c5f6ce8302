//! The switches of the fake agent.

use std::path::PathBuf;

/// A strict ACP v1 agent for tests, driven by scripts in the text of session/prompt.
///
/// The steps of scripts are described in the documentation of the module `agentctl_tests::fake`.
#[derive(Debug, Default, clap::Parser)]
#[command(name = "fake-agent", version)]
pub(super) struct Cli {
    /// Append every received and sent line to this JSONL file
    #[arg(long, value_name = "FILE")]
    pub(super) log: Option<PathBuf>,
    /// Log violations of the client instead of exiting with status 70
    #[arg(long)]
    pub(super) lenient: bool,

    /// Print a usage text on stdout and stderr and exit 2
    #[arg(long)]
    pub(super) usage: bool,
    /// Exit with this status before anything is read
    #[arg(long, value_name = "CODE")]
    pub(super) exit_at_start: Option<u8>,
    /// Exit this long after the start, whatever goes on
    #[arg(long, value_name = "MS")]
    pub(super) exit_after_ms: Option<u64>,
    /// Status for --exit-after-ms
    #[arg(long, value_name = "CODE", default_value_t = 1)]
    pub(super) exit_code: u8,
    /// Write this line to stdout first
    #[arg(long, value_name = "TEXT")]
    pub(super) banner: Option<String>,
    /// Wait before initialize and session/new are answered
    #[arg(long, value_name = "MS", default_value_t = 0)]
    pub(super) delay_ms: u64,

    /// Say what stands in this JSON file, an object, in the places of its own texts: `name`, `version`, `error`, `login`
    #[arg(long, value_name = "FILE")]
    pub(super) texts: Option<PathBuf>,
    /// Answer initialize with an error
    #[arg(long)]
    pub(super) init_error: bool,
    /// Answer initialize with this protocol version
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) init_version: u64,
    /// Never answer initialize
    #[arg(long)]
    pub(super) init_never: bool,
    /// Answer session/new with an internal error
    #[arg(long)]
    pub(super) new_error: bool,
    /// Answer session/new with -32000 (authentication required)
    #[arg(long)]
    pub(super) new_auth_required: bool,
    /// Never answer session/new
    #[arg(long)]
    pub(super) new_never: bool,
    /// Send a session/update for the session before session/new is answered
    #[arg(long)]
    pub(super) update_before_new: bool,
    /// Run this script, outside of any turn, after a session was made
    #[arg(long, value_name = "SCRIPT")]
    pub(super) after_new: Option<String>,
    /// Advertise and serve session/load (a line of history is replayed)
    #[arg(long)]
    pub(super) load: bool,
    /// Ask under id "history" while session/load is answered
    #[arg(long)]
    pub(super) ask_on_load: bool,
    /// Advertise and serve session/resume
    #[arg(long)]
    pub(super) resume: bool,
    /// Report the modes "default" and "auto" for new sessions
    #[arg(long)]
    pub(super) modes: bool,

    /// Never answer a turn that was cancelled
    #[arg(long)]
    pub(super) cancel_ignored: bool,
    /// After session/cancel send one more permission prompt and wait for its answer
    #[arg(long)]
    pub(super) prompt_after_cancel: bool,
    /// Stay when stdin is at its end
    #[arg(long)]
    pub(super) stay_on_eof: bool,
    /// Block SIGTERM
    #[arg(long)]
    pub(super) ignore_sigterm: bool,

    /// Run as a child of a spawn step (used by the agent itself)
    #[arg(long, hide = true, value_name = "JSON")]
    pub(super) child: Option<String>,
}
