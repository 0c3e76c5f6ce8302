//! What MCP clients see: two tools, and the pending requests as a resource that tells of changes.

use std::sync::Arc;

use parking_lot::Mutex;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, Implementation, JsonObject,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult,
    Resource, ResourceContents, ResourceUpdatedNotificationParam, ServerCapabilities, ServerConfig, SubscribeRequestParams,
    SubscriptionFilter, UnsubscribeRequestParams,
};
use rmcp::service::{RequestContext, RoleServer, SubscriptionContext};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;
use tokio::sync::{OnceCell, watch};
use tokio::task::AbortHandle;

use acp_bridge::presentation::escape_json_line;

use super::tools::{self, ListInput, Listed};
use crate::code::Code;
use crate::daemon::methods;
use crate::daemon::server::Connection;
use crate::wire::{
    Failure, PermissionListParams, PermissionListResult, ResolveParams, ResolveResult, SubscribeParams, SubscribeResult, Topic,
};

/// The resource.
const PENDING: &str = "agentctl://permissions/pending";

const INSTRUCTIONS: &str = "agentctl supervises coding agents. List the permission requests of a task, show them to the person, and answer \
    each with the option the person chose. Every request is answered once; a failed call says by a stable code what to do next.";

/// One client's session.
pub(super) struct Server {
    connection: Arc<Connection>,
    /// The end of the pair of sockets on which events come, until somebody wants to hear of changes.
    events: Mutex<Option<UnixStream>>,
    changes: OnceCell<watch::Receiver<()>>,
    /// Who tells a client of the older era.
    teller: Mutex<Option<AbortHandle>>,
}

impl Server {
    pub(super) fn new(connection: Arc<Connection>, events: UnixStream) -> Self {
        Self { connection, events: Mutex::new(Some(events)), changes: OnceCell::new(), teller: Mutex::default() }
    }

    /// Makes a call of the control socket, with its checks, as this session.
    async fn call<P: Serialize, R: DeserializeOwned>(&self, method: &str, params: &P) -> Result<R, Failure> {
        let params = serde_json::value::to_raw_value(params).map_err(|_| Failure::of(Code::Internal))?;
        let done = methods::call(&self.connection, method, Some(params), false).await?;
        if let Some(after) = done.after {
            after();
        }
        serde_json::from_str(done.result.get()).map_err(|_| Failure::of(Code::Internal))
    }

    async fn list(&self, task_id: Option<String>, session_id: Option<String>) -> Result<Listed, Failure> {
        let list: PermissionListResult = self.call("permission/list", &PermissionListParams { task_id, session_id }).await?;
        Ok(list.into())
    }

    /// Changes whenever a request comes or goes, until the session or its token ends.
    async fn changes(&self) -> Result<watch::Receiver<()>, Failure> {
        let changes = self.changes.get_or_try_init(|| async {
            let params = SubscribeParams { topics: Some(vec![Topic::Permission]), task_id: None, session_id: None };
            let events = self.events.lock().take();
            let events = events.ok_or(Code::Internal)?;
            self.call::<_, SubscribeResult>("event/subscribe", &params).await?;
            let (changed, changes) = watch::channel(());
            let connection = self.connection.clone();
            tokio::spawn(async move { connection.gone.run_until_cancelled(watch_events(&connection, events, changed)).await });
            Ok::<_, Failure>(changes)
        });
        changes.await.cloned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(teller) = self.teller.lock().take() {
            teller.abort();
        }
    }
}

/// Says nothing of what happened but that something did: who wants to know reads the resource.
async fn watch_events(connection: &Connection, events: UnixStream, changed: watch::Sender<()>) {
    let mut scratch = vec![0; 16 * 1024];
    while events.readable().await.is_ok() {
        match events.try_read(&mut scratch) {
            Ok(0) => return,
            Err(error) if error.kind() != std::io::ErrorKind::WouldBlock => return,
            Err(_) => {}
            Ok(_) if connection.principal().grant().is_some_and(|grant| !grant.is_valid()) => return,
            Ok(_) => changed.send_replace(()),
        }
    }
}

/// A domain failure for the one who called: the stable code, what happened and what to do next.
fn failed(failure: &Failure) -> CallToolResult {
    #[derive(Serialize)]
    struct Told<'a> {
        message: &'a str,
        #[serde(flatten)]
        data: Option<&'a crate::wire::FailureData>,
    }
    let text = acp_bridge::json::to_text(&Told { message: &failure.message, data: failure.data.as_deref() });
    CallToolResult::error(vec![ContentBlock::text(escape_json_line(&text))])
}

