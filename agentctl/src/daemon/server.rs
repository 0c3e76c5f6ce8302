//! Connections of the control socket: lines in, calls carried out side by side, answers as they finish.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use acp_bridge::frame::{Line, LineReader};
use acp_bridge::id::RpcId;
use bytes::Bytes;
use nix::unistd::getuid;
use parking_lot::Mutex;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, recvmsg};
use serde_json::value::RawValue;
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::bus::Subscriber;
use super::hub::Hub;
use super::methods;
use super::peer::Peer;
use super::principal::Principal;
use super::visitor::Visitor;
use crate::code::Code;
use crate::domain::{Actor, Source};
use crate::limits::{CONNECTION_REQUESTS, CONNECTIONS, CONTROL_LINE, LENT};
use crate::wire::{self, Access, Call, Failure, Incoming, response_line};

static NEXT_CONNECTION: AtomicU64 = AtomicU64::new(1);

/// One client, as the methods see it.
#[derive(Debug)]
pub struct Connection {
    /// The daemon.
    pub hub: Arc<Hub>,
    /// Its number.
    pub id: u64,
    /// Through which surface it came; set here, never read from the wire.
    source: Source,
    principal: OnceLock<Principal>,
    /// Which process it is, and where that runs.
    pub visitor: Visitor,
    /// Where answers and events go.
    pub peer: Arc<Peer>,
    /// Whether a call was seen: `control/hello` is only served as the first.
    pub greeted: std::sync::atomic::AtomicBool,
    /// Held by a call with a large answer: one at a time, and only while the client reads.
    large: tokio::sync::Mutex<()>,
    /// A subscription that begins right after its answer.
    pub subscribing: Mutex<Option<Subscriber>>,
    /// Descriptors that came with the first bytes; only the first call can use them.
    pub lent: Mutex<Vec<OwnedFd>>,
    bound: Mutex<Bound>,
    /// Cancelled when the client is gone.
    pub gone: CancellationToken,
}

/// Executions that end with a connection.
#[derive(Debug, Default)]
struct Bound {
    executions: Vec<Uuid>,
    closed: bool,
}

impl Connection {
    /// Takes a place for a new connection, which [`close`] gives back.
    ///
    /// # Errors
    /// There are too many; the line says so to the client.
    pub fn reserve(hub: &Hub) -> Result<(), Bytes> {
        if hub.connections.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS {
            hub.connections.fetch_sub(1, Ordering::Relaxed);
            let failure = Failure::because(Code::LimitReached, format!("{CONNECTIONS} connections are open; no more are taken."));
            return Err(response_line(None, &Err(failure)));
        }
        Ok(())
    }

    /// A connection that came through this surface and has its place.
    pub fn open(hub: Arc<Hub>, source: Source, visitor: Visitor, peer: Peer) -> Arc<Self> {
        Arc::new(Self {
            source,
            principal: OnceLock::new(),
            visitor,
            id: NEXT_CONNECTION.fetch_add(1, Ordering::Relaxed),
            hub,
            peer: Arc::new(peer),
            greeted: false.into(),
            large: tokio::sync::Mutex::default(),
            subscribing: Mutex::default(),
            lent: Mutex::default(),
            bound: Mutex::default(),
            gone: CancellationToken::new(),
        })
    }

    /// As whom it calls: as the operator, unless its first call said otherwise.
    pub fn principal(&self) -> &Principal {
        self.principal.get_or_init(|| Principal::operator(&self.hub.user_id, self.source))
    }

    /// Who is recorded to have called.
    pub fn actor(&self) -> &Actor {
        &self.principal().actor
    }

    /// Makes it call by a token from now on. If that fails it has no rights at all.
    ///
    /// # Errors
    /// `token_not_valid`.
    pub fn authenticate(&self, secret: &str) -> Result<(), Failure> {
        let principal = self.principal.get_or_init(|| Principal::of_token(&self.hub.tokens, secret, self.source));
        principal.may(Access::Owner, &self.hub.tokens)
    }

    /// Whether the client is gone.
    pub fn is_closed(&self) -> bool {
        self.bound.lock().closed
    }

    /// Lets an execution end with this connection; false if the connection is gone already.
    pub fn bind(&self, execution_id: Uuid) -> bool {
        let mut bound = self.bound.lock();
        if !bound.closed {
            bound.executions.push(execution_id);
        }
        !bound.closed
    }
}

/// Waits until every call has its answer, for a moment: after the last execution's end there is nothing to wait for.
pub async fn drain(hub: &Hub, at_most: Duration) {
    let deadline = tokio::time::Instant::now() + at_most;
    while hub.calls.load(Ordering::Relaxed) > 0 && tokio::time::Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Serves a client of the control socket.
pub async fn connection(hub: Arc<Hub>, stream: UnixStream) {
    let visitor = Visitor::of(&stream);
    if !is_of_our_user(&stream) {
        return;
    }
    let Ok(peer) = Peer::new(stream).await else { return };
    if let Err(refusal) = Connection::reserve(&hub) {
        return peer.answer(refusal);
    }
    let connection = Connection::open(hub, Source::ControlSocket, visitor, peer);
    let peer = connection.peer.clone();
    let writer = tokio::spawn({
        let peer = peer.clone();
        async move { peer.write_backlog().await }
    });
    let slots = read_calls(&connection).await;
    answer_half_closed(&peer, &slots).await;
    close(&connection);
    writer.abort();
}

/// Whether a client has our user id; another's is refused.
pub fn is_of_our_user(stream: &UnixStream) -> bool {
    let ours = stream.peer_cred().is_ok_and(|credentials| credentials.uid() == getuid().as_raw());
    if !ours {
        tracing::warn!("a connection of another user was refused");
    }
    ours
}

/// Undoes what a connection was for, when its client is gone.
pub fn close(connection: &Connection) {
    let hub = &connection.hub;
    hub.bus.unsubscribe(connection.id);
    connection.peer.close();
    connection.gone.cancel();
    let bound = {
        let mut bound = connection.bound.lock();
        bound.closed = true;
        std::mem::take(&mut bound.executions)
    };
    for execution in bound.into_iter().filter_map(|id| hub.execution(id)) {
        tokio::spawn(async move { execution.stop("its starter's connection closed").await });
    }
    hub.connections.fetch_sub(1, Ordering::Relaxed);
}

/// A client that has closed its half only, as `socat` does at the end of its input, still gets every answer whole.
async fn answer_half_closed(peer: &Peer, slots: &Semaphore) {
    let mut pause = Duration::from_millis(2);
    let is_answered = || slots.available_permits() == CONNECTION_REQUESTS && peer.is_idle();
    while !peer.is_hung_up() && !is_answered() {
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(256));
    }
}

