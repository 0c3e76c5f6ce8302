//! What the daemon and a keeper tell each other: JSON, one message a line.

use serde::{Deserialize, Serialize};

use crate::process::spec::{Limits, Refusal, Spec};
use crate::process::tree::{ExitStatus, TreeEnd};

/// From the daemon. The end of its line means [`Order::End`], too.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Order {
    /// Start the agent; its stdin, stdout and stderr come with this message. The first order.
    Start(Box<Spec>, Limits),
    /// Remember who is there now, for the report; the leader, too, if this says that it runs.
    Look { leader: bool },
    /// Signal the agent's group.
    Signal(i32),
    /// End everything, report and go.
    End,
}

/// From a keeper.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Report {
    /// The agent runs. Numbers and start times.
    Started { keeper: (i32, u64), leader: (i32, u64) },
    /// It does not, and the keeper is gone. The guard says so, too, if it can't make a keeper.
    Refused(Refusal),
    /// The leader has ended; its number is kept.
    Exited(ExitStatus),
    /// Everything has, or survivors are named.
    Ended(TreeEnd),
}

/// One message as a line.
pub(super) fn line<T: Serialize>(message: &T) -> Vec<u8> {
    // None of these types can fail to be written: their map has texts as keys.
    let mut line = serde_json::to_vec(message).unwrap_or_default();
    line.push(b'\n');
    line
}

/// Takes the first whole line out of a buffer; `None` until there is one. What can't be read is an error of ours: it is left out.
pub(super) fn take<T: for<'a> Deserialize<'a>>(buffer: &mut Vec<u8>) -> Option<T> {
    loop {
        let end = memchr::memchr(b'\n', buffer)?;
        let message = serde_json::from_slice(&buffer[..end]).ok();
        buffer.drain(..=end);
        if buffer.is_empty() {
            *buffer = Vec::new();
        }
        if message.is_some() {
            return message;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_whole_whatever_the_pieces() {
        let end = TreeEnd { exit: Some(ExitStatus::Signal(9)), killed: vec![(7, "a\nb".into())], ..TreeEnd::default() };
        let all = [line(&Report::Exited(ExitStatus::Code(3))), line(&Report::Ended(end.clone()))].concat();
        let mut buffer = Vec::new();
        let mut got = Vec::new();
        for byte in all {
            buffer.push(byte);
            got.extend(take::<Report>(&mut buffer));
        }
        assert!(matches!(&got[..], [Report::Exited(ExitStatus::Code(3)), Report::Ended(ended)] if *ended == end), "{got:?}");
        assert_eq!(buffer.capacity(), 0);
    }
}