/// A result with the same JSON as structure and as text.
fn answered<T: Serialize>(outcome: Result<T, Failure>) -> CallToolResult {
    let value = outcome.and_then(|value| serde_json::to_value(value).map_err(|_| Code::Internal.into()));
    match value {
        Ok(value) => {
            let text = escape_json_line(&value.to_string()).into_owned();
            let mut result = CallToolResult::structured(value);
            result.content = vec![ContentBlock::text(text)];
            result
        }
        Err(failure) => failed(&failure),
    }
}

fn arguments<T: DeserializeOwned>(given: Option<JsonObject>) -> Result<T, Failure> {
    serde_json::from_value(given.unwrap_or_default().into())
        .map_err(|error| Failure::params(format!("{error}; give exactly the members of the tool's input schema")))
}

/// A failure of what has no result to say it in.
fn error(failure: Failure) -> ErrorData {
    let data = failure.data.and_then(|data| serde_json::to_value(data).ok());
    ErrorData::invalid_request(failure.message, data)
}

fn unknown_resource(uri: &str) -> ErrorData {
    ErrorData::resource_not_found(format!("there is no resource {uri}"), None)
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_resources().enable_resources_subscribe().build();
        let mut info = ServerConfig::new(capabilities).with_instructions(INSTRUCTIONS);
        info.server_info = Implementation::new("agentctl", env!("CARGO_PKG_VERSION"));
        info
    }

    async fn list_tools(&self, _: Option<PaginatedRequestParams>, _: RequestContext<RoleServer>) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools::all()))
    }

    async fn call_tool(&self, request: CallToolRequestParams, _: RequestContext<RoleServer>) -> Result<CallToolResponse, ErrorData> {
        let result = match &*request.name {
            tools::LIST => answered(match arguments::<ListInput>(request.arguments) {
                Ok(input) => self.list(Some(input.task_id), input.session_id).await,
                Err(failure) => Err(failure),
            }),
            tools::RESOLVE => answered(match arguments::<ResolveParams>(request.arguments) {
                Ok(input) => self.call::<_, ResolveResult>("permission/resolve", &input).await,
                Err(failure) => Err(failure),
            }),
            name => return Err(ErrorData::invalid_params(format!("there is no tool {name:?}"), None)),
        };
        Ok(result.into())
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let pending = Resource::new(PENDING, "pending_permissions")
            .with_title("Pending permission requests")
            .with_description("Every request of the caller's tasks that can be answered now.")
            .with_mime_type("application/json");
        Ok(ListResourcesResult::with_all_items(vec![pending]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        if request.uri != PENDING {
            return Err(unknown_resource(&request.uri));
        }
        let list = self.list(None, None).await.map_err(error)?;
        let text = acp_bridge::json::to_text(&list);
        let contents = ResourceContents::text(escape_json_line(&text), PENDING).with_mime_type("application/json");
        Ok(ReadResourceResult::new(vec![contents]).with_ttl_ms(0).with_cache_scope(CacheScope::Private).into())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        let mut accepted = SubscriptionFilter::new();
        let ours = requested.resource_subscriptions.as_ref().is_some_and(|uris| uris.iter().any(|uri| uri == PENDING));
        accepted.resource_subscriptions = ours.then(|| vec![PENDING.to_owned()]);
        Some(accepted)
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut changes = self.changes().await.map_err(error)?;
        loop {
            tokio::select! {
                () = context.cancelled() => return Ok(()),
                changed = changes.changed() => {
                    if changed.is_err() || context.sink().notify_resource_updated(PENDING).await.is_err() {
                        return Ok(());
                    }
                }
            }
        }
    }

    // The era before 2026-07-28 subscribes so.
    async fn subscribe(&self, request: SubscribeRequestParams, context: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        if request.uri != PENDING {
            return Err(unknown_resource(&request.uri));
        }
        let mut changes = self.changes().await.map_err(error)?;
        let client = context.peer.clone();
        let teller = tokio::spawn(async move {
            while changes.changed().await.is_ok() {
                if client.notify_resource_updated(ResourceUpdatedNotificationParam::new(PENDING)).await.is_err() {
                    return;
                }
            }
        });
        if let Some(earlier) = self.teller.lock().replace(teller.abort_handle()) {
            earlier.abort();
        }
        Ok(())
    }

    async fn unsubscribe(&self, _: UnsubscribeRequestParams, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        if let Some(teller) = self.teller.lock().take() {
            teller.abort();
        }
        Ok(())
    }
}
