//! MCP's lines on the socket, bounded as those of the control socket.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use acp_bridge::frame::{Line, LineReader};
use acp_bridge::presentation::escape_json_line;
use rmcp::RoleServer;
use rmcp::model::{ClientJsonRpcMessage, ErrorData, GetExtensions as _, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Mutex, Notify};

use super::strict;
use crate::limits::{CONTROL_LINE, MCP_CALLS};

/// A client's stream.
pub(super) struct Lines {
    stream: OwnedReadHalf,
    reader: LineReader,
    scratch: Vec<u8>,
    /// Lines that have come; `None` for one that was too long.
    waiting: VecDeque<Option<Vec<u8>>>,
    /// Held while one whole line is written.
    writer: Arc<Mutex<OwnedWriteHalf>>,
    load: Arc<Load>,
}

/// What a client has asked for and not yet read.
#[derive(Default)]
struct Load {
    units: AtomicUsize,
    less: Notify,
}

/// A call that is carried out, or a message that is being written.
#[derive(Clone)]
struct Unit(#[expect(dead_code, reason = "counted by its drop")] Arc<Counted>);

struct Counted(Arc<Load>);

impl Unit {
    fn new(load: &Arc<Load>) -> Self {
        load.units.fetch_add(1, Ordering::Relaxed);
        Self(Arc::new(Counted(load.clone())))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.units.fetch_sub(1, Ordering::Relaxed);
        self.0.less.notify_waiters();
    }
}

impl Load {
    /// Waits until there is room for another call.
    async fn has_room(&self) {
        loop {
            let less = self.less.notified();
            if self.units.load(Ordering::Relaxed) < MCP_CALLS {
                return;
            }
            less.await;
        }
    }
}

impl Lines {
    pub(super) fn new(stream: UnixStream) -> Self {
        let (stream, writer) = stream.into_split();
        Self {
            stream,
            reader: LineReader::new(CONTROL_LINE),
            scratch: vec![0; 16 * 1024],
            waiting: VecDeque::new(),
            writer: Arc::new(Mutex::new(writer)),
            load: Arc::default(),
        }
    }

    /// The next line, which stays the next; `None` at the end. An overlong one is empty.
    pub(super) async fn peek(&mut self) -> Option<&[u8]> {
        while self.waiting.is_empty() {
            self.stream.readable().await.ok()?;
            // From here on nothing waits: a line is never lost by a caller that gives up.
            let n = match self.stream.try_read(&mut self.scratch) {
                Ok(0) => return None,
                Ok(n) => n,
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => continue,
                Err(_) => return None,
            };
            let waiting = &mut self.waiting;
            self.reader.feed(&self.scratch[..n], |line| {
                waiting.push_back(match line {
                    Line::Whole(line) => Some(line.to_vec()),
                    Line::TooLong { .. } => None,
                });
            });
        }
        Some(self.waiting.front()?.as_deref().unwrap_or_default())
    }

    /// Drops the next line.
    pub(super) fn skip(&mut self) {
        self.waiting.pop_front();
    }

    /// Writes one whole line.
    pub(super) async fn write(&self, line: &[u8]) -> io::Result<()> {
        self.writer.lock().await.write_all(line).await
    }

    /// Answers what is no message.
    async fn refuse(&mut self, error: ErrorData) -> io::Result<()> {
        self.send(ServerJsonRpcMessage::error(error, None)).await
    }
}

impl Transport<RoleServer> for Lines {
    type Error = io::Error;

    fn send(&mut self, message: ServerJsonRpcMessage) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let (writer, unit) = (self.writer.clone(), Unit::new(&self.load));
        async move {
            let text = serde_json::to_string(&message)?;
            let mut line = escape_json_line(&text).into_owned();
            line.push('\n');
            let written = writer.lock().await.write_all(line.as_bytes()).await;
            drop(unit);
            written
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            let load = self.load.clone();
            load.has_room().await;
            self.peek().await?;
            let Some(line) = self.waiting.pop_front()? else {
                let text = format!("the line is over the limit of {CONTROL_LINE} bytes");
                self.refuse(ErrorData::invalid_request(text, None)).await.ok()?;
                continue;
            };
            if line.trim_ascii().is_empty() {
                continue;
            }
            let message = strict::check(&line).and_then(|()| serde_json::from_slice::<ClientJsonRpcMessage>(&line));
            match message {
                Ok(mut message) => {
                    if let ClientJsonRpcMessage::Request(request) = &mut message {
                        request.request.extensions_mut().insert(Unit::new(&self.load));
                    }
                    return Some(message);
                }
                Err(error) => {
                    let text = error.to_string();
                    let text = text.split(" at line ").next().unwrap_or_default().to_owned();
                    self.refuse(ErrorData::invalid_request(text, None)).await.ok()?;
                }
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.writer.lock().await.shutdown().await
    }
}
