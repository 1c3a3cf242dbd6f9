//! Selects the jobs that come next. No IO, no clock.

use crate::config::Queue;
use numaloc_api::value::QosClass;
use numaloc_core::{Identity, NodeId};
use numaloc_engine::FoundTarget;
use std::{
    borrow::Cow,
    cmp::{Ordering, Reverse},
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    time::Duration,
};

/// Time that a job moves before it makes room for a waiting job: one of a better class, or one of another owner or
/// tenant in its own class.
pub const SLICE: Duration = Duration::from_secs(120);

/// A job in the queue, with what decides when it is admitted.
#[derive(Clone, Copy, Debug)]
pub struct Waiting<'a> {
    /// Its number: the lower, the older.
    pub number: u64,
    /// Its place in the queue: its number, unless it has been put behind jobs that were already there.
    pub line: u64,
    /// Its class: the queue serves LSR before LS, and LS before BE.
    pub qos_class: QosClass,
    /// The name of its owner, as in `Job::creator`.
    pub owner: &'a str,
    /// On whose behalf the owner asks; empty: on its own.
    pub tenant: &'a str,
    /// Number of jobs of the same owner come before it in its class, including those under way. See [`take_turns`].
    pub turn: usize,
    /// Number of these that are of the same tenant.
    pub tenant_turn: usize,
    /// Its processes and nodes, as far as known.
    pub found: Option<&'a FoundTarget>,
}

/// The stage of a job under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobStage {
    /// Its target is being looked at and planned.
    Planning,
    /// It has been planned and waits for a place to move.
    Ready,
    /// It moves, and has done so for this long.
    Moving(Duration),
}

/// A job that is under way.
#[derive(Clone, Copy, Debug)]
pub struct Active<'a> {
    /// Its number: the lower, the older.
    pub number: u64,
    /// The class of the job, as in [`Waiting`].
    pub qos_class: QosClass,
    /// The name of its owner, as in [`Waiting`].
    pub owner: &'a str,
    /// On whose behalf the owner asks; empty: on its own.
    pub tenant: &'a str,
    /// Its stage, which decides what it takes from the bounds.
    pub stage: JobStage,
    /// Its processes and nodes, as far as known.
    pub found: Option<&'a FoundTarget>,
}

impl Active<'_> {
    fn is_moving(&self) -> bool {
        matches!(self.stage, JobStage::Moving(_))
    }
}

/// Resources that jobs have taken: address spaces, files, and nodes with the number of jobs.
#[derive(Clone, Debug, Default)]
pub struct TakenByJobs<'a> {
    processes: BTreeSet<&'a Identity>,
    files: BTreeSet<&'a String>,
    nodes: BTreeMap<NodeId, usize>,
}

impl<'a> TakenByJobs<'a> {
    /// The resources that these jobs have taken.
    pub fn by(active: impl IntoIterator<Item = &'a FoundTarget>) -> Self {
        let mut taken = Self::default();
        active.into_iter().for_each(|found| taken.add(found));
        taken
    }
    /// Takes what a job needs.
    pub fn add(&mut self, found: &'a FoundTarget) {
        self.processes.extend(found.processes.iter());
        self.files.extend(&found.files);
        found.nodes.iter().for_each(|node| *self.nodes.entry(node).or_default() += 1);
    }
    /// The reason why a job has to wait, for people. `None`: it need not wait.
    pub fn blocks(&self, found: &FoundTarget, limits: &Queue) -> Option<String> {
        if let Some(process) =
            found.processes.iter().find(|process| self.processes.contains(process))
        {
            return Some(format!("another job is at work on process {}", process.pid));
        }
        let is_taken = |file: &&String| self.files.iter().any(|taken| may_share(file, taken));
        if let Some(file) = found.files.iter().find(is_taken) {
            return Some(format!("another job is at work on file {file}"));
        }
        let is_full =
            |node: &NodeId| self.nodes.get(node).is_some_and(|&jobs| jobs >= limits.moves_per_node);
        found
            .nodes
            .iter()
            .find(is_full)
            .map(|node| format!("node {} is taken by another job", node.0))
    }
    /// Whether a job need not wait, as far as is known of it.
    pub fn leaves_room(&self, found: Option<&FoundTarget>, limits: &Queue) -> bool {
        found.is_none_or(|found| self.blocks(found, limits).is_none())
    }
}

