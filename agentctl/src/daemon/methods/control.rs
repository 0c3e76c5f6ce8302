//! `control/*`: the daemon itself.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{After, Method, raw};
use crate::code::Code;
use crate::daemon::server::Connection;
use crate::daemon::token::Grant;
use crate::domain::timestamp_text;
use crate::wire::{
    Access, DescribeResult, Event, Failure, HelloParams, HelloResult, NoParams, PROTOCOL_VERSION, PrincipalInfo, Raw, ServerInfo,
    ShutdownResult, StatusResult, event_line,
};

pub(super) struct Hello;
pub(super) struct Describe;
pub(super) struct Status;
pub(super) struct Shutdown;

impl Method for Hello {
    const NAME: &'static str = "control/hello";
    const ACCESS: Access = Access::Anyone;
    const ABOUT: &'static str = "Tells versions and as whom the client is known. Optional, and only as the first call of a connection.";
    type Params = HelloParams;
    type Result = HelloResult;

    async fn call(connection: &Arc<Connection>, params: HelloParams) -> Result<HelloResult, Failure> {
        // Before anything else can fail: a client with a token never gets the rights of its user id.
        if let Some(secret) = &params.token {
            connection.authenticate(secret)?;
        }
        if params.protocol_version != PROTOCOL_VERSION {
            return Err(Failure::params(format!("protocol_version {} is not served; {PROTOCOL_VERSION} is", params.protocol_version)));
        }
        tracing::debug!(connection = connection.id, client = params.client, "hello");
        let actor = connection.actor();
        Ok(HelloResult {
            protocol_version: PROTOCOL_VERSION,
            server: server(),
            principal: PrincipalInfo { user_id: actor.user_id.clone(), kind: actor.kind, operator: connection.principal().is_operator() },
        })
    }
    fn after(connection: &Arc<Connection>, _: &HelloResult) -> Option<After> {
        let (connection, grant) = (connection.clone(), connection.principal().grant()?.clone());
        Some(Box::new(move || drop(tokio::spawn(end_subscription(connection, grant)))))
    }
}

/// Tells a subscriber when its token has ended; nothing else of its connection is kept.
async fn end_subscription(connection: Arc<Connection>, grant: Arc<Grant>) {
    let bus = &connection.hub.bus;
    if connection.gone.run_until_cancelled(grant.ended()).await.is_some() && bus.unsubscribe(connection.id) {
        let seq = bus.seq();
        let event =
            Event { seq, event_type: "subscription_ended".into(), reason: Some(Code::TokenNotValid.as_str().into()), ..Event::default() };
        connection.peer.events(seq, 1, event_line(&event));
    }
}

impl Method for Describe {
    const NAME: &'static str = "control/describe";
    const ACCESS: Access = Access::Anyone;
    const ABOUT: &'static str = "Describes every method with the JSON Schemas of its params and result, events and stable codes.";
    type Params = NoParams;
    type Result = DescribeResult;

    async fn call(_: &Arc<Connection>, _: NoParams) -> Result<DescribeResult, Failure> {
        Ok(super::schema())
    }
}

impl Method for Status {
    const NAME: &'static str = "control/status";
    const ACCESS: Access = Access::Anyone;
    const ABOUT: &'static str = "Tells how the daemon is: what lives, and the counters of the audit.";
    type Params = NoParams;
    type Result = StatusResult;

    async fn call(connection: &Arc<Connection>, _: NoParams) -> Result<StatusResult, Failure> {
        let hub = &connection.hub;
        Ok(StatusResult {
            server: server(),
            pid: std::process::id(),
            started_at: timestamp_text(hub.started_at),
            executions: hub.live_count(),
            max_executions: hub.settings.max_executions,
            connections: hub.connections.load(Ordering::Relaxed),
            audit: Raw(raw(&hub.audit.counters())),
        })
    }
}

impl Method for Shutdown {
    const NAME: &'static str = "control/shutdown";
    const ACCESS: Access = Access::Operator;
    const ABOUT: &'static str = "Stops every execution, then the daemon; answers as soon as that has begun.";
    type Params = NoParams;
    type Result = ShutdownResult;

    async fn call(connection: &Arc<Connection>, _: NoParams) -> Result<ShutdownResult, Failure> {
        Ok(ShutdownResult { stopping: connection.hub.begin_shutdown().len() })
    }
}

fn server() -> ServerInfo {
    ServerInfo { name: "agentctl".into(), version: env!("CARGO_PKG_VERSION").into() }
}
