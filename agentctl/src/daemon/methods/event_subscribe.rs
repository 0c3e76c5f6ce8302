//! `event/subscribe`.

use std::sync::Arc;

use super::{After, Method};
use crate::daemon::bus::{Subscriber, Topics};
use crate::daemon::server::Connection;
use crate::wire::{Access, Failure, SubscribeParams, SubscribeResult, Topic};

pub(super) struct Subscribe;

impl Method for Subscribe {
    const NAME: &'static str = "event/subscribe";
    const ACCESS: Access = Access::Owner;
    const ABOUT: &'static str =
        "Tells every later event of the caller's tasks as an `event` notification on this connection; a second call replaces the first.";
    type Params = SubscribeParams;
    type Result = SubscribeResult;

    async fn call(connection: &Arc<Connection>, params: SubscribeParams) -> Result<SubscribeResult, Failure> {
        let hub = &connection.hub;
        let owner = connection.actor().user_id.clone();
        hub.authorise_scope(&owner, params.task_id.as_deref(), params.session_id.as_deref())?;
        let topics: Topics = match params.topics {
            Some(topics) if topics.is_empty() => return Err(Failure::params("topics must not be empty")),
            Some(topics) => topics.into_iter().collect(),
            None => [Topic::Permission, Topic::Execution, Topic::Session].into_iter().collect(),
        };
        if topics.contains(Topic::Update) || topics.contains(Topic::Frame) {
            connection.principal().may(Access::Operator, &hub.tokens)?;
        }
        let subscriber = Subscriber {
            peer: connection.peer.clone(),
            connection: connection.id,
            owner,
            grant: connection.principal().grant().cloned(),
            topics,
            task_id: params.task_id,
            session_id: params.session_id,
        };
        *connection.subscribing.lock() = Some(subscriber);
        Ok(SubscribeResult { seq: hub.bus.seq() })
    }

    fn after(connection: &Arc<Connection>, _: &SubscribeResult) -> Option<After> {
        let connection = connection.clone();
        Some(Box::new(move || {
            let subscriber = connection.subscribing.lock().take();
            if let Some(subscriber) = subscriber.filter(|_| !connection.is_closed()) {
                connection.hub.bus.subscribe(subscriber);
            }
        }))
    }
}