/// Whether two names of files may mean the same one: a directory stands for what is below it, and so does the part of a
/// pattern without `*` and `?`, because which files match is not known here.
fn may_share(one: &str, other: &str) -> bool {
    let fixed = |name: &str| -> PathBuf {
        let parts = Path::new(name).iter();
        parts.take_while(|part| !part.to_string_lossy().contains(['*', '?'])).collect()
    };
    let (one, other) = (fixed(one), fixed(other));
    one.starts_with(&other) || other.starts_with(&one)
}

/// Whether a job of class `own` makes room while jobs of the classes `active` are planned or moved. A best-effort job
/// does if one of these is of another class. `active` may include the job itself.
pub fn makes_room(own: QosClass, active: &[QosClass]) -> bool {
    own == QosClass::Be && active.iter().any(|class| *class != QosClass::Be)
}

/// Whether a job of this class may take a place to move. Places count as taken by all jobs that move, and by jobs of a
/// better class that are planned for one. Planning in the same class takes no place, so a long look at a target keeps
/// no job of the same class waiting.
pub fn has_place(class: QosClass, active: &[Active<'_>], limits: &Queue) -> bool {
    let ahead = |job: &&Active<'_>| job.is_moving() || job.qos_class < class;
    active.iter().filter(ahead).count() < limits.moves
}

/// Best-effort jobs under way that have to go back into the queue, because jobs of other classes wait for what they
/// have: a process, a node, or a place to move or to plan. No more of them than necessary; the youngest first.
pub fn preempted<'a>(waiting: &[Waiting<'a>], active: &[Active<'a>], limits: &Queue) -> Vec<u64> {
    let is_best_effort = |job: &Active<'a>| job.qos_class == QosClass::Be;
    let (own, others): (Vec<Active<'a>>, Vec<Active<'a>>) =
        active.iter().copied().partition(is_best_effort);
    let waiting: Vec<Waiting<'a>> =
        waiting.iter().filter(|job| job.qos_class != QosClass::Be).copied().collect();
    let starting = next(waiting.clone(), &others, limits);
    let planned = |job: &&Active<'a>| job.stage == JobStage::Planning;
    let mut plans = others.iter().filter(planned).count() + starting.len();
    // A job that is planned will move, so it counts, too.
    let mut places = others.len() + starting.len();
    let mut taken = TakenByJobs::by(others.iter().filter_map(|job| job.found));
    let begins = waiting.iter().filter(|job| starting.contains(&job.number));
    begins.filter_map(|job| job.found).for_each(|found| taken.add(found));
    let is_waited_for = !starting.is_empty() || others.iter().any(|job| !job.is_moving());
    let mut back = Vec::new();
    // The oldest comes first, so it is the first to stay.
    for job in own.iter().filter(|_| is_waited_for) {
        let has_room = match job.stage {
            JobStage::Moving(_) => places < limits.moves,
            JobStage::Planning => plans < limits.plans,
            JobStage::Ready => true,
        };
        if has_room && taken.leaves_room(job.found, limits) {
            job.found.into_iter().for_each(|found| taken.add(found));
            places += usize::from(job.is_moving());
            plans += usize::from(job.stage == JobStage::Planning);
        } else {
            back.push(job.number)
        }
    }
    back
}

