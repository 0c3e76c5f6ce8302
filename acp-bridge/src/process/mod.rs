//! Agent processes: spawned in a session of their own, known by pid and start time, ended with their whole tree.
//!
//! Linux only. The calling process should be a child subreaper ([`become_reaper`]), so that what an agent
//! leaves behind stays below it.

mod lent;
mod peer;
mod procfs;
mod spawn;
mod tree;

pub use lent::Lent;
pub use peer::{PeerProcess, Standing};
pub use procfs::{Process, StartTime, is_alive, processes};
pub use spawn::{Inherited, Limits, SpawnError, Spawned, Spawner, Spec, resolve_command, spawn_detached};
pub use tree::{ExitStatus, ExitWatch, Leader, Mark, TreeEnd, end_tree, reap_orphans};

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
