//! The goals: bounds for ratios within one run.

use super::boots::BootRatio;
use crate::{
    figure::{Figure, NATIVE},
    subject,
};
use serde::Serialize;

/// One goal, for some kernels and cases.
struct Goal {
    kernels: &'static [&'static str],
    bench: &'static str,
    cases: &'static [&'static str],
    subject: &'static str,
    metric: &'static str,
    /// The subject that it is compared with; `None` if the bound is of the metric itself, most often because that is a ratio already.
    against: Option<&'static str>,
    bound: Bound,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    AtMost(f64),
    AtLeast(f64),
}
use Bound::{AtLeast, AtMost};

/// The result of a goal in one case on one kernel.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GoalResult {
    pub bench: String,
    pub kernel: String,
    pub case: String,
    /// The subjects that are compared.
    pub what: String,
    pub bound: Bound,
    /// `None` if it was not measured.
    pub value: Option<BootRatio>,
    pub met: Option<bool>,
}

const ALL: &[&str] = &["6.1", "6.12", "7.2"];
const LATER: &[&str] = &["6.12", "7.2"];
const BASE: &[&str] = &["512 MiB of 4 KiB pages"];
const LARGE_BASE: &[&str] = &["2 GiB of 4 KiB pages"];
const THP: &[&str] = &["512 MiB of THP"];
const LARGE_THP: &[&str] = &["2 GiB of THP"];
const HUGETLB: &[&str] = &["512 MiB of hugetlb pages", "2 GiB of hugetlb pages"];
const HOLES: &[&str] = &["512 MiB with holes, 20% local"];
const LARGE_HOLES: &[&str] = &["2 GiB with holes, 20% local"];
const SMALL: &[&str] = &[BASE[0], THP[0], HOLES[0]];
const LARGE: &[&str] = &[LARGE_BASE[0], LARGE_THP[0], LARGE_HOLES[0]];
const MOVED: &[&str] = &[BASE[0], THP[0]];
const STALL: &[&str] = &["192 MiB of 4 KiB pages", "192 MiB of THP"];

/// The goals for the time of a move are near to that of the calls alone, made by a program that knows what has to move. `fast` and
/// that program have two workers each.
const GOALS: &[Goal] = &[
    watched("CPU", None, AtMost(0.03)),
    watched("writer pages", Some("idle"), AtLeast(0.97)),
    wall(BASE, 1.05),
    wall(LARGE_BASE, 1.03),
    wall(THP, 1.1),
    wall(LARGE_THP, 1.08),
    wall(HUGETLB, 1.1),
    wall(HOLES, 1.1),
    wall(LARGE_HOLES, 1.08),
    Goal {
        kernels: ALL,
        bench: "throughput",
        cases: &["512 MiB of 4 KiB pages, to a node full of page cache"],
        subject: "numalocctl fast",
        metric: "wall",
        against: Some("migratepages"),
        bound: AtMost(0.9),
    },
    passes(BASE, 2.2),
    passes(LARGE_BASE, 2.2),
    cpu(SMALL, "numalocctl fast, 1 worker", 1.08),
    cpu(SMALL, "numalocctl fast", 1.5),
    cpu(LARGE, "numalocctl fast", 1.5),
    allocator(&["6.1"], 0.01),
    allocator(LATER, 0.2),
    writer("numalocctl balanced", 0.75),
    writer("numalocctl gentle", 0.9),
    Goal {
        kernels: ALL,
        bench: "stall",
        cases: STALL,
        subject: "numalocctl balanced",
        metric: "wall",
        against: Some("numalocctl fast"),
        bound: AtMost(4.0),
    },
    Goal {
        kernels: ALL,
        bench: "little",
        cases: &["2048 MiB, 1% remote, together", "2048 MiB, 1% remote, spread"],
        subject: subject::OURS,
        metric: "wall",
        against: Some(subject::LEAST),
        bound: AtMost(1.3),
    },
    Goal {
        kernels: ALL,
        bench: "reader",
        cases: &["192 MiB of 4 KiB pages, 48 MiB read"],
        subject: subject::TO_FULL,
        metric: "read during",
        against: Some(subject::TO_EMPTY),
        bound: AtLeast(0.8),
    },
    Goal {
        kernels: ALL,
        bench: "reader",
        cases: &["48 MiB of page cache"],
        subject: subject::THE_FILE,
        metric: "read of before",
        against: None,
        bound: AtLeast(0.8),
    },
    pressure(ALL, subject::CGROUP_OFF),
    pressure(ALL, subject::PSI_OFF),
    // Later kernels of Debian lack controllers of cgroup v1.
    pressure(&["6.1"], subject::ON_V1),
    looked("numalocctl plan"),
    looked("numalocctl locality"),
    Goal { bound: AtMost(1.1), ..looked("numalocctl top") },
    neighbour("numalocctl balanced", "p90", 1.028),
    neighbour("numalocctl balanced", "p99", 1.15),
    neighbour("numalocctl gentle", "p99", 1.05),
    sooner("migratepages"),
    sooner("memtierd"),
    sooner("memtierd, 1000 MB/s"),
    sooner("numad"),
    Goal { kernels: LATER, ..sooner("DAMOS") },
    Goal {
        kernels: ALL,
        bench: "spread",
        cases: MOVED,
        subject: "numalocctl fast",
        metric: "wall",
        against: Some(subject::ITSELF),
        bound: AtMost(0.9),
    },
    Goal {
        kernels: &["7.2"],
        bench: "spread",
        cases: MOVED,
        subject: "numalocctl fast",
        metric: "99% in place",
        against: Some(subject::DAMOS_DESTS),
        bound: AtMost(1.0),
    },
    // Whatever a run reports as moved is on another node by the page maps, and the other way round.
    Goal { bound: AtLeast(1.0), ..TIERS_ACCOUNT },
    TIERS_ACCOUNT,
    tiers_moved(subject::LEAST_MOVED, 1.3),
    tiers_moved(subject::BY_KERNEL, 0.5),
    many(ANYWHERE, MAPPINGS, "numalocctl locality", Some(subject::LEAST_LOOK), 2.0),
    many(&["6.1"], MAPPINGS, "numalocctl plan", None, 4000.0),
    many(LATER, MAPPINGS, "numalocctl plan", None, 2000.0),
    many(&["6.1"], MAPPINGS, "numalocctl migrate", None, 8000.0),
    many(LATER, MAPPINGS, "numalocctl migrate", None, 3000.0),
    many(ALL, THREADS, "numalocctl plan", Some(subject::LEAST_LOOK), 2.0),
    many(&["6.1"], RESERVED, "numalocctl plan", None, 3000.0),
    many(&[NATIVE], RESERVED, "numalocctl locality", None, 3000.0),
    many(&[NATIVE], THREADS, "numalocctl locality", Some(subject::LEAST_LOOK), 2.0),
    many(
        ANYWHERE,
        LITTLE,
        "numalocctl locality",
        Some("numalocctl locality of another build"),
        0.6,
    ),
    many(ALL, LITTLE, "numalocctl migrate", Some("numalocctl migrate of another build"), 0.6),
    scan(&["4 KiB pages"], 1.2),
    scan(&["THP"], 0.1),
    family(FAMILY, subject::ADDED, subject::ONE, 1.5),
    family(LARGE_FAMILY, subject::FAMILY, subject::LINEAR, 1.1),
    native("writing", WRITERS, "CreateJob", "p99", Some(subject::STORED), 4.0),
    native("api", IDLE, "numalocd", "CPU", None, 0.05),
    native("api", IDLE, "numalocd", "resident", None, 40.0),
];

