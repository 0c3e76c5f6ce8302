//! The live permission authority of one execution, as a pure state machine.
//!
//! No I/O, no clock and no randomness: ids come in, and what is to be done comes out. The owner of a
//! [`Table`] is the one task of its execution; it calls the table, then does what the table returned.
//!
//! Invariants, named by the tests:
//!
//! 1. Each request gets at most one response: a [`Right`] exists once per request and is consumed by the frame
//!    that it makes.
//! 2. A selected option is one that this request offered and one caller chose.
//! 3. A request leaves the table by exactly one [`End`](crate::domain::End).
//! 4. A caller that names an older request never touches a newer one.
//! 5. No request is lost: it is live, or it has ended.
//! 6. A claim is resolved, released or told how its request ended; never forgotten.

mod outcome;
mod right;
mod table;
mod turns;

#[cfg(test)]
mod tests;

pub use outcome::{Begun, Ended, Raised, Refusal, Refused, Unanswered};
pub use right::{Delivery, Right};
pub use table::{Offer, Table};
pub use turns::TurnId;
