//! The yardstick of frames: a pump in a tokio current_thread runtime that reads the lines of a child's stdout, looks at each
//! envelope as the daemon does, and writes them to its own stdout, a pipe. It does nothing else.

use std::process::Stdio;

use acp_bridge::envelope;
use clap::Args;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::process::Command;

#[derive(Args)]
pub struct Pump {
    /// Frames that the child writes
    count: usize,
    /// Their size
    size: usize,
}

impl Pump {
    /// Prints the nanoseconds of CPU that the frames took, on stderr.
    pub fn run(self) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let mut child = Command::new(std::env::current_exe().expect("our binary"))
                .args(["agent", "--frames", &self.count.to_string(), &self.size.to_string()])
                .stdout(Stdio::piped())
                .spawn()
                .expect("it starts");
            let mut from = child.stdout.take().expect("a pipe");
            let to = std::os::fd::AsFd::as_fd(&std::io::stdout()).try_clone_to_owned().expect("stdout");
            let to = pipe::Sender::from_owned_fd(to).expect("stdout is a pipe");
            let begun = used();
            pump(&mut from, &to).await;
            eprintln!("cpu_ns={}", used() - begun);
            child.wait().await.expect("its end");
        });
    }
}

async fn pump(from: &mut (impl AsyncReadExt + Unpin), to: &pipe::Sender) {
    let mut buffer = Vec::with_capacity(64 * 1024);
    loop {
        if buffer.capacity() - buffer.len() < 64 * 1024 {
            buffer.reserve(64 * 1024);
        }
        let read = from.read_buf(&mut buffer).await.expect("the child's stdout");
        if read == 0 {
            return;
        }
        let new = buffer.len() - read;
        let Some(end) = memchr::memrchr(b'\n', &buffer[new..]).map(|at| new + at + 1) else { continue };
        let mut start = 0;
        for at in memchr::memchr_iter(b'\n', &buffer[..end]) {
            assert!(envelope::peek(&buffer[start..=at]).is_ok());
            start = at + 1;
        }
        let mut written = 0;
        while written < end {
            to.writable().await.expect("a reader");
            match to.try_write(&buffer[written..end]) {
                Ok(n) => written += n,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) => panic!("{error}"),
            }
        }
        buffer.drain(..end);
    }
}

/// Nanoseconds of CPU of this process.
fn used() -> i64 {
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("our own usage");
    usage.user_time().num_nanoseconds() + usage.system_time().num_nanoseconds()
}
