//! What `/proc` tells of processes.

use std::fs;

use nix::unistd::Pid;

/// Start of a process in clock ticks since boot: with the pid, the name of exactly one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StartTime(pub u64);

/// One process, at the moment it was looked at.
#[derive(Debug, Clone)]
pub struct Process {
    /// Its number.
    pub pid: Pid,
    /// Its parent.
    pub parent: Pid,
    /// Its session.
    pub session: Pid,
    /// When it started.
    pub start: StartTime,
    /// Whether it has exited and waits to be reaped.
    pub zombie: bool,
}

impl Process {
    /// Looks at one process; `None` if there is none.
    pub fn read(pid: Pid) -> Option<Self> {
        Self::parse(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    fn parse(pid: Pid, stat: &str) -> Option<Self> {
        // The name is in parentheses and may hold anything, also `)`.
        let (_, rest) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let number = |at: usize| fields.get(at)?.parse().ok().map(Pid::from_raw);
        Some(Self {
            pid,
            zombie: matches!(*fields.first()?, "Z" | "X"),
            parent: number(1)?,
            session: number(3)?,
            start: StartTime(fields.get(19)?.parse().ok()?),
        })
    }

    /// Its command line, at most 160 characters, for reports.
    pub fn command_line(&self) -> String {
        let raw = fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        String::from_utf8_lossy(&raw).replace('\0', " ").trim().chars().take(160).collect()
    }

    /// Its resident memory in bytes, what it shares with others too; 0 once it has ended.
    pub fn resident(&self) -> u64 {
        let statm = fs::read_to_string(format!("/proc/{}/statm", self.pid)).unwrap_or_default();
        let pages: u64 = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
        pages * rustix::param::page_size() as u64
    }
}

/// Every process that can be seen.
pub fn processes() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).map(Pid::from_raw).filter_map(Process::read).collect()
}

/// Whether exactly this process exists and has not exited.
pub fn is_alive(pid: Pid, start: StartTime) -> bool {
    Process::read(pid).is_some_and(|p| p.start == start && !p.zombie)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_is_no_trap() {
        let stat = format!("7 (a) b) S 3 4 5 {} 123 0", ["0"; 15].join(" "));
        let process = Process::parse(Pid::from_raw(7), &stat).unwrap();
        assert_eq!((process.parent.as_raw(), process.session.as_raw(), process.start.0, process.zombie), (3, 5, 123, false));
    }

    #[test]
    fn this_process_is_alive() {
        let me = Process::read(Pid::this()).unwrap();
        assert!(is_alive(me.pid, me.start));
        assert!(!is_alive(me.pid, StartTime(me.start.0 + 1)));
        assert!(processes().iter().any(|p| p.pid == me.pid));
    }
}
