//! `agentctl serve`: from locks to the last agent's end.

use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use acp_bridge::process::{Guard, Limits, become_reaper, end_adopted};
use anyhow::Context as _;
use jiff::Timestamp;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigHandler, Signal};
use tokio::net::unix::pipe;
use tokio::signal::unix::{SignalKind, signal};

use super::execution;
use super::hub::{Hub, Parts, Settings, agent_environment};
use super::lock::Lock;
use super::mcp;
use super::server;
use super::socket::{self, Socket};
use super::token::Tokens;
use crate::audit::{self, Audit};
use crate::paths;

/// The argument by which this binary is told to be the guard. No command: only a daemon can start it.
pub const GUARD: &str = "guard";

/// How a daemon is started.
#[derive(Debug, Clone)]
pub struct Options {
    /// The control socket.
    pub socket: PathBuf,
    /// The state folder.
    pub state_dir: PathBuf,
    /// Whether it ends with its stdin, a pipe that its parent holds.
    pub tied: bool,
    /// What can be set.
    pub settings: Settings,
}

/// Runs a daemon until SIGTERM, SIGINT, SIGHUP or `control/shutdown`; then all its agents have ended.
///
/// # Errors
/// It could not be started. The message says why.
pub fn serve(options: Options) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
    runtime.block_on(run(options))
}

async fn run(options: Options) -> anyhow::Result<()> {
    // Before anything else: until then a SIGTERM would end us without our agents.
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let mut child = signal(SignalKind::child())?;

    let socket_lock = socket::lock(&options.socket)?;
    paths::make_private(&options.state_dir)?;
    let _state_lock = Lock::take(&options.state_dir.join("daemon.lock"), &options.state_dir)?;

    become_reaper().context("cannot become a child subreaper")?;
    ignore_file_size_signal()?;
    let limits = Limits { files: raise_descriptor_limit() };
    let guard = start_guard(limits)?;
    let (audit, recovered) = Audit::open(&options.state_dir, audit::Limits::default(), Timestamp::now())?;
    if recovered.indeterminate_claims + recovered.expired_requests > 0 {
        tracing::warn!(
            indeterminate = recovered.indeterminate_claims,
            expired = recovered.expired_requests,
            "an earlier daemon did not end cleanly; what it left open was closed"
        );
    }
    let hub = Hub::new(Parts {
        settings: options.settings,
        audit: audit.clone(),
        tokens: Tokens::open(&options.state_dir)?,
        guard,
        environment: agent_environment(std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)))),
        user_id: nix::unistd::getuid().to_string(),
        sessions: recovered.sessions,
    });
    acp_bridge::presentation::warm_up();

    let (control, mcp) = (Socket::open(&options.socket, Some(socket_lock))?, Socket::open(&paths::mcp_socket(&options.socket), None)?);
    let mcp = tokio::spawn(mcp.serve({
        let hub = hub.clone();
        move |stream| mcp::session(hub.clone(), stream)
    }));
    let control = tokio::spawn(control.serve({
        let hub = hub.clone();
        move |stream| server::connection(hub.clone(), stream)
    }));
    tracing::info!(socket = %options.socket.display(), state_dir = %options.state_dir.display(), pid = std::process::id(), "ready");
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);

    let parent = options.tied.then(parent).transpose().context("cannot watch stdin")?;
    let mut failure = None;
    loop {
        tokio::select! {
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
            _ = hangup.recv() => break,
            () = hub.shutdown.cancelled() => break,
            () = ended(parent.as_ref()) => break,
            _ = child.recv() => if hub.guard().reap() && let Err(error) = guard_is_gone(&hub, limits).await {
                failure = Some(error);
                break;
            },
        }
    }
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Stopping]);
    let live = hub.begin_shutdown();
    tracing::info!(executions = live.len(), "shutting down");
    stop_all(&hub, live).await;
    for server in [mcp, control] {
        server.abort();
        // The socket is gone then.
        let _ = server.await;
    }
    hub.guard().end().await;
    server::drain(&hub, Duration::from_millis(200)).await;
    let (closed, done) = tokio::sync::oneshot::channel();
    audit.close(move || {
        let _ = closed.send(());
    });
    let _ = done.await;
    tracing::info!("done");
    failure.map_or(Ok(()), Err)
}

/// The pipe that is our stdin.
fn parent() -> std::io::Result<pipe::Receiver> {
    pipe::Receiver::from_owned_fd(std::io::stdin().as_fd().try_clone_to_owned()?)
}

/// Waits until nobody holds the other end of that pipe.
async fn ended(parent: Option<&pipe::Receiver>) {
    let Some(parent) = parent else { return std::future::pending().await };
    while parent.readable().await.is_ok() && !matches!(parent.try_read(&mut [0; 64]), Ok(0)) {}
}

/// The guard is this binary again, whose `main` looks for [`acp_bridge::process::is_guard`].
fn start_guard(limits: Limits) -> anyhow::Result<Guard> {
    // Also when the file was replaced meanwhile.
    let mut command = Command::new("/proc/self/exe");
    Guard::start(command.arg0("agentctl").arg(GUARD), limits).context("cannot start the guard")
}

/// Without the guard nothing would end the agents after us: they end now, and a new guard starts the next ones.
async fn guard_is_gone(hub: &Hub, limits: Limits) -> anyhow::Result<()> {
    tracing::error!("the guard was killed: every agent is ended, then another guard is started");
    let live = hub.all_live();
    for exec in &live {
        exec.send(execution::Command::Abandon { reason: "the guard was killed" });
    }
    for exec in live {
        exec.ended.cancelled().await;
    }
    // What was being started, and what keepers left that were killed, too.
    for (pid, command_line) in tokio::task::spawn_blocking(end_adopted).await.unwrap_or_default() {
        tracing::error!(pid, command_line, "a process of an agent could not be ended");
    }
    hub.replace_guard(start_guard(limits)?);
    Ok(())
}

/// Stops every execution, also those that were being started meanwhile.
async fn stop_all(hub: &Arc<Hub>, mut live: Vec<Arc<super::execution::Execution>>) {
    let mut survivors = 0;
    loop {
        let stops: Vec<_> = live.into_iter().map(|exec| tokio::spawn(async move { exec.stop("daemon_stopped").await })).collect();
        for stop in stops {
            if let Ok(Some(result)) = stop.await {
                survivors += result.survivors.len();
            }
        }
        live = hub.all_live();
        if live.is_empty() && hub.live_count() == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    if survivors > 0 {
        tracing::error!(survivors, "processes of agents could not be ended");
    }
}

/// Raises the soft limit of descriptors to the hard one; returns what it was.
fn raise_descriptor_limit() -> (u64, u64) {
    let before = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or((1024, 1024));
    if let Err(error) = setrlimit(Resource::RLIMIT_NOFILE, before.1, before.1) {
        tracing::warn!("cannot raise the limit of descriptors: {error}");
    }
    before
}

/// A full disk quota must be an error of a write, not the end of the daemon.
fn ignore_file_size_signal() -> nix::Result<()> {
    // SAFETY: SIG_IGN is no handler.
    #[allow(unsafe_code)]
    unsafe {
        nix::sys::signal::signal(Signal::SIGXFSZ, SigHandler::SigIgn)?;
    }
    Ok(())
}
