//! Agents that are started again: because somebody wants it, or as their policy says.

pub mod plan;

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use tokio::sync::oneshot;
use uuid::Uuid;

use super::execution::{Client, Execution, Started};
use super::hub::Hub;
use super::methods::{reserve, start};
use crate::code::Code;
use crate::domain::timestamp_text;
use crate::wire::{Failure, RestartInfo};
use plan::{Ended, Next, Plan};

/// An agent that was started again.
pub struct Again {
    /// Its execution.
    pub execution: Arc<Execution>,
    /// Gets the outcome of its start.
    pub ready: oneshot::Receiver<Started>,
}

/// Starts what an execution that has ended was started with, for its session. It goes on with `acp_session` where the agent can.
///
/// # Errors
/// Those of `execution/start`; an editor's agent can't be started again.
pub async fn again(hub: &Arc<Hub>, before: &Execution, acp_session: Option<String>) -> Result<Again, Failure> {
    let recipe = before.recipe.clone().ok_or(Code::ExecutionProxied)?;
    let reservation = reserve(hub, &before.key, &recipe).await?;
    let (to, ready) = oneshot::channel();
    let execution = start(hub, reservation, before.key.clone(), recipe, Client::Us(to, acp_session), None).await?;
    Ok(Again { execution, ready })
}

/// Starts an agent's successors, for as long as its policy says.
pub fn keep(hub: Arc<Hub>, execution: Arc<Execution>) {
    if execution.recipe.as_ref().is_some_and(|recipe| !recipe.restart.is_never()) {
        tokio::spawn(kept(hub, execution));
    }
}

async fn kept(hub: Arc<Hub>, mut execution: Arc<Execution>) {
    let policy = execution.recipe.as_ref().map(|recipe| recipe.restart).unwrap_or_default();
    let mut plan = Plan::new(policy);
    let mut acp_session = execution.acp_session_id();
    let mut failure: Option<Failure> = None;
    execution.set_restart(&hub, RestartInfo { policy, ..RestartInfo::default() });
    loop {
        let begun = Instant::now();
        execution.ended.cancelled().await;
        let (how, ran) = if failure.is_some() { (Ended::Failed, Duration::ZERO) } else { (execution.how_it_ended(), begun.elapsed()) };
        let delay = match plan.ended(how, ran, Instant::now(), chance()) {
            Next::Nothing => return,
            Next::Park(reason) => {
                let last = failure.map(|failure| format!("; the last start: {}", failure.message)).unwrap_or_default();
                return execution.park(&hub, reason + &last);
            }
            Next::After(delay) => delay,
        };
        let due = SignedDuration::try_from(delay).ok().and_then(|delay| Timestamp::now().checked_add(delay).ok());
        let info = RestartInfo { policy, count: plan.count(), next_at: due.map(timestamp_text) };
        execution.set_restart(&hub, info.clone());
        let wanted = tokio::select! {
            () = tokio::time::sleep(delay) => true,
            () = execution.no_restart.cancelled() => false,
            () = hub.shutdown.cancelled() => false,
        };
        let info = RestartInfo { next_at: None, ..info };
        execution.set_restart(&hub, info.clone());
        if !wanted {
            return;
        }
        failure = match again(&hub, &execution, acp_session.clone()).await {
            Ok(again) => {
                execution = again.execution;
                execution.set_restart(&hub, info);
                again.ready.await.unwrap_or_else(|_| Err(Code::AgentExited.into())).err()
            }
            // Somebody else has the session now.
            Err(failure) if failure.stable_code() == Some(Code::SessionBusy) => return,
            Err(failure) => Some(failure),
        };
        match &failure {
            None => acp_session = execution.acp_session_id(),
            Some(failure) => tracing::warn!(session_id = %execution.key.session_id, "a restart failed: {}", failure.message),
        }
    }
}

/// From 0 to 1.
fn chance() -> f64 {
    f64::from((Uuid::new_v4().as_u128() >> 96) as u32) / f64::from(u32::MAX)
}
