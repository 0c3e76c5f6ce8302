//! The right to answer one request.

use acp_bridge::id::RpcId;
use acp_bridge::message::{self, Frame};
use uuid::Uuid;

/// The right to answer one request: made once, when the request is read, and never copied.
///
/// Dropping it means that the request is never answered.
#[derive(Debug)]
#[must_use = "a right that is dropped leaves the agent without an answer"]
pub struct Right {
    request_id: Uuid,
    agent_id: RpcId,
}

/// An answer that is with the writer: it holds the right until the frame is written, or taken back unwritten.
#[derive(Debug)]
#[must_use = "the table must be told what became of a delivery"]
pub struct Delivery {
    claim_id: Uuid,
    right: Right,
}

impl Delivery {
    /// The claim for which it is made.
    pub fn claim_id(&self) -> Uuid {
        self.claim_id
    }

    /// The request that it answers.
    pub fn request_id(&self) -> Uuid {
        self.right.request_id
    }

    pub(super) fn into_right(self) -> Right {
        self.right
    }
}

impl Right {
    pub(super) fn new(request_id: Uuid, agent_id: RpcId) -> Self {
        Self { request_id, agent_id }
    }

    /// The frame that selects an option, and what goes to the writer with it.
    pub fn select(self, claim_id: Uuid, option_id: &str) -> (Frame, Delivery) {
        (message::selected(&self.agent_id, option_id), Delivery { claim_id, right: self })
    }

    /// What goes to the writer with a frame of the editor that selects an option.
    pub fn select_by(self, claim_id: Uuid) -> Delivery {
        Delivery { claim_id, right: self }
    }

    /// The editor's own frame answers it, without selecting anything.
    pub fn spend(self, answer: Frame) -> Frame {
        answer
    }

    /// The frame that says `cancelled`.
    pub fn cancelled(self) -> Frame {
        message::cancelled(&self.agent_id)
    }

    /// The frame that confirms a withdrawal.
    pub fn withdrawn(self) -> Frame {
        message::error(&self.agent_id, message::code::REQUEST_CANCELLED, "the request was cancelled")
    }
}
