//! Descriptors of another process, read and written without waiting and without a change that their other holders see.
//!
//! `O_NONBLOCK` belongs to the open file, which the lender, its parent and others share: it is never set here.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use rustix::io::{ReadWriteFlags, preadv2, pwritev2, read, writev};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, sendmsg};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// One end of a pipe, a socket or a terminal that somebody else opened.
#[derive(Debug)]
pub struct Lent {
    fd: AsyncFd<OwnedFd>,
    how: How,
}

/// How not to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    /// An open file of our own on the same pipe or terminal, non-blocking.
    Reopened,
    /// `MSG_DONTWAIT` in each call.
    Socket,
    /// `RWF_NOWAIT` in each call: a pipe of another user can't be opened again.
    EachCall,
}

impl Lent {
    /// Takes a descriptor to read from.
    ///
    /// # Errors
    /// `InvalidInput` if it is no pipe, socket or terminal; those of opening it again.
    pub fn reader(fd: OwnedFd) -> io::Result<Self> {
        Self::new(fd, OFlags::RDONLY, Interest::READABLE)
    }

    /// Takes a descriptor to write to.
    ///
    /// # Errors
    /// Like [`reader`](Self::reader).
    pub fn writer(fd: OwnedFd) -> io::Result<Self> {
        Self::new(fd, OFlags::WRONLY, Interest::WRITABLE)
    }

    fn new(fd: OwnedFd, direction: OFlags, interest: Interest) -> io::Result<Self> {
        let kind = FileType::from_raw_mode(fstat(&fd)?.st_mode);
        let (fd, how) = match kind {
            FileType::Socket => (fd, How::Socket),
            FileType::Fifo => match reopen(&fd, direction) {
                Ok(own) => (own, How::Reopened),
                Err(rustix::io::Errno::ACCESS | rustix::io::Errno::PERM) => (fd, How::EachCall),
                Err(error) => return Err(error.into()),
            },
            FileType::CharacterDevice if rustix::termios::isatty(&fd) => (reopen(&fd, direction | OFlags::NOCTTY)?, How::Reopened),
            _ => return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no pipe, socket or terminal")),
        };
        // SAFETY: an `OwnedFd` is one open descriptor for all its life.
        #[allow(unsafe_code)]
        let fd = unsafe { AsyncFd::register_with_interest(fd, interest) }?;
        Ok(Self { fd, how })
    }

    /// Waits until there may be something to read. An error is met by the next read.
    pub async fn readable(&self) {
        let _ = self.fd.readable().await;
    }

    /// Waits until something may be written. An error is met by the next write.
    pub async fn writable(&self) {
        let _ = self.fd.writable().await;
    }

    /// Reads what is there.
    ///
    /// # Errors
    /// `WouldBlock` if nothing is.
    pub fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.fd.try_io(Interest::READABLE, |fd| {
            Ok(match self.how {
                How::Reopened => read(fd, buffer)?,
                How::Socket => recv(fd, buffer, RecvFlags::DONTWAIT)?.0,
                How::EachCall => preadv2(fd, &mut [IoSliceMut::new(buffer)], u64::MAX, ReadWriteFlags::NOWAIT)?,
            })
        })
    }

    /// Writes as much as is taken at once.
    ///
    /// # Errors
    /// `WouldBlock` if nothing is.
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        let slices = [IoSlice::new(bytes)];
        self.fd.try_io(Interest::WRITABLE, |fd| {
            Ok(match self.how {
                How::Reopened => writev(fd, &slices)?,
                How::Socket => sendmsg(fd, &slices, &mut SendAncillaryBuffer::default(), SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?,
                How::EachCall => pwritev2(fd, &slices, u64::MAX, ReadWriteFlags::NOWAIT)?,
            })
        })
    }

    /// Whether nobody holds the other end any more.
    pub fn is_hung_up(&self) -> bool {
        let mut fds = [PollFd::new(self.fd.get_ref(), PollFlags::empty())];
        // A signal of ours says nothing of the other end.
        let polled = rustix::io::retry_on_intr(|| poll(&mut fds, Some(&Timespec::default())));
        polled.is_err() || fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
    }
}

