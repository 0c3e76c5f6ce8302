//! Clocks and figures.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// Nanoseconds of a clock that all processes share.
pub fn now() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("a clock");
    Duration::from(time).as_nanos() as u64
}

/// Nanoseconds that all threads of a process have run.
pub fn cpu(pid: i32) -> u64 {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs");
    threads
        .flatten()
        .filter_map(|thread| std::fs::read_to_string(thread.path().join("schedstat")).ok()?.split(' ').next()?.parse::<u64>().ok())
        .sum()
}

/// How often its threads have given up a processor or lost one.
pub fn context_switches(pid: i32) -> u64 {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs");
    let statuses = threads.flatten().filter_map(|thread| std::fs::read_to_string(thread.path().join("status")).ok());
    let count = |status: &str| -> u64 {
        let lines = status.lines().filter(|line| line.contains("ctxt_switches"));
        lines.filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).sum()
    };
    statuses.map(|status| count(&status)).sum()
}

/// A line of `/proc/PID/status` in KiB, such as `VmHWM`.
pub fn memory(pid: i32, what: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find(|line| line.starts_with(what)).expect("it is listed");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("a number")
}

/// The value below which this part of the values lies.
pub fn quantile(values: &[f64], part: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = (part * (sorted.len() - 1) as f64).round() as usize;
    sorted[at]
}

/// The middle value.
pub fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}
