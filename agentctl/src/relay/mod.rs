//! Who owes whom an answer in a proxied execution: pure, without I/O and clock.
//!
//! Invariants (the tests in `tests.rs` name them):
//! 1. Of all that the agent asks, each editor id names one request at a time: an id for which the editor still owes an
//!    answer is never given out again, whatever the agent does.
//! 2. An answer of the editor reaches the agent at most once, and only as the answer to the request that was asked under
//!    that editor id, while that request is still what the agent means by its id.
//! 3. What was answered, taken back or asked anew meanwhile is swallowed when the editor's late answer comes.
//! 4. Ids are rewritten only where 1 demands it.

mod ledger;
#[cfg(test)]
mod tests;

pub use ledger::{Answer, Full, Ledger, What, cost};
