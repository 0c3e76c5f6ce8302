//! `proxy/start`.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use acp_bridge::process::Inherited;
use uuid::Uuid;

use super::Method;
use super::execution_start::{bind_to, check, reserve, start, subscribe};
use crate::daemon::execution::{Client, Editor};
use crate::daemon::server::Connection;
use crate::domain::{Actor, SessionKey, Source};
use crate::limits::LENT;
use crate::wire::{Access, Failure, ProxyParams, ProxyResult, StartParams, Topic};

pub(super) struct Start;

impl Method for Start {
    const NAME: &'static str = "proxy/start";
    const ACCESS: Access = Access::Operator;
    const ABOUT: &'static str = "Starts an agent for an editor, whose stdin, stdout and stderr come with this message (SCM_RIGHTS), which must be \
         the first of its connection; answers when the agent has ended. The agent ends with the connection. Events of topic `execution` of its session are told.";
    type Params = ProxyParams;
    type Result = ProxyResult;

    async fn call(connection: &Arc<Connection>, params: ProxyParams) -> Result<ProxyResult, Failure> {
        let lent = std::mem::take(&mut *connection.lent.lock());
        let editor = editor(connection, lent)?;
        let inherited = Inherited { umask: params.umask, limits: params.limits };
        let session_id = params.session_id.unwrap_or_else(|| Uuid::new_v4().to_string());
        let params = StartParams {
            command: params.command,
            args: params.args,
            env: params.env,
            clear_env: true,
            strip_env: params.strip_env,
            cwd: params.cwd,
            task_id: params.task_id,
            session_id: Some(session_id.clone()),
            bind: true,
            record: params.record,
            ..StartParams::default()
        };
        check(&params)?;
        let key = SessionKey { owner: connection.actor().user_id.clone(), session_id };
        let reservation = reserve(&connection.hub, &key, &params).await?;
        let frames = params.record.then_some(Topic::Frame);
        subscribe(connection, &key, std::iter::once(Topic::Execution).chain(frames).collect());
        let execution =
            start(&connection.hub, reservation, key, Arc::new(params), Client::Editor(Box::new(editor)), Some(inherited)).await?;
        bind_to(connection, &execution).await;
        execution.ended.cancelled().await;
        let info = execution.info();
        Ok(ProxyResult {
            execution_id: info.execution_id,
            task_id: info.task_id,
            session_id: info.session_id,
            exit: info.exit,
            reason: info.reason,
        })
    }
}

fn editor(connection: &Connection, lent: Vec<OwnedFd>) -> Result<Editor, Failure> {
    let count = lent.len();
    let Ok([stdin, stdout, stderr]) = <[OwnedFd; LENT]>::try_from(lent) else {
        return Err(Failure::params(format!("exactly {LENT} descriptors must come with the first message; {count} came")));
    };
    let unusable = |error: io::Error| Failure::params(format!("a descriptor can't be used: {error}"));
    let actor = Actor { source: Source::Editor, ..connection.actor().clone() };
    Editor::new(stdin, stdout, stderr, actor, connection.hub.settings.frame_cap).map_err(unusable)
}
