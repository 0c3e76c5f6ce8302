//! The daemon: a hub of executions behind a control socket.

mod bus;
mod execution;
mod hub;
mod lock;
mod mcp;
mod methods;
mod peer;
mod principal;
mod restart;
mod serve;
mod server;
mod socket;
mod token;
mod visitor;

pub use hub::{Settings, is_ours};
pub use methods::schema;
pub use serve::{GUARD, Options, serve};
