//! Which turns run, and to which of them a request belongs.

use std::collections::{HashMap, HashSet};

/// A turn of one acp session, unique within its execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TurnId(pub u64);

/// The acp sessions that we know and their running turns.
#[derive(Debug, Default)]
pub(super) struct Turns {
    known: HashSet<String>,
    running: HashMap<String, Turn>,
    next: u64,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Turn {
    pub(super) id: TurnId,
    pub(super) cancelled: bool,
}

impl Turns {
    pub(super) fn know(&mut self, acp_session: &str) {
        self.known.insert(acp_session.to_owned());
    }

    /// Starts a turn; `None` if one runs in that session.
    pub(super) fn start(&mut self, acp_session: &str) -> Option<TurnId> {
        self.know(acp_session);
        if self.running.contains_key(acp_session) {
            return None;
        }
        let id = TurnId(self.next);
        self.next += 1;
        self.running.insert(acp_session.to_owned(), Turn { id, cancelled: false });
        Some(id)
    }

    pub(super) fn end(&mut self, acp_session: &str) -> Option<TurnId> {
        self.running.remove(acp_session).map(|turn| turn.id)
    }

    /// Marks the running turn of a session as cancelled; `None` if none runs.
    pub(super) fn cancel(&mut self, acp_session: &str) -> Option<TurnId> {
        let turn = self.running.get_mut(acp_session)?;
        turn.cancelled = true;
        Some(turn.id)
    }

    /// The turn of a request: its session's; for a session that we don't know, the only one that runs.
    pub(super) fn of_request(&self, acp_session: Option<&str>) -> Option<Turn> {
        match acp_session {
            Some(session) if self.known.contains(session) => self.running.get(session).copied(),
            _ if self.running.len() == 1 => self.running.values().next().copied(),
            _ => None,
        }
    }

    pub(super) fn running(&self, acp_session: &str) -> Option<TurnId> {
        self.running.get(acp_session).map(|turn| turn.id)
    }
}
