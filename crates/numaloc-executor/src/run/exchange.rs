//! A run, and others beside it that make room.
//!
//! The run asks for room and takes what becomes free. A second run beside it, in a thread of its own, takes away the memory of one
//! partner after the other, never more than it was asked for. Both are ordinary runs with accounts of their own; they share an
//! [`Exchange`].

use crate::{
    limits::{RunLimits, assignment::Assignment},
    room::exchange::Exchange,
    run::execute::execute,
};
use numaloc_core::{Account, MakeRoom, NodeId, NodeSet, Outcome, Plan, exchange};
use numaloc_host::{Error, Survey};
use std::{collections::BTreeMap, thread};

/// Somebody whose memory makes room.
#[derive(Debug)]
pub struct Partner {
    /// What of it may leave: see [`exchange::options`].
    pub plan: Plan,
    /// What the plan was made from.
    pub survey: Survey,
    /// How hard the partner's memory may be moved.
    pub limits: RunLimits,
}

/// Those who may be asked to make room, in order.
pub trait PartnerQueue: Send {
    /// The next one whose memory may leave `node` for the nodes `to`; `None` once there is nobody more. Nobody is given twice for
    /// one node.
    fn next(&mut self, node: NodeId, to: &NodeSet) -> Option<Partner>;
}

/// Carries out a plan as [`execute`] does. If that is allowed by the plan's options, `partners` make room for memory that finds
/// none. Gives back the outcome, and those of the partners whose memory was moved.
///
/// # Errors
/// The run could not begin. What fails later is in the outcomes.
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
    // Those who have made way for another node, and which of the outcomes is theirs.
    let mut waiting: BTreeMap<NodeId, (Partner, usize)> = BTreeMap::new();
    while let Some(node) = exchange.wanted() {
        let next = match waiting.remove(&node) {
            Some((partner, index)) => {
                outcomes.get_mut(index).into_iter().for_each(goes_on);
                Some(partner)
            }
            None => partners.next(node, &exchange.sources(node)),
        };
        let Some(partner) = next else {
            exchange.nobody_more(node);
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

/// Of memory that this run has left, the outcome of the next one tells.
fn goes_on(outcome: &mut Outcome) {
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
