//! Descriptors on their way between processes.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// Descriptors with one message.
const MOST: usize = 3;

/// Writes bytes and descriptors without waiting; how many bytes were taken.
///
/// # Errors
/// `WouldBlock`, and those of `sendmsg(2)`.
pub(super) fn send(socket: impl AsFd, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(sendmsg(socket, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?)
}

/// Waits for bytes, and takes the descriptors that come with them; 0 bytes at the end.
///
/// # Errors
/// Those of `recvmsg(2)`.
pub(super) fn receive(socket: impl AsFd, bytes: &mut [u8], descriptors: &mut Vec<OwnedFd>) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let got = rustix::io::retry_on_intr(|| recvmsg(&socket, &mut [IoSliceMut::new(bytes)], &mut ancillary, RecvFlags::CMSG_CLOEXEC))?;
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(came) = message {
            descriptors.extend(came);
        }
    }
    Ok(got.bytes)
}