/// A job that has moved for at least a slice and has to go behind a job that waits for what it has. The waiting job has
/// a better class; or it has the same class and another owner, or another tenant of the same owner, with no more jobs
/// under way. Without the first job, the waiting one can be planned or moved. If there are several to choose from, the
/// one that has moved longest.
pub fn overstayed<'a>(
    waiting: &[Waiting<'a>],
    active: &[Active<'a>],
    limits: &Queue,
) -> Option<u64> {
    let ready = active.iter().filter(|job| job.stage == JobStage::Ready).map(|job| Waiting {
        number: job.number,
        line: job.number,
        qos_class: job.qos_class,
        owner: job.owner,
        tenant: job.tenant,
        turn: others_of(job, active),
        tenant_turn: others_of_tenant(job, active),
        found: job.found,
    });
    let mut waiting: Vec<Waiting<'a>> = ready.chain(waiting.iter().copied()).collect();
    waiting.sort_by_key(key);
    let mut moving: Vec<(Duration, &Active<'a>)> = Vec::new();
    for job in active {
        match job.stage {
            JobStage::Moving(time) if time >= SLICE => moving.push((time, job)),
            _ => {}
        }
    }
    if moving.is_empty() {
        return None;
    }
    moving.sort_by_key(|(time, job)| (Reverse(*time), job.number));
    let all = Beside::new(active, [None; 2]);
    let is_for = |job: &&Waiting<'a>, late: &Active<'a>| match job.qos_class.cmp(&late.qos_class) {
        Ordering::Less => true,
        Ordering::Equal if job.owner != late.owner => job.turn <= others_of(late, active),
        Ordering::Equal => {
            job.tenant != late.tenant && job.tenant_turn <= others_of_tenant(late, active)
        }
        Ordering::Greater => false,
    };
    // A job that can start anyway needs no place of another.
    let stuck = |job: &&Waiting<'a>| !all.without(job.number, None, active).lets_start(job, limits);
    let stuck: Vec<&Waiting<'a>> = waiting.iter().filter(stuck).collect();
    let late = moving.iter().map(|(_, late)| *late).find(|late| {
        let rest = Beside::new(active, [None, Some(late.number)]);
        let rest = |number| rest.without(number, Some(late.number), active);
        let mut for_it = stuck.iter().filter(|job| is_for(job, late));
        for_it.any(|job| rest(job.number).lets_start(job, limits))
    });
    late.map(|late| late.number)
}

/// Jobs under way, with what they have taken: many jobs that wait are compared with them.
#[derive(Clone, Debug)]
struct Beside<'a> {
    active: Vec<Active<'a>>,
    taken: TakenByJobs<'a>,
}

impl<'a> Beside<'a> {
    /// The jobs under way, without those of these numbers.
    fn new(active: &[Active<'a>], without: [Option<u64>; 2]) -> Self {
        let is_one = |job: &&Active<'a>| !without.contains(&Some(job.number));
        let active: Vec<Active<'a>> = active.iter().filter(is_one).copied().collect();
        let taken = TakenByJobs::by(active.iter().filter_map(|job| job.found));
        Self { active, taken }
    }

    /// The same, which are those of `active` without `late`, as a job meets them: without itself, if it is one of them.
    /// Most jobs only wait, so what has been taken is not added up again for each.
    fn without(&self, number: u64, late: Option<u64>, active: &[Active<'a>]) -> Cow<'_, Self> {
        if self.active.iter().any(|job| job.number == number) {
            Cow::Owned(Self::new(active, [Some(number), late]))
        } else {
            Cow::Borrowed(self)
        }
    }

    /// Whether a job could be planned or moved now, if it were the only one that waits.
    fn lets_start(&self, job: &Waiting<'a>, limits: &Queue) -> bool {
        has_place(job.qos_class, &self.active, limits)
            && self.taken.leaves_room(job.found, limits)
            && may_begin(job, &self.active, &BTreeMap::new(), limits)
    }
}

/// Number of other jobs of the same owner and class under way.
fn others_of(job: &Active<'_>, active: &[Active<'_>]) -> usize {
    others(job, active).count()
}

/// Number of these that are of the same tenant.
fn others_of_tenant(job: &Active<'_>, active: &[Active<'_>]) -> usize {
    others(job, active).filter(|other| other.tenant == job.tenant).count()
}

fn others<'a>(job: &Active<'_>, active: &'a [Active<'a>]) -> impl Iterator<Item = &'a Active<'a>> {
    let (number, class, owner) = (job.number, job.qos_class, job.owner.to_owned());
    active.iter().filter(move |other| {
        other.number != number && other.qos_class == class && other.owner == owner
    })
}

