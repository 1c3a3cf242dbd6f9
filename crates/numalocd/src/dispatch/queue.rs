//! Whose turn it is: pure.

use crate::{config::Queue, engine::Found};
use numaloc_api::value::QosClass;
use numaloc_core::{Identity, NodeId};
use std::{
    cmp::{Ordering, Reverse},
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// How long a job moves before it makes room for jobs of a better class, or of others in its own, that wait for what it has.
pub const SLICE: Duration = Duration::from_secs(120);

/// A job that waits.
#[derive(Clone, Copy, Debug)]
pub struct Waiting<'a> {
    /// Its number: the lower, the older.
    pub number: u64,
    /// Its place in line: its number, unless it has gone behind others that were there.
    pub line: u64,
    /// Its class.
    pub qos_class: QosClass,
    /// Whose it is.
    pub owner: &'a str,
    /// How many jobs of the same owner come before it in its class, those under way among them.
    pub turn: usize,
    /// Who and where, as far as known.
    pub found: Option<&'a Found>,
}

/// How far a job under way is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It is looked at.
    Planning,
    /// It has been planned, and waits for a place.
    Ready,
    /// It moves, for so long by now.
    Moving(Duration),
}

/// A job that is under way.
#[derive(Clone, Copy, Debug)]
pub struct Active<'a> {
    /// Its number.
    pub number: u64,
    /// Its class.
    pub qos_class: QosClass,
    /// Whose it is.
    pub owner: &'a str,
    /// How far it is.
    pub stage: Stage,
    /// Who and where, as far as known.
    pub found: &'a Found,
}

impl Active<'_> {
    fn is_moving(&self) -> bool {
        matches!(self.stage, Stage::Moving(_))
    }
}

/// What is taken: address spaces and nodes.
#[derive(Clone, Debug, Default)]
pub struct Taken<'a> {
    processes: BTreeSet<&'a Identity>,
    nodes: BTreeMap<NodeId, usize>,
}

impl<'a> Taken<'a> {
    /// By jobs that are under way.
    pub fn by(active: impl IntoIterator<Item = &'a Found>) -> Self {
        let mut taken = Self::default();
        active.into_iter().for_each(|found| taken.add(found));
        taken
    }
    /// Takes what a job needs.
    pub fn add(&mut self, found: &'a Found) {
        self.processes.extend(&found.processes);
        found.nodes.iter().for_each(|node| *self.nodes.entry(node).or_default() += 1);
    }
    /// Why a job has to wait, for people; `None`: it need not.
    pub fn blocks(&self, found: &Found, limits: &Queue) -> Option<String> {
        if let Some(process) =
            found.processes.iter().find(|process| self.processes.contains(process))
        {
            return Some(format!("another job is at work on process {}", process.pid));
        }
        let is_full =
            |node: &NodeId| self.nodes.get(node).is_some_and(|&jobs| jobs >= limits.moves_per_node);
        found
            .nodes
            .iter()
            .find(is_full)
            .map(|node| format!("node {} is taken by another job", node.0))
    }
}

/// Whether a job under way makes room while jobs of these classes are planned or moved, itself among them: best effort does
/// for all others.
pub fn makes_room(own: QosClass, active: &[QosClass]) -> bool {
    own == QosClass::Be && active.iter().any(|class| *class != QosClass::Be)
}

/// Whether a job of this class may take a place to move: one is free, and none of a better class is being planned for it.
/// Planning takes no place by itself, so that a long look keeps nobody of its class waiting.
pub fn has_place(class: QosClass, active: &[Active<'_>], limits: &Queue) -> bool {
    let ahead = |job: &&Active<'_>| job.is_moving() || job.qos_class < class;
    active.iter().filter(ahead).count() < limits.moves
}

/// Best-effort jobs under way that have to go back into the queue, because jobs of other classes wait for what they have: a
/// process, a node, a place, or that somebody looks. No more of them than that takes, the youngest first.
pub fn preempted<'a>(waiting: &[Waiting<'a>], active: &[Active<'a>], limits: &Queue) -> Vec<u64> {
    let is_best_effort = |job: &Active<'a>| job.qos_class == QosClass::Be;
    let (own, others): (Vec<Active<'a>>, Vec<Active<'a>>) =
        active.iter().copied().partition(is_best_effort);
    let waiting: Vec<Waiting<'a>> =
        waiting.iter().filter(|job| job.qos_class != QosClass::Be).copied().collect();
    let starting = next(waiting.clone(), &others, limits);
    let planned = |job: &&Active<'a>| job.stage == Stage::Planning;
    let mut plans = others.iter().filter(planned).count() + starting.len();
    // What is planned will move.
    let mut places = others.len() + starting.len();
    let mut taken = Taken::by(others.iter().map(|job| job.found));
    let begins = waiting.iter().filter(|job| starting.contains(&job.number));
    begins.filter_map(|job| job.found).for_each(|found| taken.add(found));
    let is_waited_for = !starting.is_empty() || others.iter().any(|job| !job.is_moving());
    let mut back = Vec::new();
    // The oldest is asked first.
    for job in own.iter().filter(|_| is_waited_for) {
        let has_room = match job.stage {
            Stage::Moving(_) => places < limits.moves,
            Stage::Planning => plans < limits.plans,
            Stage::Ready => true,
        };
        match has_room && taken.blocks(job.found, limits).is_none() {
            true => {
                taken.add(job.found);
                places += usize::from(job.is_moving());
                plans += usize::from(job.stage == Stage::Planning);
            }
            false => back.push(job.number),
        }
    }
    back
}

