//! The guard: every agent is started and kept below a small process that ends it when the daemon can't.
//!
//! ```text
//! daemon                     child subreaper
//! └─ guard                   one; forks keepers; whatever else becomes its child is killed
//!    └─ keeper               one an agent; child subreaper: all that the agent ever starts is below it
//!       └─ leader            the agent, in a session of its own
//! ```
//!
//! Guard and keepers have one thread, no environment and no descriptor but their line to the daemon. The daemon's death closes
//! the lines: each keeper ends its tree, the guard what is left. A keeper's death kills its leader (`PR_SET_PDEATHSIG`) and makes
//! the rest children of the guard, which kills them. The guard's death makes the keepers children of the daemon, which ends them.

mod keeper;
mod leader;
mod line;
mod message;
mod serve;
mod start;

pub use leader::{ExitWatch, Leader, Tree, TreeProcess};
pub use serve::{guard, is_guard};
pub use start::{Guard, Spawned, end_adopted};

use std::time::Duration;

/// How long a stop tries before it names survivors.
const TREE_WAIT: Duration = Duration::from_secs(2);
/// How long a keeper or the guard tries when nobody waits any more.
const LAST_WAIT: Duration = Duration::from_secs(10);
