//! The editor of a proxied execution: its descriptors, and what waits for them.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::mem;
use std::os::fd::OwnedFd;

use acp_bridge::frame::{Line, LineReader};
use acp_bridge::id::RpcId;
use acp_bridge::process::Lent;
use bytes::Bytes;
use tokio::time::Instant;
use uuid::Uuid;

use super::task::{SCRATCH, Task};
use crate::domain::Actor;
use crate::limits::{AGENT_BACKLOG, EDITOR_BACKLOG, EDITOR_OWES, HANGUP_LOOK, LAST_STDERR_WAIT};
use crate::relay::Ledger;

/// The client of an agent that has one beside us.
#[derive(Debug)]
pub struct Editor {
    /// `None` after its end.
    input: Option<Lent>,
    /// `None` once nobody reads it.
    output: Option<Lent>,
    errors: Option<Lent>,
    reader: LineReader,
    out: Backlog,
    err: Backlog,
    /// Its frames behind an answer whose claim is being recorded.
    held: VecDeque<Bytes>,
    /// That claim.
    pub(super) claim: Option<Uuid>,
    /// What it owes the agent.
    pub(super) ledger: Ledger,
    /// What it asked and we want to know the answer of.
    pub(super) asked: HashMap<RpcId, Asked>,
    /// Who it is.
    pub(super) actor: Actor,
    /// When to look whether it is gone.
    look: Option<Instant>,
}

/// A request of the editor.
#[derive(Debug)]
pub(super) enum Asked {
    Initialize,
    /// Opens an acp session; the one that it names, if it names one.
    Session(Option<String>),
    /// The turn of an acp session.
    Turn(String),
}

/// Bytes that wait to be written, in order.
#[derive(Debug, Default)]
struct Backlog {
    bytes: Vec<u8>,
    written: usize,
}

impl Backlog {
    /// A buffer that grew beyond this is given back.
    const KEEP: usize = 16 * 1024;

    fn len(&self) -> usize {
        self.bytes.len() - self.written
    }