/// Another open file on the same pipe or terminal.
fn reopen(fd: &OwnedFd, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    open(format!("/proc/self/fd/{}", fd.as_raw_fd()), flags | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    fn is_blocking(fd: impl AsFd) -> bool {
        !rustix::fs::fcntl_getfl(fd).unwrap().contains(OFlags::NONBLOCK)
    }

    #[tokio::test]
    async fn a_pipe_is_read_without_waiting_and_stays_as_it_was() {
        let (theirs, mut far) = io::pipe().unwrap();
        let lent = Lent::reader(theirs.try_clone().unwrap().into()).unwrap();
        let mut buffer = [0; 8];
        assert_eq!(lent.try_read(&mut buffer).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        far.write_all(b"abc").unwrap();
        lent.readable().await;
        assert_eq!(lent.try_read(&mut buffer).unwrap(), 3);
        assert!(is_blocking(&theirs) && is_blocking(&far));
        drop(far);
        lent.readable().await;
        assert_eq!(lent.try_read(&mut buffer).unwrap(), 0);
    }

    #[tokio::test]
    async fn a_full_pipe_and_a_full_socket_do_not_hold_us_up() {
        let (mut far, theirs) = io::pipe().unwrap();
        let (ours, mut peer) = UnixStream::pair().unwrap();
        for (lent, far) in [
            (Lent::writer(theirs.try_clone().unwrap().into()).unwrap(), &mut far as &mut dyn io::Read),
            (Lent::writer(ours.try_clone().unwrap().into()).unwrap(), &mut peer),
        ] {
            lent.writable().await;
            let mut written = 0;
            let error = loop {
                match lent.try_write(&[7; 10_000]) {
                    Ok(n) => written += n,
                    Err(error) => break error,
                }
            };
            assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
            let mut got = vec![0; written];
            far.read_exact(&mut got).unwrap();
            lent.writable().await;
            lent.try_write(b"x").unwrap();
        }
        assert!(is_blocking(&theirs) && is_blocking(&ours));
    }

    #[tokio::test]
    async fn a_pipe_that_cannot_be_opened_again_is_used_without_waiting_all_the_same() {
        let (near, far) = io::pipe().unwrap();
        let each_call = |fd: OwnedFd, interest| {
            // SAFETY: as in `new`.
            #[allow(unsafe_code)]
            let fd = unsafe { AsyncFd::register_with_interest(fd, interest) }.unwrap();
            Lent { fd, how: How::EachCall }
        };
        let reader = each_call(near.try_clone().unwrap().into(), Interest::READABLE);
        let writer = each_call(far.try_clone().unwrap().into(), Interest::WRITABLE);
        let mut buffer = [0; 8];
        assert_eq!(reader.try_read(&mut buffer).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        writer.writable().await;
        assert_eq!(writer.try_write(b"abc").unwrap(), 3);
        reader.readable().await;
        assert_eq!(reader.try_read(&mut buffer).unwrap(), 3);
        let full = std::iter::repeat_with(|| writer.try_write(&[7; 4096])).find_map(Result::err).unwrap();
        assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
        assert!(is_blocking(&near) && is_blocking(&far));
    }

    #[tokio::test]
    async fn the_end_of_the_other_side_is_seen() {
        let (far, theirs) = io::pipe().unwrap();
        let (ours, peer) = UnixStream::pair().unwrap();
        let lent = [Lent::writer(theirs.into()).unwrap(), Lent::writer(ours.into()).unwrap()];
        assert!(!lent[0].is_hung_up() && !lent[1].is_hung_up());
        drop((far, peer));
        assert!(lent[0].is_hung_up() && lent[1].is_hung_up());
        lent[0].writable().await;
        assert_eq!(lent[0].try_write(b"x").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn a_file_is_refused() {
        let file = tempfile::tempfile().unwrap();
        assert_eq!(Lent::reader(file.into()).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
