//! The command line: one file a command. Data goes to stdout, everything else to stderr.

mod agents;
mod audit;
mod cancel;
mod completions;
mod describe;
mod doctor;
mod events;
mod man;
mod mcp;
mod output;
mod permissions;
mod person;
mod prompt;
mod proxy;
mod ps;
mod record;
mod replay;
mod resolve;
mod restart;
mod run;
mod serve;
mod shutdown;
mod start_args;
mod start_daemon;
mod stderr;
mod stop;
mod token;
mod token_file;
mod update;

use std::path::PathBuf;
use std::process::ExitCode;

use acp_bridge::process;
use clap::{Args, Parser, Subcommand};

use crate::client::{Client, ClientError};
use crate::daemon;
use crate::known::Agents;
use crate::paths;

const ABOUT: &str = "Supervises ACP coding agents; each of their permission prompts is answered exactly once, over a local socket.";

const EXAMPLES: &str = "\
Examples:
  agentctl run -p 'Fix the failing test' -- codex-acp     start an agent, stream its turn; in a second terminal:
  agentctl run claude                                     an agent by name, at a terminal: turns, questions asked inline
  agentctl permissions                                    what waits for an answer, with the command that answers it
  agentctl audit                                          what was asked, who answered, what became of it

Exit status: 0 done; 1 failed; 2 usage; 3 daemon not reachable; 4 not found; 5 conflict (stale, already resolved,
in progress, option not offered, busy); 6 not recorded or not delivered; 7 refused.";

/// The command line.
#[derive(Debug, Parser)]
#[command(name = "agentctl", version, about = ABOUT, after_help = EXAMPLES, max_term_width = 120)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

/// What every command takes.
#[derive(Debug, Args)]
pub(crate) struct Global {
    /// The daemon's socket [default: $XDG_RUNTIME_DIR/agentctl/control.sock, else /tmp/agentctl-<uid>/control.sock]
    #[arg(long, global = true, env = "AGENTCTL_SOCKET", hide_env_values = true, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// The state folder of a daemon that is started [default: $XDG_STATE_HOME/agentctl, else ~/.local/state/agentctl]
    #[arg(long, global = true, env = "AGENTCTL_STATE_DIR", hide_env_values = true, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// The configuration file [default: $XDG_CONFIG_HOME/agentctl/config.toml, else ~/.config/agentctl/config.toml]
    #[arg(long, global = true, env = "AGENTCTL_CONFIG", hide_env_values = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print data as JSON, one value a line
    #[arg(long, global = true)]
    json: bool,
}

impl Global {
    fn socket(&self) -> PathBuf {
        absolute(paths::socket(self.socket.clone()))
    }

    fn state_dir(&self) -> PathBuf {
        absolute(paths::state_dir(self.state_dir.clone()))
    }

    fn agents(&self) -> anyhow::Result<Agents> {
        Agents::load(&paths::config(self.config.clone()), self.config.is_some())
    }

    fn connect(&self) -> Result<Client, ClientError> {
        Client::connect(&self.socket())
    }
}

/// A daemon that is started has another working folder.
fn absolute(path: PathBuf) -> PathBuf {
    std::path::absolute(&path).unwrap_or(path)
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the daemon in the foreground
    Serve(serve::Serve),
    /// Start an agent and stream its turn; the agent ends with this command
    Run(run::Run),
    /// Be the agent command of an editor: the agent runs supervised, its prompts are answered there or here
    Proxy(proxy::Proxy),
    /// List the agents that `run` knows by name: installed or not, how to install them, how to make them ask
    Agents(agents::List),
    /// List executions
    Ps(ps::Ps),
    /// End an agent with its whole process tree
    Stop(stop::Stop),
    Restart(restart::Restart),
    /// Send a prompt to a running agent and wait for the end of its turn
    Prompt(prompt::Prompt),
    /// Cancel a running turn, or one permission request
    Cancel(cancel::Cancel),
    /// List the permission requests that wait for an answer
    Permissions(permissions::Permissions),
    /// Answer one permission request with one of its options
    Resolve(resolve::Resolve),
    /// Show what was asked, who answered and what became of it
    Audit(audit::Audit),
    /// Show events as they come
    Events(events::Events),
    /// Show the recent stderr of an agent
    Stderr(stderr::Stderr),
    /// Check recorded sessions against a daemon of their own, or play one as an agent
    Replay(replay::Replay),
    /// Serve MCP on stdio: two tools, which list and answer permission requests
    Mcp(mcp::Mcp),
    /// Let other owners in: make, list and revoke their tokens
    #[command(subcommand)]
    Token(token::Token),
    /// Stop all agents, then the daemon
    Shutdown(shutdown::Shutdown),
    /// Check the set-up, or how an agent behaves when it asks
    Doctor(doctor::Doctor),
    /// Print the completions of a shell
    Completions(completions::Completions),
    /// Write the man pages into a folder
    Man(man::Man),
    /// Print the JSON Schemas of the socket's methods, its events and its stable codes
    Describe(describe::Describe),
}

/// Why a command ends with another status than 0.
#[derive(Debug)]
pub(crate) enum CliError {
    /// From the daemon, or on the way to it.
    Client(ClientError),
    /// Anything else; status 1.
    Other(anyhow::Error),
}

impl From<ClientError> for CliError {
    fn from(error: ClientError) -> Self {
        Self::Client(error)
    }
}

impl From<anyhow::Error> for CliError {
    fn from(error: anyhow::Error) -> Self {
        Self::Other(error)
    }
}

/// Runs the command that the process was started with.
pub fn main() -> ExitCode {
    // Before anything is allocated: what the guard has costs each of its keepers.
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == daemon::GUARD) && arguments.next().is_none() && process::is_guard() {
        return process::guard();
    }
    let Cli { global, command } = Cli::parse();
    output::set_socket(&global.socket());
    let outcome = match command {
        Command::Serve(command) => command.run(&global),
        Command::Run(command) => command.run(&global),
        Command::Proxy(command) => return command.run(&global),
        Command::Agents(command) => command.run(&global),
        Command::Doctor(command) => command.run(&global),
        Command::Completions(command) => command.run(&global),
        Command::Man(command) => command.run(&global),
        Command::Ps(command) => command.run(&global),
        Command::Stop(command) => command.run(&global),
        Command::Restart(command) => command.run(&global),
        Command::Prompt(command) => command.run(&global),
        Command::Cancel(command) => command.run(&global),
        Command::Permissions(command) => command.run(&global),
        Command::Resolve(command) => command.run(&global),
        Command::Audit(command) => command.run(&global),
        Command::Events(command) => command.run(&global),
        Command::Stderr(command) => command.run(&global),
        Command::Replay(command) => command.run(&global),
        Command::Mcp(command) => command.run(&global),
        Command::Token(command) => command.run(&global),
        Command::Shutdown(command) => command.run(&global),
        Command::Describe(command) => command.run(&global),
    };
    outcome.unwrap_or_else(|error| output::report(&error, global.json))
}