/// Reads until the client sends no more. Returns the slots of its calls: one is free for each that was answered.
async fn read_calls(connection: &Arc<Connection>) -> Arc<Semaphore> {
    let peer = &connection.peer;
    let slots = Arc::new(Semaphore::new(CONNECTION_REQUESTS));
    let mut reader = LineReader::new(CONTROL_LINE);
    let mut scratch = vec![0; 16 * 1024];
    let (mut first, mut looked) = (true, false);
    loop {
        // A client that does not read its answers gets no further ones.
        peer.has_room().await;
        if peer.stream().readable().await.is_err() {
            return slots;
        }
        let n = match peer.stream().try_io(Interest::READABLE, || receive(peer.stream(), &mut scratch)) {
            Ok((0, _)) => return slots,
            Ok((n, lent)) => {
                if std::mem::take(&mut first) {
                    *connection.lent.lock() = lent;
                }
                n
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => continue,
            Err(_) => return slots,
        };
        let mut incoming = Vec::new();
        reader.feed(&scratch[..n], |line| {
            incoming.push(match line {
                Line::Whole(line) => wire::parse(line),
                Line::TooLong { bytes } => {
                    Incoming::Wrong(Failure::rpc(-32700, format!("a line of {bytes} bytes is over the limit of {CONTROL_LINE}")))
                }
            });
        });
        let some = !incoming.is_empty();
        for incoming in incoming {
            match incoming {
                Incoming::Nothing => {}
                Incoming::Wrong(failure) => peer.answer(response_line(None, &Err(failure))),
                Incoming::Call(call) => {
                    let Ok(slot) = slots.clone().acquire_owned().await else { return slots };
                    if methods::is_hello(&call.method) {
                        // Nothing that follows it is carried out as somebody else.
                        carry_out(connection, call).await;
                        continue;
                    }
                    if !std::mem::replace(&mut looked, true) {
                        // Where the caller runs takes a moment to tell: nothing piles up meanwhile. Each call hears what came of it.
                        let _ = connection.visitor.admit(&connection.hub).await;
                    }
                    let connection = connection.clone();
                    // Not tied to the connection: a client that goes away does not undo its call.
                    tokio::spawn(async move {
                        carry_out(&connection, call).await;
                        drop(slot);
                    });
                }
            }
        }
        if some {
            // Waiting for what is already there gives nobody else a turn: these calls first, then the next ones are read.
            tokio::task::yield_now().await;
        }
    }
}

/// Reads, and takes what descriptors came along: a plain read would lose them silently. More than can be used are none.
fn receive(stream: &UnixStream, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(LENT))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let received = recvmsg(stream, &mut [IoSliceMut::new(buffer)], &mut ancillary, flags)?;
    let mut lent: Vec<OwnedFd> = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            lent.extend(descriptors);
        }
    }
    if received.flags.contains(ReturnFlags::CTRUNC) {
        lent.clear();
    }
    Ok((received.bytes, lent))
}

/// A call that is being carried out. It is answered whatever happens: if its handler panics, with an error.
struct Running {
    connection: Arc<Connection>,
    id: Option<RpcId>,
}

impl Running {
    fn new(connection: &Arc<Connection>, id: Option<RpcId>) -> Self {
        connection.hub.calls.fetch_add(1, Ordering::Relaxed);
        Self { connection: connection.clone(), id }
    }

    fn answer(mut self, result: &Result<Box<RawValue>, Failure>) {
        if let Some(id) = self.id.take() {
            self.connection.peer.answer(response_line(Some(&id), result));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            self.connection.peer.answer(response_line(Some(&id), &Err(Code::Internal.into())));
        }
        self.connection.hub.calls.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn carry_out(connection: &Arc<Connection>, call: Call) {
    let first = !connection.greeted.swap(true, Ordering::Relaxed);
    if !(first && methods::takes_descriptors(&call.method)) {
        connection.lent.lock().clear();
    }
    let running = Running::new(connection, call.id);
    let _large = if methods::has_large_answer(&call.method) {
        let large = connection.large.lock().await;
        connection.peer.has_room().await;
        Some(large)
    } else {
        None
    };
    let outcome = methods::call(connection, &call.method, call.params, first).await;
    let (result, after) = match outcome {
        Ok(done) => (Ok(done.result), done.after),
        Err(failure) => (Err(failure), None),
    };
    running.answer(&result);
    // In the same step: no event can come between the answer and what follows it.
    if let Some(after) = after {
        after();
    }
}
