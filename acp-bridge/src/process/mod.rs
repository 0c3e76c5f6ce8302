//! Agent processes: started and kept by a guard, known by pid and start time, ended with their whole tree.
//!
//! Linux only. The calling process must be a child subreaper ([`become_reaper`]), so that what a killed guard leaves behind
//! stays below it.

mod guard;
mod lent;
mod peer;
mod procfs;
mod spawn;
mod spec;
mod tree;

pub use guard::{ExitWatch, Guard, Leader, Spawned, Tree, TreeProcess, end_adopted, guard, is_guard};
pub use lent::Lent;
pub use peer::{PeerProcess, Standing};
pub use procfs::{Process, StartTime, is_alive, processes};
pub use spawn::spawn_detached;
pub use spec::{Inherited, Limits, SpawnError, Spec, resolve_command};
pub use tree::{ExitStatus, TreeEnd};

use std::io;

/// Makes orphaned descendants children of this process, and keeps its memory from other processes of the
/// same user (`PR_SET_DUMPABLE` off).
///
/// # Errors
/// Those of `prctl(2)`.
pub fn become_reaper() -> io::Result<()> {
    nix::sys::prctl::set_child_subreaper(true)?;
    nix::sys::prctl::set_dumpable(false)?;
    Ok(())
}
