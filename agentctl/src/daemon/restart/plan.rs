//! Whether and when an agent that has ended is started again. Pure: time and chance come in.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::limits::{RESTART_FIRST, RESTART_MOST, RESTART_WELL, RESTARTS_LONG, RESTARTS_SHORT};
use crate::wire::RestartPolicy;

/// How an execution ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Somebody wanted that.
    Asked,
    /// By itself, with status 0.
    Cleanly,
    /// It crashed, was killed, or could not be started again.
    Failed,
}

/// What follows.
#[derive(Debug, PartialEq)]
pub enum Next {
    /// Nothing.
    Nothing,
    /// It is started again after so long.
    After(Duration),
    /// It is not started again before somebody wants that, for this reason.
    Park(String),
}

/// The ends of a session's agent since somebody last started it.
#[derive(Debug)]
pub struct Plan {
    policy: RestartPolicy,
    ends: VecDeque<Instant>,
    /// Ends in a row after which it had not run well.
    in_a_row: u32,
}

impl Plan {
    /// Nothing has ended yet.
    pub fn new(policy: RestartPolicy) -> Self {
        Self { policy, ends: VecDeque::new(), in_a_row: 0 }
    }

    /// How often it was started again lately.
    pub fn count(&self) -> usize {
        self.ends.len()
    }

    /// It has ended, after it `ran` so long. `chance` is from 0 to 1.
    pub fn ended(&mut self, how: Ended, ran: Duration, now: Instant, chance: f64) -> Next {
        match (self.policy, how) {
            (_, Ended::Asked) | (RestartPolicy::Never, _) | (RestartPolicy::OnFailure, Ended::Cleanly) => return Next::Nothing,
            (RestartPolicy::OnFailure, Ended::Failed) | (RestartPolicy::Always, _) => {}
        }
        self.in_a_row = if ran >= RESTART_WELL { 1 } else { self.in_a_row.saturating_add(1) };
        self.ends.push_back(now);
        while self.ends.front().is_some_and(|end| now.saturating_duration_since(*end) > RESTARTS_LONG.1) {
            self.ends.pop_front();
        }
        // Also one that always runs well for a while is no use if it ends again and again.
        for (most, window) in [RESTARTS_SHORT, RESTARTS_LONG] {
            let ends = self.ends.iter().filter(|end| now.saturating_duration_since(**end) <= window).count();
            if ends > most {
                return Next::Park(format!("it ended {ends} times within {} min", window.as_secs() / 60));
            }
        }
        let doubled = RESTART_FIRST.saturating_mul(1 << (self.in_a_row - 1).min(16)).min(RESTART_MOST);
        // Many that ended together are not all started together.
        Next::After(doubled.mul_f64(0.5 + chance / 2.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ends it again and again, each time after it ran so long; the delays until something else follows, and that.
    fn run(policy: RestartPolicy, how: Ended, ran: Duration, most: usize) -> (Vec<Duration>, Option<Next>) {
        let (mut plan, mut now, mut delays) = (Plan::new(policy), Instant::now(), Vec::new());
        for _ in 0..most {
            now += ran;
            match plan.ended(how, ran, now, 1.0) {
                Next::After(delay) => {
                    now += delay;
                    delays.push(delay);
                }
                other => return (delays, Some(other)),
            }
        }
        (delays, None)
    }

    #[test]
    fn who_crashes_at_once_is_parked_after_growing_delays() {
        let (delays, last) = run(RestartPolicy::OnFailure, Ended::Failed, Duration::ZERO, 10);
        let ms: Vec<u128> = delays.iter().map(Duration::as_millis).collect();
        assert_eq!(ms, [500, 1000, 2000, 4000, 8000]);
        assert_eq!(last, Some(Next::Park("it ended 6 times within 10 min".into())));
    }

    #[test]
    fn who_crashes_after_running_well_is_parked_too() {
        for minutes in [1, 5, 60, 120] {
            let (delays, last) = run(RestartPolicy::OnFailure, Ended::Failed, Duration::from_secs(minutes * 60), 100);
            assert!(matches!(last, Some(Next::Park(_))), "{minutes}: {last:?}");
            assert!((5..=10).contains(&delays.len()), "{minutes}: {}", delays.len());
            // Each time as if it were the first.
            assert!(delays.iter().all(|delay| *delay == RESTART_FIRST), "{delays:?}");
        }
        // Four times a day is no reason.
        let (delays, last) = run(RestartPolicy::OnFailure, Ended::Failed, Duration::from_secs(6 * 60 * 60), 100);
        assert_eq!((delays.len(), last), (100, None));
    }

    #[test]
    fn what_was_wanted_or_clean_is_no_failure() {
        let second = Duration::from_secs(1);
        let next = |policy, how| run(policy, how, second, 1);
        assert_eq!(next(RestartPolicy::OnFailure, Ended::Cleanly).1, Some(Next::Nothing));
        assert_eq!(next(RestartPolicy::Always, Ended::Asked).1, Some(Next::Nothing));
        assert_eq!(next(RestartPolicy::Never, Ended::Failed).1, Some(Next::Nothing));
        assert_eq!(next(RestartPolicy::Always, Ended::Cleanly).0, [RESTART_FIRST]);
        assert!(matches!(run(RestartPolicy::Always, Ended::Cleanly, second, 10).1, Some(Next::Park(_))));
    }

    #[test]
    fn chance_makes_delays_differ_by_half_at_most() {
        let delay = |chance| Plan::new(RestartPolicy::Always).ended(Ended::Failed, Duration::ZERO, Instant::now(), chance);
        assert_eq!(delay(0.0), Next::After(RESTART_FIRST / 2));
        assert_eq!(delay(1.0), Next::After(RESTART_FIRST));
    }
}
