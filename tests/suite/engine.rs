//! Calls the engine under test as the command line does.

use numaloc_core::{Options, Plan, Topology};
use numaloc_executor::{Control, Migration, Outcome, Partners, PlannedMigration, RunLimits};
use numaloc_host::{Error, Policies, Resolved, Roots, Target, resolve};
use parking_lot::{Mutex, MutexGuard};

/// A planned migration. Several threads may refer to it; one of them runs it.
#[derive(Debug)]
pub struct Inspection {
    planned: Mutex<PlannedMigration<Resolved>>,
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
    let find = |topology: &Topology| resolve(&roots, targets, topology);
    let planned = Migration::on(&roots)?.plan(options, policies, &|| false, find)?;
    Ok(Inspection { plan: planned.plan.clone(), planned: Mutex::new(planned) })
}

/// Like [`try_inspect`]; panics on an error.
pub fn inspect(targets: &[Target], options: &Options) -> Inspection {
    try_inspect(targets, options).unwrap_or_else(|error| panic!("{targets:?}: {error}"))
}

/// Surveys as the command `plan` does: asks for policies only where mappings are small.
pub fn inspect_briefly(targets: &[Target], options: &Options) -> Inspection {
    inspect_as(Policies::AskBriefly, targets, options).expect("an inspection")
}

impl Inspection {
    fn planned(&self) -> MutexGuard<'_, PlannedMigration<Resolved>> {
        self.planned.lock()
    }

    /// The plan of a look after a move, which uses the policies that are known.
    pub fn look_again(&self) -> Plan {
        self.planned().look_again(&|| false).expect("readable").expect("it is alive")
    }

    /// Carries the plan out. Checks that the account of each process closes, and that the flows add up to what moved.
    pub fn carry_out(&self, limits: &RunLimits, control: &Control) -> Outcome {
        self.run(limits, control).0
    }

    /// The same with other roots.
    pub fn carry_out_on(&self, roots: &Roots, limits: &RunLimits, control: &Control) -> Outcome {
        self.planned().roots = roots.clone();
        self.carry_out(limits, control)
    }

    /// Carries out `plan`, which a test may have changed.
    fn run(&self, limits: &RunLimits, control: &Control) -> (Outcome, Vec<Outcome>) {
        let mut planned = self.planned();
        planned.plan = self.plan.clone();
        let ran = planned.run(limits, control).expect("it begins");
        drop(planned);
        check(&ran.0);
        ran.1.iter().for_each(check);
        ran
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
    let mut planned = inspected.planned();
    let found = |target: &Target| {
        let found = resolve(&planned.roots, std::slice::from_ref(target), &planned.topology);
        found.expect("they are there")
    };
    let (parties, limits_of_others) = (others.iter().map(found).collect(), limits.clone());
    let refused = |partner: &str, why: &str| println!("makes no room: {partner}: {why}");
    let partners = Partners { parties, limits: limits_of_others, refused };
    planned.exchange(partners, &|| false);
    drop(planned);
    inspected.run(limits, control)
}

/// Surveys, plans and moves. Without the rests of the pace, because the tests that use this ask only where pages are.
pub fn migrate(targets: &[Target], options: &Options) -> Outcome {
    let limits = RunLimits { duty_percent: Some(100), ..RunLimits::default() };
    inspect(targets, options).carry_out(&limits, &Control::default())
}