/// A job that has moved for a slice and goes behind one that waits for what it has: one of a better class, or in its class one
/// of another owner, who has no more under way. That one is planned or moved then. Of several the one that has moved the
/// longest.
pub fn overstayed<'a>(
    waiting: &[Waiting<'a>],
    active: &[Active<'a>],
    limits: &Queue,
) -> Option<u64> {
    let ready = active.iter().filter(|job| job.stage == Stage::Ready).map(|job| Waiting {
        number: job.number,
        line: job.number,
        qos_class: job.qos_class,
        owner: job.owner,
        turn: others_of(job, active),
        found: Some(job.found),
    });
    let mut waiting: Vec<Waiting<'a>> = ready.chain(waiting.iter().copied()).collect();
    waiting.sort_by_key(key);
    let mut moving: Vec<(Duration, &Active<'a>)> = Vec::new();
    for job in active {
        match job.stage {
            Stage::Moving(time) if time >= SLICE => moving.push((time, job)),
            _ => {}
        }
    }
    if moving.is_empty() {
        return None;
    }
    moving.sort_by_key(|(time, job)| (Reverse(*time), job.number));
    let without = |numbers: [u64; 2]| -> Vec<Active<'a>> {
        active.iter().filter(|job| !numbers.contains(&job.number)).copied().collect()
    };
    let is_for = |job: &&Waiting<'a>, late: &Active<'a>| match job.qos_class.cmp(&late.qos_class) {
        Ordering::Less => true,
        Ordering::Equal => job.owner != late.owner && job.turn <= others_of(late, active),
        Ordering::Greater => false,
    };
    let starts = |job: &Waiting<'a>, beside: &[Active<'a>]| {
        has_place(job.qos_class, beside, limits) && !next(vec![*job], beside, limits).is_empty()
    };
    // What starts anyway needs nobody's place.
    let stuck = |job: &&Waiting<'a>| !starts(job, &without([job.number; 2]));
    let stuck: Vec<&Waiting<'a>> = waiting.iter().filter(stuck).collect();
    let late = moving.iter().map(|(_, late)| *late).find(|late| {
        let mut for_it = stuck.iter().filter(|job| is_for(job, late));
        for_it.any(|job| starts(job, &without([job.number, late.number])))
    });
    late.map(|late| late.number)
}

/// How many other jobs of its owner are under way in its class.
fn others_of(job: &Active<'_>, active: &[Active<'_>]) -> usize {
    let is_other = |other: &&Active<'_>| {
        other.owner == job.owner && other.qos_class == job.qos_class && other.number != job.number
    };
    active.iter().filter(is_other).count()
}

/// The order of jobs that wait: by class, then in turn by owner, then by age.
fn key(job: &Waiting<'_>) -> (QosClass, usize, u64, u64) {
    (job.qos_class, job.turn, job.line, job.number)
}

/// The numbers of the jobs to plan now, in order. What an earlier one has to wait for is kept for it, so that none is passed
/// over for ever; those that want other nodes go ahead of it. Nothing is planned that would only wait for a place then.
pub fn next<'a>(mut waiting: Vec<Waiting<'a>>, active: &[Active<'a>], limits: &Queue) -> Vec<u64> {
    let mut taken = Taken::by(active.iter().map(|job| job.found));
    waiting.sort_by_key(key);
    let planned = active.iter().filter(|job| job.stage == Stage::Planning).count();
    let mut plans = limits.plans.saturating_sub(planned);
    let mut begun: BTreeMap<QosClass, usize> = BTreeMap::new();
    let mut next = Vec::new();
    for job in waiting {
        let class = job.qos_class;
        let is_ahead = |other: &&Active<'a>| match other.stage {
            Stage::Moving(_) => true,
            Stage::Ready => other.qos_class <= class,
            Stage::Planning => other.qos_class < class,
        };
        let ahead = active.iter().filter(is_ahead).count()
            + begun.range(..class).map(|(_, jobs)| jobs).sum::<usize>();
        // What has gone behind others is not planned long before its turn; nor is what comes after it.
        let same = |other: &&Active<'a>| other.stage == Stage::Planning && other.qos_class == class;
        let beside = match job.line == job.number {
            true => 0,
            false => active.iter().filter(same).count() + begun.get(&class).copied().unwrap_or(0),
        };
        if plans == 0 || ahead + beside >= limits.moves {
            break;
        }
        // One of which nothing is known yet is planned to find out.
        if job.found.is_none_or(|found| taken.blocks(found, limits).is_none()) {
            next.push(job.number);
            plans -= 1;
            *begun.entry(class).or_default() += 1;
        }
        job.found.into_iter().for_each(|found| taken.add(found));
    }
    next
}
