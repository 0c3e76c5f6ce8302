//! The yardstick of prompts: reads what a child writes and hands it to a socket, as fast as that can be done.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use clap::Args;

#[derive(Args)]
pub struct Relay {
    /// Where somebody listens
    socket: PathBuf,
    /// Prompts that the child writes
    count: usize,
}

impl Relay {
    pub fn run(self) {
        let mut to = UnixStream::connect(self.socket).expect("a listener");
        let mut child = Command::new(std::env::current_exe().expect("our binary"))
            .args(["agent", "--prompts", &self.count.to_string()])
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut from = child.stdout.take().expect("a pipe");
        let mut bytes = [0; 64 * 1024];
        while let Ok(n @ 1..) = from.read(&mut bytes) {
            to.write_all(&bytes[..n]).expect("a reader");
        }
        child.wait().expect("its end");
    }
}