    /// Queues bytes. What has been written is let go of, also if some always waits.
    fn push(&mut self, bytes: &[u8]) {
        if self.written > self.len() {
            self.bytes.drain(..self.written);
            self.written = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    fn write(&mut self, to: &Lent) -> io::Result<()> {
        while self.len() > 0 {
            self.written += to.try_write(&self.bytes[self.written..])?;
        }
        self.clear();
        Ok(())
    }

    fn clear(&mut self) {
        self.written = 0;
        self.bytes.clear();
        if self.bytes.capacity() > Self::KEEP {
            self.bytes = Vec::new();
        }
    }
}

impl Editor {
    /// Takes its descriptors.
    ///
    /// # Errors
    /// One is no pipe, socket or terminal, or can't be opened again.
    pub fn new(stdin: OwnedFd, stdout: OwnedFd, stderr: OwnedFd, actor: Actor, frame_cap: usize) -> io::Result<Self> {
        Ok(Self {
            input: Some(Lent::reader(stdin)?),
            output: Some(Lent::writer(stdout)?),
            errors: Some(Lent::writer(stderr)?),
            reader: LineReader::new(frame_cap),
            out: Backlog::default(),
            err: Backlog::default(),
            held: VecDeque::new(),
            claim: None,
            ledger: Ledger::new(EDITOR_OWES),
            asked: HashMap::new(),
            actor,
            look: None,
        })
    }

    /// Queues a frame (without its newline) for it.
    pub(super) fn send(&mut self, line: &[u8]) {
        if self.output.is_some() {
            self.out.push(line);
            self.out.push(b"\n");
        }
    }

    /// Queues bytes of the agent's stderr for it.
    pub(super) fn send_stderr(&mut self, bytes: &[u8]) {
        if self.errors.is_some() {
            self.err.push(bytes);
        }
    }

    /// Its input, if it is to be read now.
    pub(super) fn reading(&self, waiting_for_agent: usize) -> Option<&Lent> {
        self.input.as_ref().filter(|_| self.claim.is_none() && waiting_for_agent <= AGENT_BACKLOG)
    }

    /// Its output, if something waits for it.
    pub(super) fn writing(&self) -> Option<&Lent> {
        self.output.as_ref().filter(|_| self.out.len() > 0)
    }

    /// The same of its stderr.
    pub(super) fn writing_stderr(&self) -> Option<&Lent> {
        self.errors.as_ref().filter(|_| self.err.len() > 0)
    }

    /// Whether more of the agent's stdout can wait for it.
    pub(super) fn has_room(&self) -> bool {
        self.out.len() <= EDITOR_BACKLOG
    }

    /// Whether it has everything that the agent wrote.
    pub(super) fn is_served(&self) -> bool {
        self.writing().is_none() && self.writing_stderr().is_none()
    }

    /// Whether nothing more comes from it.
    pub(super) fn is_silent(&self) -> bool {
        self.input.is_none() && self.claim.is_none() && self.held.is_empty()
    }

    /// When to look whether it is gone.
    pub(super) fn look(&self) -> Option<Instant> {
        self.look
    }
}

impl Task {
    /// Takes in what the editor sent.
    pub(super) fn read_editor(&mut self) {
        let Some(editor) = &mut self.editor else { return };
        let Some(input) = editor.input.take() else { return };
        // Both lent out, so that the lines can be handled by the whole task.
        let mut reader = mem::replace(&mut editor.reader, LineReader::new(0));
        let eof = SCRATCH.with_borrow_mut(|scratch| match input.try_read(scratch) {
            Ok(0) => true,
            Ok(n) => {
                reader.feed(&scratch[..n], |line| match line {
                    Line::Whole(line) => self.editor_sent(line),
                    Line::TooLong { bytes } => {
                        self.count(|c| c.editor_dropped += 1);
                        self.report(format!("a line of {bytes} bytes of the editor is over the frame cap and was dropped"));
                    }
                });
                false
            }
            Err(error) => !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted),
        });
        let unfinished = eof && reader.is_within_line();
        if let Some(editor) = &mut self.editor {
            editor.reader = reader;
            editor.input = Some(input).filter(|_| !eof);
            editor.look = eof.then(|| Instant::now() + HANGUP_LOOK);
        }
        if unfinished {
            self.count(|c| c.editor_dropped += 1);
            self.report("the editor's input ended within a line".to_owned());
        }
        self.flush();
    }

    fn editor_sent(&mut self, line: &[u8]) {
        match &mut self.editor {
            Some(editor) if editor.claim.is_some() => editor.held.push_back(Bytes::copy_from_slice(line)),
            _ => self.editor_line(line),
        }
    }

    /// A claim of the editor is recorded, or is not: what came behind it may go on.
    pub(super) fn editor_goes_on(&mut self, claim_id: Uuid) {
        let Some(editor) = self.editor.as_mut().filter(|editor| editor.claim == Some(claim_id)) else { return };
        editor.claim = None;
        while let Some(line) = self.editor.as_mut().filter(|editor| editor.claim.is_none()).and_then(|editor| editor.held.pop_front()) {
            self.editor_line(&line);
        }
        self.flush();
    }

    /// Writes what waits for the editor, as far as it reads.
    pub(super) fn flush_editor(&mut self) {
        let Some(editor) = &mut self.editor else { return };
        let is_gone = |result: io::Result<()>| result.is_err_and(|error| error.kind() != io::ErrorKind::WouldBlock);
        if editor.errors.as_ref().is_some_and(|errors| is_gone(editor.err.write(errors))) {
            editor.errors = None;
            editor.err.clear();
        }
        if editor.output.as_ref().is_some_and(|output| is_gone(editor.out.write(output))) {
            editor.output = None;
            editor.out.clear();
            self.begin_stop("the editor is gone");
        }
    }

    /// The last words of an agent often say why it ended: its editor has a moment to read them.
    pub(super) async fn serve_last_stderr(&mut self) {
        let deadline = Instant::now() + LAST_STDERR_WAIT;
        self.flush_editor();
        while let Some(errors) = self.editor.as_deref().and_then(Editor::writing_stderr) {
            if tokio::time::timeout_at(deadline, errors.writable()).await.is_err() {
                return;
            }
            self.flush_editor();
        }
    }

    /// An editor that was killed closes its input, too: its agent is not left to itself.
    pub(super) fn look_for_editor(&mut self, now: Instant) {
        let Some(editor) = self.editor.as_mut().filter(|editor| editor.look.is_some_and(|look| look <= now)) else { return };
        editor.look = Some(now + HANGUP_LOOK);
        if editor.output.as_ref().is_none_or(Lent::is_hung_up) {
            editor.look = None;
            self.begin_stop("the editor is gone");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_quite_catches_up_does_not_grow() {
        let (mut backlog, mut got) = (Backlog::default(), Vec::new());
        let mut sent = Vec::new();
        for n in 0..10_000_u32 {
            backlog.push(&n.to_be_bytes());
            sent.extend(n.to_be_bytes());
            if n >= 25 {
                got.extend_from_slice(&backlog.bytes[backlog.written..][..4]);
                backlog.written += 4;
            }
            assert!(backlog.bytes.len() <= 300 && backlog.len() <= 104);
        }
        assert_eq!(got, sent[..got.len()]);
    }
}
