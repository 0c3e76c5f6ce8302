//! Whether a caller runs inside a supervised agent: such a one answers nothing, not even with a token.
//!
//! A guard, not a boundary: SECURITY.md says what it does not cover.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use acp_bridge::process::{PeerProcess, Standing};
use nix::unistd::Pid;
use tokio::sync::OnceCell;

use super::hub::Hub;
use crate::code::Code;
use crate::limits::LOGGED_REPORTS;
use crate::wire::Failure;

/// The variable by which every process of an agent is known.
pub const MARK: &str = "AGENTCTL_EXECUTION_ID";

/// `/proc` answers at once, unless the process that is looked at prevents it.
const LOOK_WAIT: Duration = Duration::from_secs(2);

/// Who connected.
#[derive(Debug)]
pub struct Visitor {
    process: Option<Arc<PeerProcess>>,
    standing: OnceCell<Standing>,
}

impl Visitor {
    /// Takes hold of who connected; it is looked at by its first call that needs that.
    pub fn of(socket: &impl AsFd) -> Self {
        Self { process: PeerProcess::of(socket).ok().map(Arc::new), standing: OnceCell::new() }
    }

    /// Whether it is still there and runs outside every agent.
    ///
    /// # Errors
    /// `approver_is_supervised`.
    pub async fn admit(&self, hub: &Hub) -> Result<(), Failure> {
        let gone =
            || Failure::because(Code::ApproverIsSupervised, "It can't be told where the caller runs: it has ended, or /proc hides it.");
        let process = self.process.as_ref().ok_or_else(gone)?;
        match self.standing.get_or_init(|| look(hub, process.clone())).await {
            // Whoever else has the connection now is not known.
            Standing::Outside if process.is_alive() => Ok(()),
            Standing::Outside | Standing::Unknown => Err(gone()),
            Standing::Inside => Err(Code::ApproverIsSupervised.into()),
        }
    }
}

async fn look(hub: &Hub, process: Arc<PeerProcess>) -> Standing {
    let leaders: Vec<Pid> = hub.all_live().iter().filter_map(|execution| execution.info().pid).map(Pid::from_raw).collect();
    let looked = tokio::task::spawn_blocking(move || process.standing(MARK, std::env::var(MARK).ok().as_deref(), &leaders));
    let standing = tokio::time::timeout(LOOK_WAIT, looked).await.ok().and_then(Result::ok).unwrap_or(Standing::Unknown);
    if standing != Standing::Outside && hub.refused_visitors.fetch_add(1, Ordering::Relaxed) < LOGGED_REPORTS {
        tracing::warn!(?standing, "a connection from inside an agent, or from where can't be told, was refused");
    }
    standing
}
