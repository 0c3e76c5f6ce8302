//! The control socket's own JSON: JSON-RPC 2.0, one message a line; closed types, unlike those of foreign JSON.

mod audit;
mod control;
mod event;
mod execution;
mod failure;
mod permission;
mod proxy;
pub mod rpc;
mod session;
mod shared;
mod token;

pub use audit::*;
pub use control::*;
pub use event::*;
pub use execution::*;
pub use failure::{Failure, FailureData, ResolutionData};
pub use permission::*;
pub use proxy::*;
pub use rpc::{Call, Incoming, event_line, parse, response_line};
pub use session::*;
pub use shared::*;
pub use token::*;

/// The version of this protocol, told by `control/hello`.
pub const PROTOCOL_VERSION: u32 = 1;
