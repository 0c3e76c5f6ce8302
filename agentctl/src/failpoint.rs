//! Fail points of the crash tests: named places where a test can kill the process or break the database.
//!
//! Without the cargo feature `failpoints` a [`hit`] is compiled to nothing. With it, `AGENTCTL_FAILPOINTS` says what
//! happens where: `claim.before_commit=kill;finish.before=2:full`. A rule is `name=action`, done at every hit, or
//! `name=N:action`, done at the N-th hit only (the first is 1). [`NAMES`] lists the points, and these are the actions:
//!
//! | action | does |
//! | --- | --- |
//! | `kill` | SIGKILL to this process, as a crash or a power cut of the process would |
//! | `panic` | panics there |
//! | `full` | the database may not grow: SQLite itself answers `SQLITE_FULL` to the next write of a claim, its end or a request |
//! | `readonly` | `PRAGMA query_only=1`: SQLite itself answers `SQLITE_READONLY` |
//! | `locked` | a second connection takes the write lock: SQLite itself answers `SQLITE_BUSY` |
//! | `io` | the step is taken as failed with an I/O error of fsync |
//! | `heal` | undoes `full`, `readonly` and `locked` |
//!
//! The last five only mean something at the points of the audit; the others ignore them.

/// Every point, in the order in which a resolve passes them.
pub const NAMES: &[&str] = &[
    // Rows off the critical path: requests seen and ended, failed attempts, sessions, executions.
    "rows.before",
    "rows.before_commit",
    "rows.after_commit",
    // A claim: read from the queue, before BEGIN, before COMMIT, after COMMIT and before its caller is told.
    "claim.received",
    "claim.before",
    "claim.before_commit",
    "claim.after_commit",
    // The delivery of the answer (the daemon's): the right to answer is taken, nothing written; all of it written.
    "deliver.before",
    "deliver.after",
    // The end of a claim, the same four steps.
    "finish.received",
    "finish.before",
    "finish.before_commit",
    "finish.after_commit",
];

/// What the caller of [`hit`] has to do about it. `kill` and `panic` never return.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing; the only value in a build without the feature.
    None,
    /// Forbid the database to grow.
    Full,
    /// Make the connection read-only.
    ReadOnly,
    /// Take the write lock elsewhere.
    Locked,
    /// Take the step as failed with an I/O error.
    Io,
    /// Undo the others.
    Heal,
}

/// Passes the point `name`.
#[cfg(not(any(test, feature = "failpoints")))]
#[inline(always)]
pub fn hit(_name: &str) -> Fault {
    Fault::None
}

#[cfg(any(test, feature = "failpoints"))]
pub use active::*;

#[cfg(any(test, feature = "failpoints"))]
mod active {
    use super::{Fault, NAMES};
    use parking_lot::Mutex;
    use std::cell::RefCell;
    use std::sync::LazyLock;

    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Action {
        Kill,
        Panic,
        Return(Fault),
    }

    #[derive(Debug, Clone)]
    struct Rule {
        name: String,
        at: Option<u64>,
        hits: u64,
        action: Action,
    }

    static PLAN: LazyLock<Mutex<Vec<Rule>>> = LazyLock::new(|| Mutex::new(from_environment()));

    thread_local! {
        static HERE: RefCell<Vec<Rule>> = const { RefCell::new(Vec::new()) };
    }

    // A crash test with a misspelt rule would pass for the wrong reason.
    #[allow(clippy::panic)]
    fn from_environment() -> Vec<Rule> {
        match std::env::var("AGENTCTL_FAILPOINTS") {
            Ok(text) => parse(&text).unwrap_or_else(|e| panic!("AGENTCTL_FAILPOINTS: {e}")),
            Err(_) => Vec::new(),
        }
    }

    fn parse(text: &str) -> Result<Vec<Rule>, String> {
        text.split(';').filter(|rule| !rule.trim().is_empty()).map(parse_rule).collect()
    }

    fn parse_rule(rule: &str) -> Result<Rule, String> {
        let (name, action) = rule.trim().split_once('=').ok_or_else(|| format!("{rule:?} has no '='"))?;
        if !NAMES.contains(&name) {
            return Err(format!("no point is named {name:?}"));
        }
        let (at, action) = match action.split_once(':') {
            Some((n, action)) => (Some(n.parse::<u64>().map_err(|_| format!("{n:?} is no number"))?), action),
            None => (None, action),
        };
        let action = match action {
            "kill" => Action::Kill,
            "panic" => Action::Panic,
            "full" => Action::Return(Fault::Full),
            "readonly" => Action::Return(Fault::ReadOnly),
            "locked" => Action::Return(Fault::Locked),
            "io" => Action::Return(Fault::Io),
            "heal" => Action::Return(Fault::Heal),
            other => return Err(format!("no action is named {other:?}")),
        };
        Ok(Rule { name: name.to_owned(), at, hits: 0, action })
    }

    /// Replaces the rules of this thread, which go before those of the environment. For tests.
    ///
    /// # Errors
    /// A rule that can't be read, as text.
    pub fn arm_this_thread(rules: &str) -> Result<(), String> {
        let rules = parse(rules)?;
        HERE.with(|here| *here.borrow_mut() = rules);
        Ok(())
    }

    fn pass(rules: &mut [Rule], name: &str) -> Option<Action> {
        let mut action = None;
        for rule in rules.iter_mut().filter(|rule| rule.name == name) {
            rule.hits += 1;
            if rule.at.is_none_or(|at| at == rule.hits) {
                action = Some(rule.action);
            }
        }
        action
    }

    /// Passes the point `name`.
    #[allow(clippy::panic)]
    pub fn hit(name: &str) -> Fault {
        debug_assert!(NAMES.contains(&name), "{name} is not listed");
        let action = HERE.with(|here| pass(&mut here.borrow_mut(), name)).or_else(|| pass(&mut PLAN.lock(), name));
        match action {
            None => Fault::None,
            Some(Action::Return(fault)) => fault,
            Some(Action::Panic) => panic!("fail point {name}"),
            Some(Action::Kill) => {
                let _ = nix::sys::signal::kill(nix::unistd::Pid::this(), nix::sys::signal::Signal::SIGKILL);
                loop {
                    std::thread::park();
                }
            }
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn rules_count_their_hits() {
            arm_this_thread("claim.before=2:full; finish.before=io;").unwrap();
            assert_eq!(hit("claim.before"), Fault::None);
            assert_eq!(hit("claim.before"), Fault::Full);
            assert_eq!(hit("claim.before"), Fault::None);
            assert_eq!(hit("finish.before"), Fault::Io);
            assert_eq!(hit("finish.before"), Fault::Io);
            assert_eq!(hit("deliver.before"), Fault::None);
        }

        #[test]
        fn a_misspelt_rule_is_refused() {
            for bad in ["claim.befor=kill", "claim.before", "claim.before=explode", "claim.before=x:kill"] {
                assert!(parse(bad).is_err(), "{bad}");
            }
        }
    }
}
