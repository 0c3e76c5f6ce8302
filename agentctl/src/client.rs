//! A blocking client of the control socket, for the command line and the checks of fixtures.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::socket::{getsockopt, sockopt};
use nix::unistd::getuid;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::limits::LENT;
use crate::paths::{self, FolderError};
use crate::wire::{Event, Failure};

/// A connection to the daemon.
#[derive(Debug)]
pub struct Client {
    caller: Caller,
    reader: Reader,
}

/// The half of a connection that receives.
#[derive(Debug)]
struct Reader {
    stream: BufReader<UnixStream>,
    /// The beginning of a line whose rest did not come in time.
    line: Vec<u8>,
    /// What came while something else was waited for.
    waiting: VecDeque<Incoming>,
}

/// The half of a connection that makes calls.
#[derive(Debug)]
pub struct Caller {
    stream: UnixStream,
    next_id: u64,
}

impl Caller {
    /// Sends a call; its answer comes with the returned number.
    ///
    /// # Errors
    /// `Broken`.
    pub fn send<P: Serialize>(&mut self, method: &str, params: &P) -> Result<u64, ClientError> {
        self.send_with(method, params, &[])
    }

    /// The same, with descriptors that the daemon gets its own of.
    fn send_with<P: Serialize>(&mut self, method: &str, params: &P, lent: &[BorrowedFd<'_>]) -> Result<u64, ClientError> {
        #[derive(Serialize)]
        struct Request<'a, P> {
            jsonrpc: &'static str,
            id: u64,
            method: &'a str,
            params: &'a P,
        }
        let id = self.next_id;
        self.next_id += 1;
        let mut line = serde_json::to_vec(&Request { jsonrpc: "2.0", id, method, params }).map_err(ClientError::Unreadable)?;
        line.push(b'\n');
        let mut rest = &line[..];
        if !lent.is_empty() {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(LENT))];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            ancillary.push(SendAncillaryMessage::ScmRights(lent));
            let sent = sendmsg(&self.stream, &[IoSlice::new(rest)], &mut ancillary, SendFlags::NOSIGNAL);
            rest = &rest[sent.map_err(|errno| ClientError::Broken(errno.into()))?..];
        }
        self.stream.write_all(rest).map_err(ClientError::Broken)?;
        Ok(id)
    }
}

/// What the daemon sends.
#[derive(Debug)]
pub enum Incoming {
    /// The answer to the call with this number.
    Answer(u64, Result<Box<RawValue>, Failure>),
    /// An event.
    Event(Box<Event>),
}

/// Why a call has no result.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens there.
    #[error("no daemon listens on {socket}: {source}")]
    Unreachable {
        /// The socket.
        socket: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The socket is not one that we may trust.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// Somebody else listens there.
    #[error("{socket} is served by user {uid}, not by us")]
    Foreign {
        /// The socket.
        socket: PathBuf,
        /// Who.
        uid: u32,
    },
    /// The connection broke.
    #[error("the daemon closed the connection: {0}")]
    Broken(io::Error),
    /// The daemon says no.
    #[error("{}", .0.message)]
    Failure(Failure),
    /// The daemon says something that we don't understand.
    #[error("the daemon's answer can't be read: {0}")]
    Unreadable(serde_json::Error),
}