const fn wall(cases: &'static [&'static str], most: f64) -> Goal {
    let (subject, against) = ("numalocctl fast", Some(subject::BARE));
    let (bench, metric, bound) = ("throughput", "wall", AtMost(most));
    Goal { kernels: ALL, bench, cases, subject, metric, against, bound }
}

/// What the command reads of files, by the size of the target's page map: how often it looks at each page besides moving it.
const fn passes(cases: &'static [&'static str], most: f64) -> Goal {
    let (subject, bench, metric) = ("numalocctl fast", "throughput", "passes");
    Goal { kernels: ALL, bench, cases, subject, metric, against: None, bound: AtMost(most) }
}

const fn cpu(cases: &'static [&'static str], subject: &'static str, most: f64) -> Goal {
    let (kernels, against) = (ALL, Some("migratepages"));
    let (bench, metric, bound) = ("throughput", "cpu", AtMost(most));
    Goal { kernels, bench, cases, subject, metric, against, bound }
}

const fn allocator(kernels: &'static [&'static str], most: f64) -> Goal {
    let (subject, against) = ("numalocctl balanced", Some("migratepages"));
    let (bench, metric, bound) = ("stall", "map p99.9", AtMost(most));
    Goal { kernels, bench, cases: &["192 MiB of 4 KiB pages"], subject, metric, against, bound }
}

const fn writer(subject: &'static str, least: f64) -> Goal {
    let (bench, metric, bound) = ("stall", "writer operations", AtLeast(least));
    Goal { kernels: ALL, bench, cases: STALL, subject, metric, against: None, bound }
}

const fn pressure(kernels: &'static [&'static str], subject: &'static str) -> Goal {
    let (cases, against) =
        (&["64 MiB, alone", "64 MiB, beside two strangers"], Some(subject::WITH_PSI));
    let (bench, metric, bound) = ("pressure", "wall", AtMost(2.0));
    Goal { kernels, bench, cases, subject, metric, against, bound }
}

const fn looked(subject: &'static str) -> Goal {
    let (kernels, cases, against) = (ALL, &["2048 MiB of 4 KiB pages"], Some("idle"));
    let (bench, metric, bound) = ("looked", "map p99.9", AtMost(1.4));
    Goal { kernels, bench, cases, subject, metric, against, bound }
}

