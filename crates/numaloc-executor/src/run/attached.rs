//! Moves what the target has attached and no process maps ([`Pages::Unmapped`]), after what is mapped: as page cache is moved, but
//! into the accounts of the processes that have attached it.

use crate::{
    limits::assignment::Assignment,
    run::file_run::{FileOutcome, FileRun, PlannedFile, Unmapped},
    work::{
        Work,
        report::{self, Report},
    },
};
use numaloc_core::{CacheGoal, FilePlan, Move, NodeSet, Pages, Plan};
use numaloc_host::AttachedFile;

/// Moves the unmapped pages of a plan, and counts them in the report.
pub fn move_unmapped(run: Assignment<'_>, work: &Work<'_>, report: &mut Report) {
    let Assignment { roots, topology, memory, plan, survey, limits, control } = run;
    for (index, planned_move) in plan.moves.iter().enumerate() {
        if planned_move.pages != Pages::Unmapped {
            continue;
        }
        let first = planned_move.mappings[0];
        let Some(attached) = survey.attached.get(&(first.process, first.start)) else { continue };
        for (sources, targets) in by_targets(plan, planned_move) {
            let run = FileRun {
                roots,
                topology,
                memory,
                options: &plan.options,
                limits,
                control,
                // The way to it goes through a process: only through the one of the survey.
                admits: &|_| survey.spaces[first.process].is_alive(),
                unmapped: Some(Unmapped { sources: &sources, stop: &|| work.stop() }),
            };
            let AttachedFile { path, id, cache } = attached.clone();
            let file_plan = FilePlan::new(&CacheGoal::On(targets), &cache);
            let file = PlannedFile { path, id, cache, plan: file_plan };
            for outcome in run.carry_out(&[&[file]]) {
                add(report, index, first.process, outcome);
            }
        }
    }
}

/// The nodes that pages of a move leave, by the nodes that they may go to: those of another tier go to others than the rest.
fn by_targets(plan: &Plan, planned_move: &Move) -> Vec<(NodeSet, NodeSet)> {
    let routes = &plan.routes[planned_move.routes];
    let mut all: Vec<(NodeSet, NodeSet)> = Vec::new();
    for &from in planned_move.remote.keys() {
        let targets: NodeSet = routes.from(from).iter().copied().collect();
        match all.iter_mut().find(|(_, known)| *known == targets) {
            Some((sources, _)) => sources.insert(from),
            None => all.push(([from].into_iter().collect(), targets)),
        }
    }
    all
}

/// Counts the result of a move of the plan in the account of a process.
fn add(report: &mut Report, index: usize, process: usize, outcome: FileOutcome) {
    let FileOutcome { account, flows, calls } = outcome;
    report.found[index] += account.found_bytes();
    report.moved[index] += account.moved_bytes();
    report.accounts[process].add(&account);
    report::add(&mut report.flows[process], flows);
    report.calls.add(&calls);
}
