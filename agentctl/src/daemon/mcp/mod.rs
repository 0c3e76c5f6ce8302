//! The external MCP endpoint: a second socket, on which the daemon itself speaks MCP. The only module that names `rmcp`.
//!
//! A session is a caller like every other: it has a [`Connection`] of its own, whose surface is `external_mcp` because it came
//! through this socket, and its tools make the calls of the control socket on it. Events come to it as to a client, over a
//! pair of sockets within the process. Nothing but two tools and one resource is exposed.

mod server;
mod strict;
mod tools;
mod transport;

use std::sync::Arc;

use rmcp::ServiceExt as _;
use tokio::net::UnixStream;

use super::hub::Hub;
use super::methods;
use super::peer::Peer;
use super::server::{Connection, close, is_of_our_user};
use super::visitor::Visitor;
use crate::domain::Source;
use crate::wire::{Incoming, response_line};
use server::Server;
use transport::Lines;

/// Serves an MCP client.
pub async fn session(hub: Arc<Hub>, stream: UnixStream) {
    let visitor = Visitor::of(&stream);
    if !is_of_our_user(&stream) {
        return;
    }
    let Ok((near, events)) = UnixStream::pair() else { return };
    let Ok(peer) = Peer::new(near).await else { return };
    let mut lines = Lines::new(stream);
    if let Err(refusal) = Connection::reserve(&hub) {
        let _ = lines.write(&refusal).await;
        return;
    }
    let connection = Connection::open(hub, Source::ExternalMcp, visitor, peer);
    let writer = tokio::spawn({
        let connection = connection.clone();
        async move { connection.peer.write_backlog().await }
    });
    if greet(&connection, &mut lines).await
        && let Ok(running) = Server::new(connection.clone(), events).serve(lines).await
    {
        let _ = running.waiting().await;
    }
    close(&connection);
    writer.abort();
}

/// Answers a `control/hello`, which may come before all else: so a client says with which token it calls. False if that failed.
async fn greet(connection: &Arc<Connection>, lines: &mut Lines) -> bool {
    let Some(first) = lines.peek().await else { return false };
    let Incoming::Call(call) = crate::wire::parse(first) else { return true };
    if !methods::is_hello(&call.method) {
        return true;
    }
    lines.skip();
    let outcome = methods::call(connection, &call.method, call.params, true).await;
    let (result, after) = outcome.map_or_else(|failure| (Err(failure), None), |done| (Ok(done.result), done.after));
    if let Some(after) = after {
        after();
    }
    lines.write(&response_line(call.id.as_ref(), &result)).await.is_ok() && result.is_ok()
}
