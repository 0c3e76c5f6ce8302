//! A socket that stays at its path for as long as the daemon runs: where it is removed, as cleaners of runtime folders do,
//! it is made again. Connections that are open don't notice.

use std::fs;
use std::future::pending;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use nix::sys::stat::{Mode, umask};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::{UnixListener, UnixStream};
use tokio::time::Instant;

use super::lock::Lock;
use crate::paths;

/// How long until it is tried again to make a socket that could not be made.
const RETRY: Duration = Duration::from_secs(10);

/// A socket at its path. Dropping it removes it, if it is still there.
#[derive(Debug)]
pub struct Socket {
    path: PathBuf,
    /// `None` once another daemon was found to have it.
    lock: Option<Lock>,
    /// Beside another socket that one's lock is enough.
    has_lock: bool,
    bound: Bound,
}

#[derive(Debug)]
struct Bound {
    listener: UnixListener,
    place: Place,
    watch: Watch,
}

/// Device and inode of what stands at a path.
type Place = (u64, u64);

impl Socket {
    /// Listens; what an earlier daemon left there is replaced. `lock` is the path's own, or `None` beside a socket that has one.
    ///
    /// # Errors
    /// Something else stands there, and those of `bind(2)`.
    pub fn open(path: &Path, lock: Option<Lock>) -> anyhow::Result<Self> {
        match fs::symlink_metadata(path) {
            Ok(meta) if meta.file_type().is_socket() => fs::remove_file(path)?,
            Ok(_) => anyhow::bail!("{} is there and is no socket; move it away", path.display()),
            Err(_) => {}
        }
        Ok(Self { path: path.to_owned(), has_lock: lock.is_some(), lock, bound: Bound::at(path)? })
    }

    /// Takes connections for ever, and serves each in a task of its own.
    pub async fn serve<F: Future<Output = ()> + Send + 'static>(mut self, serve: impl Fn(UnixStream) -> F) {
        let mut retry = None;
        loop {
            tokio::select! {
                // Who has come already is served before the socket is looked for.
                biased;
                accepted = self.bound.listener.accept() => match accepted {
                    Ok((stream, _)) => drop(tokio::spawn(serve(stream))),
                    Err(error) => {
                        // Out of descriptors: the connection waits; so do we, rather than spin.
                        tracing::warn!("cannot accept a connection: {error}");
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                },
                () = self.bound.watch.changed() => retry = self.stay(),
                () = sleep_until(retry) => retry = self.stay(),
            }
        }
    }

    /// Makes it again if it is gone; when to try once more if that can't be done.
    fn stay(&mut self) -> Option<Instant> {
        if self.is_there() {
            return None;
        }
        match self.bind_again() {
            Ok(bound) => {
                self.bound = bound;
                tracing::warn!(socket = %self.path.display(), "the socket was removed; it is there again");
                None
            }
            Err(error) => {
                tracing::error!(socket = %self.path.display(), "the socket was removed and can't be made again: {error:#}");
                Some(Instant::now() + RETRY)
            }
        }
    }

    fn is_there(&self) -> bool {
        place(&self.path) == Some(self.bound.place)
    }

    /// What somebody else has put there is not replaced.
    fn bind_again(&mut self) -> anyhow::Result<Bound> {
        if self.has_lock {
            // Its file may be gone, too: the path belongs to whoever has the one that is there now.
            drop(self.lock.take());
            self.lock = Some(lock(&self.path)?);
        } else {
            paths::make_private(&paths::socket_folder(&self.path))?;
        }
        anyhow::ensure!(place(&self.path).is_none(), "something else is there now");
        Bound::at(&self.path)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if self.is_there() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Bound {
    fn at(path: &Path) -> anyhow::Result<Self> {
        // First, so that nothing is missed.
        let watch = Watch::on(&paths::socket_folder(path));
        let old = umask(Mode::from_bits_truncate(0o177));
        let listener = UnixListener::bind(path);
        umask(old);
        let listener = listener.with_context(|| format!("cannot listen on {}", path.display()))?;
        let place = place(path).with_context(|| format!("{} was removed at once", path.display()))?;
        Ok(Self { listener, place, watch })
    }
}

/// Notices what leaves a folder or takes another's place in it, and the folder's own end.
#[derive(Debug)]
struct Watch(Option<AsyncFd<OwnedFd>>);

impl Watch {
    fn on(folder: &Path) -> Self {
        let changes = WatchFlags::DELETE | WatchFlags::MOVE | WatchFlags::DELETE_SELF | WatchFlags::MOVE_SELF;
        let watch = || -> io::Result<_> {
            let watch = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
            inotify::add_watch(&watch, folder, changes)?;
            // SAFETY: an `OwnedFd` is one open descriptor for all its life.
            #[allow(unsafe_code)]
            Ok(unsafe { AsyncFd::register_with_interest(watch, Interest::READABLE) }?)
        };
        let failed = |error| tracing::warn!("cannot watch {}: a socket that is removed there is not made again: {error}", folder.display());
        Self(watch().map_err(failed).ok())
    }

    async fn changed(&self) {
        let Some(watch) = &self.0 else { return pending().await };
        // What happened is looked for where it counts.
        let read = watch.async_io(Interest::READABLE, |watch| Ok(rustix::io::read(watch, &mut [0; 4096])?)).await;
        if read.is_err() {
            pending().await
        }
    }
}

/// Makes the folder of a socket and takes its lock: no other daemon has the path then.
///
/// # Errors
/// The folder is open to others, or another daemon has the path.
pub fn lock(socket: &Path) -> anyhow::Result<Lock> {
    paths::make_private(&paths::socket_folder(socket))?;
    let mut path = socket.as_os_str().to_owned();
    path.push(".lock");
    Ok(Lock::take(Path::new(&path), socket)?)
}

async fn sleep_until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => pending().await,
    }
}

fn place(path: &Path) -> Option<Place> {
    fs::symlink_metadata(path).ok().map(|meta| (meta.dev(), meta.ino()))
}
