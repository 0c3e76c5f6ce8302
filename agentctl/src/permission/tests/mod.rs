//! The table under every order of events for small cases, and under long random ones.

mod cases;
mod op;
mod orders;
mod world;
