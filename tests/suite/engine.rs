//! Calls the engine under test in the same way as the command line.

use numaloc_core::{Options, Plan, Process, Topology};
use numaloc_executor::{
    Assignment, Control, InOrder, Outcome, RunLimits, execute, execute_with, homes,
};
use numaloc_host::{
    Error, Policies, Roots, Survey, Target, heat, resolve, survey_unless, topology::topology,
};

/// A plan, with the topology and the survey that it was made from.
#[derive(Debug)]
pub struct Inspection {
    topology: Topology,
    survey: Survey,
    pub plan: Plan,
}

/// Surveys the targets and makes a plan. Asks for the policy of each mapping.
pub fn try_inspect(targets: &[Target], options: &Options) -> Result<Inspection, Error> {
    inspect_as(Policies::Ask, targets, options)
}

fn inspect_as(
    policies: Policies<'_>,
    targets: &[Target],
    options: &Options,
) -> Result<Inspection, Error> {
    let roots = Roots::default();
    let topology = topology(&roots)?;
    let processes = resolve(&roots, targets, &topology)?.processes;
    let mut survey = survey_unless(&|| false, policies, &roots, &topology, processes, options)?;
    let mut plan = survey.take_seen().plan(&topology, options);
    plan.order = heat::choose(&roots, &plan)?;
    Ok(Inspection { topology, survey, plan })
}

/// Like [`try_inspect`]; panics on an error.
pub fn inspect(targets: &[Target], options: &Options) -> Inspection {
    try_inspect(targets, options).unwrap_or_else(|error| panic!("{targets:?}: {error}"))
}

/// Surveys as the command `plan` does: asks for policies only where mappings are small.
pub fn inspect_briefly(targets: &[Target], options: &Options) -> Inspection {
    inspect_as(Policies::AskBriefly, targets, options).expect("an inspection")
}

/// Surveys as after a move: uses the policies that the survey before it knows.
pub fn inspect_again(before: &Inspection, targets: &[Target]) -> Inspection {
    inspect_as(before.survey.known(), targets, &before.plan.options).expect("an inspection")
}

impl Inspection {
    /// Carries the plan out. Checks that the account of each process closes, and that the flows add up to what moved.
    pub fn carry_out(&self, limits: &RunLimits, control: &Control) -> Outcome {
        self.carry_out_on(&Roots::default(), limits, control)
    }

    /// The same with other roots.
    pub fn carry_out_on(&self, roots: &Roots, limits: &RunLimits, control: &Control) -> Outcome {
        let Self { topology, survey, plan } = self;
        let run = Assignment { roots, topology, plan, survey, limits, control };
        let outcome = execute(run).expect("it begins");
        check(&outcome);
        outcome
    }
}

fn check(outcome: &Outcome) {
    for process in &outcome.processes {
        assert!(process.account.closes(), "{process:?}");
    }
    let flown: u64 = outcome.flows.values().sum();
    assert_eq!(flown, outcome.account().moved_bytes(), "{outcome:?}");
}

/// Carries out a plan with others who make room for it. Checks all accounts.
pub fn exchange(
    inspected: &Inspection,
    others: &[Target],
    limits: &RunLimits,
    control: &Control,
) -> (Outcome, Vec<Outcome>) {
    let (roots, Inspection { topology, survey, plan }) = (Roots::default(), inspected);
    let found = |target: &Target| -> Vec<Process> {
        resolve(&roots, std::slice::from_ref(target), topology).expect("they are there").processes
    };
    let others: Vec<Vec<Process>> = others.iter().map(found).collect();
    let homes = others.iter().map(|processes| homes(topology, processes)).collect();
    let see = |index: usize, options: &Options| {
        let processes = others[index].clone();
        survey_unless(&|| false, Policies::Ask, &roots, topology, processes, options).ok()
    };
    let mut partners = InOrder::new(topology, &plan.options, homes, limits.clone(), see);
    let run = Assignment { roots: &roots, topology, plan, survey, limits, control };
    let ran = execute_with(run, &mut partners);
    let (outcome, moved) = ran.expect("it begins");
    check(&outcome);
    moved.iter().for_each(check);
    (outcome, moved)
}

/// Surveys, plans and moves. Without the rests of the pace, because the tests that use this ask only where pages are.
pub fn migrate(targets: &[Target], options: &Options) -> Outcome {
    let limits = RunLimits { duty_percent: Some(100), ..RunLimits::default() };
    inspect(targets, options).carry_out(&limits, &Control::default())
}
