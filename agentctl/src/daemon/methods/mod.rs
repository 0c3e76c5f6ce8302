//! The methods of the control socket, one file each, named as on the wire.

mod audit_list;
mod audit_witness;
mod control;
mod event_subscribe;
mod execution_list;
mod execution_restart;
mod execution_start;
mod execution_stop;
mod permission_cancel;
mod permission_list;
mod permission_resolve;
mod proxy_start;
mod session_cancel;
mod session_prompt;
mod session_reset;
mod token;

use std::sync::Arc;

use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::execution::Execution;
use super::hub::Hub;
use super::server::Connection;
use crate::code::Code;
use crate::wire::{Access, CodeInfo, DescribeResult, Event, Failure, MethodInfo, PROTOCOL_VERSION, Raw};

/// A carried out call.
pub struct Done {
    /// Its result.
    pub result: Box<RawValue>,
    /// What is to be done right after the answer.
    pub after: Option<After>,
}

/// See [`Done::after`].
pub type After = Box<dyn FnOnce() + Send>;

pub use execution_start::{reserve, start};

/// One method.
trait Method {
    const NAME: &'static str;
    /// Who may call it.
    const ACCESS: Access;
    /// One sentence for `control/describe`.
    const ABOUT: &'static str;
    type Params: DeserializeOwned + JsonSchema + Send;
    type Result: Serialize + JsonSchema;

    fn call(connection: &Arc<Connection>, params: Self::Params) -> impl Future<Output = Result<Self::Result, Failure>> + Send;

    /// Records a call that was refused because of where its caller runs.
    fn refused(_connection: &Arc<Connection>, _params: Self::Params, _failure: &Failure) {}

    /// What is to be done right after the answer.
    fn after(_connection: &Arc<Connection>, _result: &Self::Result) -> Option<After> {
        None
    }
}

macro_rules! methods {
    ($($method:ty),+ $(,)?) => {
        /// Carries out a call. `first` says whether it is the connection's first.
        ///
        /// # Errors
        /// As the method says; -32601 and -32602 of JSON-RPC.
        pub async fn call(connection: &Arc<Connection>, method: &str, params: Option<Box<RawValue>>, first: bool) -> Result<Done, Failure> {
            match method {
                control::Hello::NAME if !first => {
                    Err(Failure::rpc(-32600, "control/hello is only served as the first call of a connection"))
                }
                $(<$method>::NAME => carry_out::<$method>(connection, params).await,)+
                _ => Err(Failure::rpc(-32601, format!("unknown method {method:?}; control/describe lists them"))),
            }
        }

        fn describe_methods(generator: &mut SchemaGenerator) -> Vec<MethodInfo> {
            vec![$(describe::<$method>(generator)),+]
        }
    };
}

methods! {
    control::Hello,
    control::Describe,
    control::Status,
    control::Shutdown,
    execution_start::Start,
    execution_list::List,
    execution_list::Get,
    execution_stop::Stop,
    execution_restart::Restart,
    execution_list::Stderr,
    session_prompt::Prompt,
    session_cancel::Cancel,
    session_reset::Reset,
    permission_list::List,
    permission_resolve::Resolve,
    permission_cancel::Cancel,
    audit_list::List,
    audit_witness::Witness,
    event_subscribe::Subscribe,
    token::Create,
    token::List,
    token::Revoke,
    proxy_start::Start,
}

/// Whether a method only reads, and its answer can be large: such calls of one connection are carried out one after the
/// other, each once the client has read what came before.
pub fn has_large_answer(method: &str) -> bool {
    [permission_list::List::NAME, audit_list::List::NAME, audit_witness::Witness::NAME, execution_list::List::NAME].contains(&method)
}

/// Whether a call says who calls: nothing else is read before it is answered.
pub fn is_hello(method: &str) -> bool {
    method == control::Hello::NAME
}

/// Whether a method uses descriptors that come with its message.
pub fn takes_descriptors(method: &str) -> bool {
    method == proxy_start::Start::NAME
}

