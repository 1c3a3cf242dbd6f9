//! A run, and others beside it that make room.
//!
//! The run asks for room and takes the freed memory. A second run beside it, in a thread of its own, takes away the
//! memory of one partner after the other, never more than it was asked for. Both are ordinary runs with accounts of
//! their own; they share an [`Exchange`].

use crate::{
    limits::{RunLimits, assignment::Assignment},
    room::exchange::Exchange,
    run::execute::execute,
};
use numaloc_core::{Account, MakeRoom, NodeId, NodeSet, Outcome, Plan, exchange};
use numaloc_host::{Error, Survey};
use std::{collections::BTreeMap, thread};

/// A process or workload whose memory makes room.
#[derive(Debug)]
pub struct Partner {
    /// The plan for the memory that may leave: see [`exchange::options`].
    pub plan: Plan,
    /// The survey that the plan was made from.
    pub survey: Survey,
    /// Bounds of the run that moves the partner's memory.
    pub limits: RunLimits,
}

/// The partners that may be asked to make room, in order.
pub trait PartnerQueue: Send {
    /// The next partner whose memory may leave `node` for the nodes `to`; `None` once there are no more. No partner is
    /// given twice for one node.
    fn next(&mut self, node: NodeId, to: &NodeSet) -> Option<Partner>;
}

/// Carries out a plan as [`execute`] does. If that is allowed by the plan's options, `partners` make room for memory that finds
/// none. Gives back the outcome, and those of the partners whose memory was moved.
///
/// # Errors
/// The run could not begin. Later failures are in the outcomes.
pub fn execute_with(
    run: Assignment<'_>,
    partners: &mut dyn PartnerQueue,
) -> Result<(Outcome, Vec<Outcome>), Error> {
    let sides = exchange::sides(run.plan);
    if run.plan.options.make_room != MakeRoom::Exchange || sides.is_empty() {
        return Ok((execute(run, None)?, Vec::new()));
    }
    let exchange = &Exchange::new(sides);
    // Log lines of the partners' runs belong to the caller's tracing span.
    let span = tracing::Span::current();
    thread::scope(|scope| {
        let beside = scope.spawn(move || {
            span.in_scope(|| {
                let _end = Closing(exchange);
                serve(exchange, run, partners)
            })
        });
        let outcome = {
            let _end = Closing(exchange);
            execute(run, Some(exchange))
        };
        let outcomes = beside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok((outcome?, outcomes))
    })
}

/// Has partners take their memory away as it is asked for, until the run has ended.
fn serve(
    exchange: &Exchange,
    of_target: Assignment<'_>,
    partners: &mut dyn PartnerQueue,
) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    // Partners that have made way for another node, and the index of their outcome.
    let mut waiting: BTreeMap<NodeId, (Partner, usize)> = BTreeMap::new();
    while let Some(node) = exchange.wanted() {
        let next = match waiting.remove(&node) {
            Some((partner, index)) => {
                outcomes.get_mut(index).into_iter().for_each(defer_to_next);
                Some(partner)
            }
            None => partners.next(node, &exchange.sources(node)),
        };
        let Some(partner) = next else {
            exchange.no_partner_left(node);
            continue;
        };
        let Some(control) = exchange.begin(node) else { break };
        let Partner { plan, survey, limits } = &partner;
        let control = &control;
        let run = Assignment { plan, survey, limits, control, ..of_target };
        let outcome = execute(run, None);
        let has_made_way = exchange.end(node);
        match outcome {
            Ok(outcome) => {
                if has_made_way {
                    waiting.insert(node, (partner, outcomes.len()));
                }
                outcomes.push(outcome);
            }
            Err(error) => tracing::warn!(%error, "a partner of an exchange cannot be moved"),
        }
    }
    outcomes
}

/// The outcome of the next run reports on memory that this run has left.
fn defer_to_next(outcome: &mut Outcome) {
    for process in &mut outcome.processes {
        process.account = process.account.continued_by(&Account::default());
    }
}

/// Ends an exchange when it is dropped, also by a panic: neither side waits for one that has gone.
struct Closing<'a>(&'a Exchange);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}
