//! What the editor owes the agent.

use std::collections::HashMap;

use acp_bridge::id::RpcId;
use uuid::Uuid;

/// What the agent asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// A permission prompt, ours by this id.
    Prompt(Uuid),
    /// Something that only the editor answers.
    Other,
}

/// What an answer of the editor is.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    /// To nothing that is owed.
    Nothing,
    /// To something that has its answer already, or that nobody waits for any more.
    Late,
    /// To `what`. `rewrite` is the agent's own id of it, if the editor knows it under one of ours.
    To {
        /// What was asked.
        what: What,
        /// See above.
        rewrite: Option<RpcId>,
    },
}

/// The editor owes as many answers as it may.
#[derive(Debug, PartialEq, Eq)]
pub struct Full;

/// About what an owed answer costs: its id may be long.
pub fn cost(agent_id: &RpcId) -> usize {
    agent_id.raw().len() + 128
}

/// The answers that the editor owes.
#[derive(Debug)]
pub struct Ledger {
    /// By the id that the editor knows.
    owed: HashMap<RpcId, Owed>,
    /// The editor's id of what an agent's id means now, while its answer is still wanted.
    current: HashMap<RpcId, RpcId>,
    /// The editor's id of a prompt whose answer is still wanted.
    prompts: HashMap<Uuid, RpcId>,
    /// What they cost, and may cost at most.
    bytes: usize,
    cap: usize,
    aliases: u64,
}

#[derive(Debug)]
struct Owed {
    agent_id: RpcId,
    what: What,
    wanted: bool,
}

impl Ledger {
    /// An empty one for answers that cost at most `cap` bytes, see [`cost`].
    pub fn new(cap: usize) -> Self {
        Self { owed: HashMap::new(), current: HashMap::new(), prompts: HashMap::new(), bytes: 0, cap, aliases: 0 }
    }

    /// The agent asks. What its id meant before is asked anew by that. Returns the id for the editor if it is not the
    /// agent's own.
    ///
    /// # Errors
    /// [`Full`]: it can't be passed on.
    pub fn ask(&mut self, agent_id: &RpcId, what: What) -> Result<Option<RpcId>, Full> {
        self.supersede(agent_id);
        if self.bytes + cost(agent_id) > self.cap {
            return Err(Full);
        }
        self.bytes += cost(agent_id);
        let alias = self.owed.contains_key(agent_id).then(|| self.free_alias());
        let editor_id = alias.clone().unwrap_or_else(|| agent_id.clone());
        self.owed.insert(editor_id.clone(), Owed { agent_id: agent_id.clone(), what, wanted: true });
        self.current.insert(agent_id.clone(), editor_id.clone());
        if let What::Prompt(request_id) = what {
            self.prompts.insert(request_id, editor_id);
        }
        Ok(alias)
    }

    /// The agent's id means something else from now on.
    pub fn supersede(&mut self, agent_id: &RpcId) {
        if let Some(editor_id) = self.current.get(agent_id).cloned() {
            self.unwant(&editor_id);
        }
    }

    /// The editor answers.
    pub fn answer(&mut self, editor_id: &RpcId) -> Answer {
        self.unwant_current(editor_id);
        let owed = self.owed.remove(editor_id);
        self.bytes -= owed.as_ref().map_or(0, |owed| cost(&owed.agent_id));
        match owed {
            None => Answer::Nothing,
            Some(Owed { wanted: false, .. }) => Answer::Late,
            Some(Owed { agent_id, what, .. }) => {
                if let What::Prompt(request_id) = what {
                    self.prompts.remove(&request_id);
                }
                Answer::To { what, rewrite: (agent_id != *editor_id).then_some(agent_id) }
            }
        }
    }

    /// A prompt has ended. Returns the editor's id of it, if the editor still owes its answer; a later one is late.
    pub fn close(&mut self, request_id: Uuid) -> Option<RpcId> {
        let editor_id = self.prompts.get(&request_id)?.clone();
        self.unwant(&editor_id);
        Some(editor_id)
    }

    /// The editor's id of what the agent means by an id, if it is one of ours.
    pub fn alias(&self, agent_id: &RpcId) -> Option<&RpcId> {
        self.current.get(agent_id).filter(|editor_id| *editor_id != agent_id)
    }

    /// How many answers are owed.
    pub fn len(&self) -> usize {
        self.owed.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.owed.is_empty()
    }

    fn unwant(&mut self, editor_id: &RpcId) {
        self.unwant_current(editor_id);
        if let Some(owed) = self.owed.get_mut(editor_id) {
            owed.wanted = false;
            if let What::Prompt(request_id) = owed.what {
                self.prompts.remove(&request_id);
            }
        }
    }

    fn unwant_current(&mut self, editor_id: &RpcId) {
        if let Some(owed) = self.owed.get(editor_id)
            && self.current.get(&owed.agent_id) == Some(editor_id)
        {
            self.current.remove(&owed.agent_id);
        }
    }

    fn free_alias(&mut self) -> RpcId {
        loop {
            self.aliases += 1;
            let alias = RpcId::from_text(&format!("agentctl-{}", self.aliases));
            if !self.owed.contains_key(&alias) {
                return alias;
            }
        }
    }
}
