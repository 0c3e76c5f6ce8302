//! What is wrong with a set-up, and how an agent behaves when it asks.
//!
//! [`setup`] looks and changes nothing. [`examine`] starts an agent under a daemon of its own, several times, and reads what passes
//! between the two.

mod agent;
mod setup;

pub use agent::{Asked, Card, Wanted, examine};
pub use setup::{Check, State, setup};
