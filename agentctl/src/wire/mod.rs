//! The control socket's own JSON: JSON-RPC 2.0, one message a line; closed types, unlike those of foreign JSON.

mod failure;
mod rpc;
mod types;

pub use failure::{Failure, FailureData, ResolutionData};
pub use rpc::{Call, Incoming, event_line, parse, response_line};
pub use types::*;

/// The version of this protocol, told by `control/hello`.
pub const PROTOCOL_VERSION: u32 = 1;
