//! State of schedules beyond their records: when they are due, what was learnt of them, and which callers wait for
//! their runs. By number. No IO. Nothing of it is stored.

use super::{
    command::{Made, Reply},
    contest::Contest,
    relieved::ReliefTimes,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use tokio::time::Instant;

/// A client that has asked for a run of a schedule.
#[derive(Debug)]
pub struct RunRequest {
    /// The name of the client, which the job keeps as its requester.
    pub who: String,
    /// Makes its request safe to repeat.
    pub request_id: Option<String>,
    /// Takes the answer: the job that was made.
    pub reply: Reply<Made>,
}

/// Cgroups that have other CPUs or nodes, as far as schedules are still to be compared with them.
#[derive(Debug)]
pub struct Changed {
    pub cgroups: BTreeSet<String>,
    /// The number of the first schedule that is left.
    pub next: u64,
}

/// State of all schedules beyond their records.
#[derive(Debug, Default)]
pub struct Agenda {
    due: BTreeMap<u64, Instant>,
    /// Since when a schedule's target has been gone.
    gone: HashMap<u64, Instant>,
    /// Number of probes of a schedule that have failed in a row.
    failures: HashMap<u64, u32>,
    /// Callers that wait for the job of a run that they have asked for; first come, first listed.
    asked: HashMap<u64, Vec<RunRequest>>,
    /// Whether schedules' work stays done: for repeating schedules of which a run has ended since the start.
    contests: HashMap<u64, Contest>,
    /// When schedules that relieve a node may move memory again.
    reliefs: HashMap<u64, ReliefTimes>,
}

impl Agenda {
    /// When a schedule is due; `None`: it is not.
    pub fn due(&self, number: u64) -> Option<Instant> {
        self.due.get(&number).copied()
    }

    /// Sets when a schedule is due; `None`: it is not.
    pub fn set_due(&mut self, number: u64, due: Option<Instant>) {
        match due {
            Some(due) => self.due.insert(number, due),
            None => self.due.remove(&number),
        };
    }

    /// When the next schedule is due.
    pub fn next_due(&self) -> Option<Instant> {
        self.due.values().min().copied()
    }

    /// Takes the schedule that has been due longest by `now`; it is not due any more. `None`: none is due.
    pub fn take_due(&mut self, now: Instant) -> Option<u64> {
        let (&number, &due) = self.due.iter().min_by_key(|(_, due)| **due)?;
        if due > now {
            return None;
        }
        self.due.remove(&number);
        Some(number)
    }

    /// Notes that a schedule's target is gone at `now`. Gives back since when.
    pub fn note_gone(&mut self, number: u64, now: Instant) -> Instant {
        *self.gone.entry(number).or_insert(now)
    }

    /// Sets since when a schedule's target has been gone.
    pub fn set_gone(&mut self, number: u64, since: Instant) {
        self.gone.insert(number, since);
    }

    /// Notes that a schedule's probe has failed. Gives back how many before it have in a row.
    pub fn count_failure(&mut self, number: u64) -> u32 {
        let failures = self.failures.entry(number).or_default();
        *failures += 1;
        *failures - 1
    }

    /// Notes that a schedule's target exists.
    pub fn note_found(&mut self, number: u64) {
        self.gone.remove(&number);
        self.failures.remove(&number);
    }

    /// Whether the work of a schedule stays done; `None`: no run of it has ended since the start.
    pub fn contest(&self, number: u64) -> Option<&Contest> {
        self.contests.get(&number)
    }

    /// Sets whether the work of a schedule stays done. Gives back what was known before.
    pub fn set_contest(&mut self, number: u64, contest: Contest) -> Option<Contest> {
        self.contests.insert(number, contest)
    }

    /// When a schedule that relieves a node may move memory again.
    pub fn relief(&self, number: u64) -> ReliefTimes {
        self.reliefs.get(&number).copied().unwrap_or_default()
    }

    /// Sets that.
    pub fn set_relief(&mut self, number: u64, times: ReliefTimes) {
        self.reliefs.insert(number, times);
    }

    /// Number of schedules that find their work undone again and again.
    pub fn contests(&self) -> usize {
        self.contests.values().filter(|contest| contest.is_on()).count()
    }

    /// Forgets what was learnt of a schedule that was changed or removed.
    pub fn forget(&mut self, number: u64) {
        self.note_found(number);
        self.contests.remove(&number);
        self.reliefs.remove(&number);
    }

    /// Adds a caller that waits for a run of a schedule.
    pub fn ask(&mut self, number: u64, asked: RunRequest) {
        self.asked.entry(number).or_default().push(asked);
    }

    /// The request for a run of a schedule: the first with a request_id, else the first.
    pub fn asker(&self, number: u64) -> Option<&RunRequest> {
        let asked = self.asked.get(&number)?;
        asked.iter().find(|asked| asked.request_id.is_some()).or(asked.first())
    }

    /// Takes the callers that wait for a run of a schedule.
    pub fn take_asked(&mut self, number: u64) -> Vec<RunRequest> {
        self.asked.remove(&number).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn what_is_due_is_taken_once() {
        let now = Instant::now();
        let later = now + Duration::from_secs(1);
        let mut agenda = Agenda::default();
        [(7, now), (3, now), (5, later)]
            .into_iter()
            .for_each(|(number, due)| agenda.set_due(number, Some(due)));
        assert_eq!(agenda.next_due(), Some(now));
        assert_eq!([(); 3].map(|()| agenda.take_due(now)), [Some(3), Some(7), None]);
        assert_eq!(agenda.next_due(), Some(later));
        agenda.set_due(5, None);
        assert_eq!((agenda.due(5), agenda.next_due()), (None, None));
    }

    #[test]
    fn a_target_that_is_there_begins_anew() {
        let (now, mut agenda) = (Instant::now(), Agenda::default());
        let later = now + Duration::from_secs(1);
        assert_eq!((agenda.note_gone(1, now), agenda.note_gone(1, later)), (now, now));
        assert_eq!([1, 1, 2, 1].map(|number| agenda.count_failure(number)), [0, 1, 0, 2]);
        agenda.note_found(1);
        assert_eq!((agenda.note_gone(1, later), agenda.count_failure(1)), (later, 0));
        assert_eq!(agenda.count_failure(2), 1, "that is another schedule");
        agenda.set_contest(1, Contest::default());
        agenda.note_found(1);
        assert!(agenda.contest(1).is_some(), "what its runs have found stays");
        agenda.forget(1);
        assert!(agenda.contest(1).is_none());
    }
}
