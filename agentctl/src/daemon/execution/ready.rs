//! Waiting for descriptors. Each waits for ever for what is not there, and ends on an error: the next read or write meets it.

use std::future::{pending, poll_fn};
use std::io;
use std::pin::Pin;
use std::task::{Poll, ready};

use acp_bridge::process::{ExitWatch, Lent};
use tokio::io::{AsyncRead as _, ReadBuf};
use tokio::net::unix::pipe;
use tokio::time::Instant;

use super::task::SCRATCH;

pub(super) async fn writable(pipe: Option<&pipe::Sender>) {
    match pipe {
        Some(pipe) => drop(pipe.writable().await),
        None => pending().await,
    }
}

/// Reads into the scratch buffer, in the same poll that finds something there.
pub(super) async fn read(pipe: Option<&mut pipe::Receiver>) -> io::Result<usize> {
    let Some(pipe) = pipe else { return pending().await };
    let mut pipe = Pin::new(pipe);
    poll_fn(|cx| {
        SCRATCH.with_borrow_mut(|scratch| {
            let mut buffer = ReadBuf::new(scratch);
            ready!(pipe.as_mut().poll_read(cx, &mut buffer))?;
            Poll::Ready(Ok(buffer.filled().len()))
        })
    })
    .await
}

pub(super) async fn readable(pipe: Option<&pipe::Receiver>) {
    match pipe {
        Some(pipe) => drop(pipe.readable().await),
        None => pending().await,
    }
}

pub(super) async fn lent_readable(lent: Option<&Lent>) {
    match lent {
        Some(lent) => lent.readable().await,
        None => pending().await,
    }
}

pub(super) async fn lent_writable(lent: Option<&Lent>) {
    match lent {
        Some(lent) => lent.writable().await,
        None => pending().await,
    }
}

pub(super) async fn exited(leader: Option<&ExitWatch>) {
    match leader {
        Some(leader) => leader.exited().await,
        None => pending().await,
    }
}

pub(super) async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => pending().await,
    }
}