/// Sets the turns of queued jobs, which are given by age. The tenants of an owner take turns for the turns of the
/// owner, so an owner gets no more by naming more tenants.
pub fn take_turns<'a>(waiting: &mut [Waiting<'a>], active: &[Active<'a>]) {
    let mut of_tenants: BTreeMap<(QosClass, &str, &str), usize> = BTreeMap::new();
    let mut of_owners: BTreeMap<(QosClass, &str), usize> = BTreeMap::new();
    for job in active {
        *of_tenants.entry((job.qos_class, job.owner, job.tenant)).or_default() += 1;
        *of_owners.entry((job.qos_class, job.owner)).or_default() += 1;
    }
    for job in &mut *waiting {
        let turns = of_tenants.entry((job.qos_class, job.owner, job.tenant)).or_default();
        job.tenant_turn = *turns;
        *turns += 1;
    }
    waiting.sort_by_key(|job| (job.tenant_turn, job.line, job.number));
    for job in waiting {
        let turns = of_owners.entry((job.qos_class, job.owner)).or_default();
        job.turn = *turns;
        *turns += 1;
    }
}

/// The order of queued jobs: by class, then owners and their tenants take turns, then by age.
fn key(job: &Waiting<'_>) -> (QosClass, usize, u64, u64) {
    (job.qos_class, job.turn, job.line, job.number)
}

/// The numbers of the jobs to plan now, in order. The processes and nodes that a waiting job needs are kept for it, so
/// that no later job can overtake it forever; jobs that need other processes and nodes go ahead of it. No job is
/// planned that would then only wait for a place to move.
pub fn next<'a>(mut waiting: Vec<Waiting<'a>>, active: &[Active<'a>], limits: &Queue) -> Vec<u64> {
    let mut taken = TakenByJobs::by(active.iter().filter_map(|job| job.found));
    waiting.sort_by_key(key);
    let mut begun: BTreeMap<QosClass, usize> = BTreeMap::new();
    let mut next = Vec::new();
    for job in waiting {
        if !may_begin(&job, active, &begun, limits) {
            break;
        }
        // If nothing is known of a job yet, it is planned to find out.
        if taken.leaves_room(job.found, limits) {
            next.push(job.number);
            *begun.entry(job.qos_class).or_default() += 1;
        }
        job.found.into_iter().for_each(|found| taken.add(found));
    }
    next
}

/// Whether there is a place to plan for a job, and no more jobs before it than there are places to move. `begun` has
/// the number of jobs of each class that begin beside those under way.
fn may_begin(
    job: &Waiting<'_>,
    active: &[Active<'_>],
    begun: &BTreeMap<QosClass, usize>,
    limits: &Queue,
) -> bool {
    let class = job.qos_class;
    let is_planned = |other: &&Active<'_>| other.stage == JobStage::Planning;
    let plans = active.iter().filter(is_planned).count() + begun.values().sum::<usize>();
    let is_ahead = |other: &&Active<'_>| match other.stage {
        JobStage::Moving(_) => true,
        JobStage::Ready => other.qos_class <= class,
        JobStage::Planning => other.qos_class < class,
    };
    let ahead = active.iter().filter(is_ahead).count()
        + begun.range(..class).map(|(_, jobs)| jobs).sum::<usize>();
    // A job that was put behind others is not planned long before its turn: for it, planning jobs of its class count,
    // too. The jobs after it wait with it.
    let same = |other: &&Active<'_>| is_planned(other) && other.qos_class == class;
    let beside = if job.line == job.number {
        0
    } else {
        active.iter().filter(same).count() + begun.get(&class).copied().unwrap_or(0)
    };
    plans < limits.plans && ahead + beside < limits.moves
}