/// Connects to a socket, after checking that it and the daemon are this user's.
///
/// # Errors
/// `Unreachable` if nobody listens; see [`ClientError`].
pub fn open(socket: &Path) -> Result<UnixStream, ClientError> {
    let unreachable = |source| ClientError::Unreachable { socket: socket.to_owned(), source };
    match paths::check_private(&paths::socket_folder(socket)) {
        Err(FolderError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => return Err(unreachable(source)),
        checked => checked?,
    }
    let stream = UnixStream::connect(socket).map_err(unreachable)?;
    let uid = getsockopt(&stream, sockopt::PeerCredentials).map_err(|errno| unreachable(errno.into()))?.uid();
    if uid != getuid().as_raw() {
        return Err(ClientError::Foreign { socket: socket.to_owned(), uid });
    }
    Ok(stream)
}

impl Client {
    /// Connects, after checking that socket and daemon are this user's.
    ///
    /// # Errors
    /// `Unreachable` if nobody listens; see [`ClientError`].
    pub fn connect(socket: &Path) -> Result<Self, ClientError> {
        let stream = open(socket)?;
        let writer = stream.try_clone().map_err(|source| ClientError::Unreachable { socket: socket.to_owned(), source })?;
        Ok(Self {
            caller: Caller { stream: writer, next_id: 0 },
            reader: Reader { stream: BufReader::new(stream), line: Vec::new(), waiting: VecDeque::new() },
        })
    }

    /// Makes a call and waits for its result. Events that come meanwhile are kept for [`recv`](Self::recv).
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn call<P: Serialize, R: DeserializeOwned>(&mut self, method: &str, params: &P) -> Result<R, ClientError> {
        let id = self.send(method, params)?;
        let result = self.answer(id)?;
        serde_json::from_str(result.get()).map_err(ClientError::Unreadable)
    }

    /// Sends a call; its answer comes with the returned number.
    ///
    /// # Errors
    /// `Broken`.
    pub fn send<P: Serialize>(&mut self, method: &str, params: &P) -> Result<u64, ClientError> {
        self.caller.send(method, params)
    }

    /// Sends a call with descriptors, of which the daemon gets its own. To be the first one of the connection.
    ///
    /// # Errors
    /// `Broken`.
    pub fn send_with<P: Serialize>(&mut self, method: &str, params: &P, lent: &[BorrowedFd<'_>]) -> Result<u64, ClientError> {
        self.caller.send_with(method, params, lent)
    }

    /// Hands on everything that comes, from a thread of its own, until the connection breaks (told last) or `to` returns
    /// false. Calls are made with what is returned; their answers come like everything else.
    pub fn forward(self, to: impl Fn(Result<Incoming, ClientError>) -> bool + Send + 'static) -> Caller {
        let Self { caller, mut reader } = self;
        std::thread::spawn(move || {
            loop {
                let incoming = reader.recv();
                let broken = incoming.is_err();
                if !to(incoming) || broken {
                    return;
                }
            }
        });
        caller
    }

    /// Waits for the answer to a call.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn answer(&mut self, id: u64) -> Result<Box<RawValue>, ClientError> {
        let Reader { waiting, .. } = &mut self.reader;
        if let Some(at) = waiting.iter().position(|i| matches!(i, Incoming::Answer(n, _) if *n == id))
            && let Some(Incoming::Answer(_, outcome)) = waiting.remove(at)
        {
            return outcome.map_err(ClientError::Failure);
        }
        loop {
            match self.reader.read()? {
                Incoming::Answer(n, outcome) if n == id => return outcome.map_err(ClientError::Failure),
                other => self.reader.waiting.push_back(other),
            }
        }
    }

    /// What came while an answer was waited for, without waiting.
    pub fn pending(&mut self) -> Option<Incoming> {
        self.reader.waiting.pop_front()
    }

    /// Waits for whatever comes next.
    ///
    /// # Errors
    /// See [`ClientError`]; a failed call is an `Answer`, not an error.
    pub fn recv(&mut self) -> Result<Incoming, ClientError> {
        self.reader.recv()
    }

    /// Bounds every wait of this client; one that takes longer is `Broken` with `WouldBlock`.
    ///
    /// # Errors
    /// `Broken`.
    pub fn set_timeout(&mut self, timeout: Option<Duration>) -> Result<(), ClientError> {
        self.reader.stream.get_ref().set_read_timeout(timeout).map_err(ClientError::Broken)
    }
}

impl Reader {
    fn recv(&mut self) -> Result<Incoming, ClientError> {
        match self.waiting.pop_front() {
            Some(incoming) => Ok(incoming),
            None => self.read(),
        }
    }

    fn read(&mut self) -> Result<Incoming, ClientError> {
        #[derive(Deserialize)]
        struct Message {
            id: Option<u64>,
            result: Option<Box<RawValue>>,
            error: Option<Failure>,
            params: Option<Box<Event>>,
        }
        let n = self.stream.read_until(b'\n', &mut self.line).map_err(ClientError::Broken)?;
        if n == 0 {
            return Err(ClientError::Broken(io::ErrorKind::UnexpectedEof.into()));
        }
        let line = std::mem::take(&mut self.line);
        let message: Message = serde_json::from_slice(&line).map_err(ClientError::Unreadable)?;
        match message {
            Message { params: Some(event), .. } => Ok(Incoming::Event(event)),
            Message { id: Some(id), error: Some(failure), .. } => Ok(Incoming::Answer(id, Err(failure))),
            Message { id: Some(id), result, .. } => Ok(Incoming::Answer(id, Ok(result.unwrap_or_else(|| RawValue::NULL.to_owned())))),
            Message { error: Some(failure), .. } => Err(ClientError::Failure(failure)),
            Message { .. } => Err(ClientError::Broken(io::ErrorKind::InvalidData.into())),
        }
    }
}