const fn neighbour(subject: &'static str, metric: &'static str, most: f64) -> Goal {
    let (bench, cases, bound) = ("neighbour", MOVED, AtMost(most));
    Goal { kernels: ALL, bench, cases, subject, metric, against: Some("idle"), bound }
}

const fn sooner(peer: &'static str) -> Goal {
    let (bench, cases) = ("soonest", MOVED);
    let (subject, metric) = ("numalocctl fast", "wall");
    Goal { kernels: ALL, bench, cases, subject, metric, against: Some(peer), bound: AtMost(1.0) }
}

const WATCHED: &[&str] = &["4 targets of 256 MiB"];

const fn watched(metric: &'static str, against: Option<&'static str>, bound: Bound) -> Goal {
    let (bench, cases, subject) = ("watched", WATCHED, "watched");
    Goal { kernels: LATER, bench, cases, subject, metric, against, bound }
}

const TIERS_ACCOUNT: Goal = Goal {
    kernels: LATER,
    bench: "tiers",
    cases: &["256 MiB, fast node nearly full"],
    subject: subject::OURS_TIERS,
    metric: "reported of moved",
    against: None,
    bound: AtMost(1.0),
};

const fn tiers_moved(against: &'static str, most: f64) -> Goal {
    let (cases, subject) = (&["256 MiB, until idle memory is below"], subject::OURS_TIERS);
    let (kernels, bench, metric, bound) = (LATER, "tiers", "moved", AtMost(most));
    Goal { kernels, bench, cases, subject, metric, against: Some(against), bound }
}

const ANYWHERE: &[&str] = &[NATIVE, "6.1", "6.12", "7.2"];
const MAPPINGS: &[&str] = &["64768 mappings"];
const THREADS: &[&str] = &["2000 threads"];
const RESERVED: &[&str] = &["16 TiB reserved, 64 MiB resident"];
const LITTLE: &[&str] = &["4 MiB"];

/// Without `against` the bound is in milliseconds: what people wait for at most, in the emulated machine.
const fn many(
    kernels: &'static [&'static str],
    cases: &'static [&'static str],
    subject: &'static str,
    against: Option<&'static str>,
    most: f64,
) -> Goal {
    let (bench, metric, bound) = ("many", "wall", AtMost(most));
    Goal { kernels, bench, cases, subject, metric, against, bound }
}

const fn scan(cases: &'static [&'static str], most: f64) -> Goal {
    let (subject, against) = ("numaloc, all at home", Some("bare pagemap, looked up"));
    native("scan", cases, subject, "scan", against, most)
}

const FAMILY: &[&str] = &["200 processes, 256 MiB shared"];
const LARGE_FAMILY: &[&str] = &["2000 processes, 256 MiB shared"];

const fn family(
    cases: &'static [&'static str],
    subject: &'static str,
    against: &'static str,
    most: f64,
) -> Goal {
    native("families", cases, subject, "plan", Some(against), most)
}

const WRITERS: &[&str] = &["8 writers"];
const IDLE: &[&str] = &["10000 jobs, 1000 workloads, 1000 schedules, nothing to do"];

/// A goal of a benchmark on this machine.
const fn native(
    bench: &'static str,
    cases: &'static [&'static str],
    subject: &'static str,
    metric: &'static str,
    against: Option<&'static str>,
    most: f64,
) -> Goal {
    Goal { kernels: &[NATIVE], bench, cases, subject, metric, against, bound: AtMost(most) }
}

/// All goals, with what was measured.
pub fn judge(figures: &[Figure]) -> Vec<GoalResult> {
    let places = GOALS.iter().flat_map(|goal| {
        goal.cases
            .iter()
            .flat_map(move |&case| goal.kernels.iter().map(move |&kernel| (goal, case, kernel)))
    });
    let results = places.map(|(goal, case, kernel)| {
        let of = |subject: &str| {
            let is_it = |figure: &&Figure| {
                [&figure.bench, &figure.kernel, &figure.case, &figure.subject, &figure.metric]
                    == [goal.bench, kernel, case, subject, goal.metric]
            };
            figures.iter().filter(is_it).collect::<Vec<_>>()
        };
        let value = match goal.against {
            None => BootRatio::of_medians(&of(goal.subject)),
            Some(against) => BootRatio::between(&of(goal.subject), &of(against)),
        };
        let what = match goal.against {
            None => format!("{}: {}", goal.subject, goal.metric),
            Some(against) => format!("{}: {} / {against}", goal.subject, goal.metric),
        };
        GoalResult {
            bench: goal.bench.into(),
            kernel: kernel.into(),
            case: case.into(),
            what,
            bound: goal.bound,
            value,
            met: value.map(|value| goal.bound.holds(value.median)),
        }
    });
    results.collect()
}

impl Bound {
    fn holds(self, value: f64) -> bool {
        match self {
            AtMost(most) => value <= most,
            AtLeast(least) => value >= least,
        }
    }
}
