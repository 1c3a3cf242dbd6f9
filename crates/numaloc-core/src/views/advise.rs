//! Advice: which processes of a host are on the wrong node, which changes would help, and in which order. Pure: a
//! look at the host goes in, findings come out, and nothing is changed.
//!
//! | module | what it has |
//! |---|---|
//! | [`look`] | what was seen of the host and of those whose memory it is about |
//! | [`finding`], [`step`] | what is wrong, what it would bring, and the commands |
//! | `capacity` | what nodes have left, and how far they are from each other |
//! | `device`, `storage`, `helper`, `narrow`, `remote`, `crowded`, `uneven`, `hugetlb`, `setting` | what may be wrong, one file each |
//! | `gain`, [`fit`] | what a finding would bring; how much memory fits on one node |
//! | `sequence` | the steps in the right order |
//! | [`follow`](mod@follow) | the host as it would be after a finding has been followed |
//! | [`action`] | what a step does, and its line for a shell |
//! | [`order`], [`verdict`], [`back`] | to carry advice out: the canary first, whether something got worse, the way back |
//!
//! Findings are given greedily: the largest benefit first (among those of one kind, by latencies), and each next one on the host as it would be after those before it. So no
//! node is given more than it has by all of them together, and after all have been followed nothing is left to advise.

pub mod action;
pub mod back;
mod capacity;
mod crowded;
mod device;
pub mod finding;
pub mod fit;
pub mod follow;
mod gain;
mod helper;
mod hugetlb;
pub mod look;
mod narrow;
pub mod order;
mod remote;
mod repinned;
mod sequence;
mod setting;
pub mod step;
mod storage;
#[cfg(test)]
mod tests;
mod uneven;
pub mod verdict;

use capacity::HostState;

pub use action::{Action, Pinned, quoted};
pub use finding::{Finding, FindingKind};
pub use fit::{NodeFit, node_fit};
pub use follow::follow;
pub use look::{CpuControl, Exactness, HostLook, Subject, Who};
pub use step::{AdviceStep, How, migration};
pub use verdict::{Sight, Worse, worse};

/// Judges of single subjects. Each gives one finding at most.
const JUDGES: [Judge; 3] = [placed, uneven::judge, hugetlb::judge];
type Judge = fn(&HostState, &Subject, u64) -> Option<Finding>;

/// Whether a subject is where it should be. Fewer nodes first: who fits on one node need not be brought to two before.
fn placed(host: &HostState, subject: &Subject, min_bytes: u64) -> Option<Finding> {
    if device::home(host, subject).is_some() {
        return device::judge(host, subject, min_bytes);
    }
    if let Some(finding) = storage::judge(host, subject, min_bytes) {
        return Some(finding);
    }
    if helper::core(host, subject).is_some() {
        return helper::judge(host, subject, min_bytes);
    }
    let judges: [Judge; 3] = [narrow::judge, remote::judge, crowded::judge];
    judges.iter().find_map(|judge| judge(host, subject, min_bytes))
}

/// A bound on rounds. One round is the rule; another follows where what has moved away left room for what did not fit before.
const ROUNDS: usize = 32;

/// Findings of this host, in the order in which to follow them. Less than `min_bytes` is not worth a finding.
pub fn advise(look: &HostLook, min_bytes: u64) -> Vec<Finding> {
    let mut host = HostState::new(look.clone());
    // The same for each order in which the subjects were seen.
    host.look.subjects.sort_by(|a, b| a.who.cmp(&b.who));
    host.refresh();
    let mut findings = Vec::new();
    for _ in 0..ROUNDS {
        let before = findings.len();
        round(&mut host, min_bytes, &mut findings);
        if findings.len() == before {
            break;
        }
    }
    // Settings come last: they are judged by where all subjects are by then.
    findings.extend(setting::judge(&host.look));
    findings
}

/// The index of a subject, that of the judge, and its finding.
type RankedFinding = (usize, usize, Finding);

/// Has those of one kind take their places among the others by what latencies promise, the most first.
fn by_benefit(host: &HostState, candidates: &mut [RankedFinding]) {
    let most = |finding: &Finding| {
        gain::benefit(&host.look, finding).map_or(0.0, |benefit| benefit.max_percent)
    };
    for kind in FindingKind::ALL {
        let places: Vec<usize> =
            (0..candidates.len()).filter(|&at| candidates[at].2.kind == kind).collect();
        let mut of_kind: Vec<(f64, RankedFinding)> =
            places.iter().map(|&at| (most(&candidates[at].2), candidates[at].clone())).collect();
        // Stable: equal ones stay in the order of their weight.
        of_kind.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        for (at, (_, candidate)) in places.into_iter().zip(of_kind) {
            candidates[at] = candidate;
        }
    }
}

/// Judges all subjects, and takes the findings in the order of benefit, each by the state that the ones before it
/// leave.
fn round(host: &mut HostState, min_bytes: u64, findings: &mut Vec<Finding>) {
    let mut candidates: Vec<RankedFinding> = Vec::new();
    for (index, subject) in host.look.subjects.iter().enumerate() {
        let found = JUDGES
            .iter()
            .enumerate()
            .filter_map(|(number, judge)| Some((index, number, judge(host, subject, min_bytes)?)));
        candidates.extend(found);
    }
    let benefit = |finding: &Finding| (finding.weight, finding.bytes);
    candidates.sort_by(|(a_index, a_judge, a), (b_index, b_judge, b)| {
        let ((a_weight, a_bytes), (b_weight, b_bytes)) = (benefit(a), benefit(b));
        let more = b_weight.total_cmp(&a_weight).then(b_bytes.cmp(&a_bytes));
        more.then((a_index, a_judge).cmp(&(b_index, b_judge)))
    });
    by_benefit(host, &mut candidates);
    for (index, judge, _) in candidates {
        if let Some(mut finding) = JUDGES[judge](host, &host.look.subjects[index], min_bytes) {
            finding.benefit = gain::benefit(&host.look, &finding);
            follow::apply(&mut host.look, &finding);
            if finding.cpus.is_some() {
                host.refresh();
            }
            findings.push(finding);
        }
    }
}