async fn carry_out<M: Method>(connection: &Arc<Connection>, raw_params: Option<Box<RawValue>>) -> Result<Done, Failure> {
    let given = raw_params.as_deref();
    if M::ACCESS != Access::Anyone {
        if let Err(failure) = connection.visitor.admit(&connection.hub).await {
            if let Ok(params) = read_params::<M::Params>(given) {
                M::refused(connection, params, &failure);
            }
            return Err(failure);
        }
        connection.principal().may(M::ACCESS, &connection.hub.tokens)?;
    }
    let params = read_params::<M::Params>(given).inspect_err(|_| {
        if M::NAME == control::Hello::NAME && given.is_some_and(|params| params.get().contains("token")) {
            // It wanted to be somebody else: it never has the rights of its user id instead.
            let _ = connection.authenticate("");
        }
    })?;
    // A call may take hours: its text is not kept.
    drop(raw_params);
    let result = M::call(connection, params).await?;
    let after = M::after(connection, &result);
    Ok(Done { result: raw(&result), after })
}

/// Reads params; absent ones are an empty object. The error names the member.
fn read_params<P: DeserializeOwned>(params: Option<&RawValue>) -> Result<P, Failure> {
    let text = params.map_or("{}", RawValue::get);
    if !text.starts_with('{') {
        return Err(Failure::params("params must be an object"));
    }
    let mut reader = serde_json::Deserializer::from_str(text);
    serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        let text = error.inner().to_string();
        // The position within our params says nothing to the caller.
        let text = text.split(" at line ").next().unwrap_or_default();
        Failure::params(if path == "." { text.to_owned() } else { format!("{path}: {text}") })
    })
}

fn raw<T: Serialize>(value: &T) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// What `control/describe` answers: the committed schema file is this, too.
pub fn schema() -> DescribeResult {
    let mut generator = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true).into_generator();
    let methods = describe_methods(&mut generator);
    let event = raw(&generator.root_schema_for::<Event>());
    let codes = Code::ALL
        .iter()
        .map(|code| CodeInfo {
            code: *code,
            meaning: code.meaning().to_owned(),
            hint: code.hint().to_owned(),
            exit_status: code.exit_status(),
        })
        .collect();
    DescribeResult { protocol_version: PROTOCOL_VERSION, methods, event: Raw(event), codes }
}

fn describe<M: Method>(generator: &mut SchemaGenerator) -> MethodInfo {
    MethodInfo {
        name: M::NAME.to_owned(),
        description: M::ABOUT.to_owned(),
        access: M::ACCESS,
        params: Raw(raw(&generator.root_schema_for::<M::Params>())),
        result: Raw(raw(&generator.root_schema_for::<M::Result>())),
    }
}

/// The owner that an operator's call is about.
fn owner(connection: &Connection, given: Option<String>) -> Result<String, Failure> {
    match given {
        Some(owner) => {
            super::hub::check_id("owner", &owner)?;
            Ok(owner)
        }
        None => Ok(connection.actor().user_id.clone()),
    }
}

/// The execution that a call names: by its id, or as the live one of a session.
fn find_execution(hub: &Hub, owner: &str, execution_id: Option<&str>, session_id: Option<&str>) -> Result<Arc<Execution>, Failure> {
    match (execution_id, session_id) {
        (Some(id), None) => {
            let found = id.parse().ok().and_then(|id| hub.execution(id)).filter(|e| e.id.to_string() == id && e.key.owner == owner);
            found.ok_or_else(|| Code::ExecutionNotFound.into())
        }
        (None, Some(session_id)) => live_execution(hub, owner, session_id),
        _ => Err(Failure::params("exactly one of execution_id and session_id is needed")),
    }
}

/// The execution that a call names: by its id, or as the last one of a session, also if it has ended.
fn find_last_execution(hub: &Hub, owner: &str, execution_id: Option<&str>, session_id: Option<&str>) -> Result<Arc<Execution>, Failure> {
    match (execution_id, session_id) {
        (None, Some(session_id)) => {
            hub.session_of(owner, session_id)?;
            hub.executions(owner, None, Some(session_id)).pop().ok_or_else(|| Code::NoLiveExecution.into())
        }
        _ => find_execution(hub, owner, execution_id, session_id),
    }
}

/// The live execution of a session.
fn live_execution(hub: &Hub, owner: &str, session_id: &str) -> Result<Arc<Execution>, Failure> {
    let key = hub.session_of(owner, session_id)?;
    hub.live(&key).ok_or_else(|| Code::NoLiveExecution.into())
}

/// The failure of a call to an execution whose task did not answer: it has ended.
fn ended() -> Failure {
    Code::NoLiveExecution.into()
}
