//! Room on a full target, by memory of others that leaves it: the state that a run and its partners share.
//!
//! A [`Balance`] keeps the bytes that have left a node and that have come there within a chunk of each other.

use crate::{
    limits::{allowance::Allowance, control::Control},
    room::{Making, Need, RoomMaker, TargetMemory},
    work::{
        ledger::Ledger,
        rest::{EXCHANGE_PAUSE, Rests},
    },
};
use numaloc_core::{
    CallStats, NodeId, NodeMemory, NodeSet, Supply,
    exchange::{Balance, Step},
};
use parking_lot::{Condvar, Mutex};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, atomic::Ordering::Relaxed},
};

/// State that the run and its partners share.
#[derive(Debug)]
pub struct Exchange {
    sides: BTreeMap<NodeId, NodeSet>,
    state: Mutex<State>,
    /// Something was asked for, or nothing more will be.
    news: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The node on which room is made now. It is one at a time, because no process is moved by two runs at once:
    /// another one has its turn when what was asked for here has left.
    node: Option<NodeId>,
    /// Another node waits for its turn: the partner's run under way is to end.
    yields: bool,
    balances: BTreeMap<NodeId, Balance>,
    /// The partner's run under way, and what had left the node before it.
    run: Option<(Arc<Control>, u64)>,
    /// Nodes on which no more room is available.
    given_up: BTreeSet<NodeId>,
    closed: bool,
}

impl State {
    /// The balance of a node as of now.
    fn balance(&mut self, node: NodeId) -> &mut Balance {
        let balance = self.balances.entry(node).or_default();
        if let Some((control, before)) = self.run.as_ref().filter(|_| self.node == Some(node)) {
            balance.out_bytes = before + control.moved_bytes.load(Relaxed);
        }
        balance
    }

    /// Whether room may be made on `node` now. If not, it has its turn as soon as what was asked for on another node has left.
    fn has_turn(&mut self, node: NodeId) -> bool {
        let Some(other) = self.node.filter(|&other| other != node) else { return !self.yields };
        let balance = *self.balance(other);
        if balance.out_bytes < balance.asked_bytes && !self.given_up.contains(&other) {
            return false;
        }
        if self.run.is_none() {
            (self.node, self.yields) = (None, false);
            return true;
        }
        self.yields = true;
        self.allowance().into_iter().for_each(Allowance::close);
        false
    }

    /// That of the partner's run under way.
    fn allowance(&self) -> Option<&Allowance> {
        self.run.as_ref().and_then(|(control, _)| control.allowance.as_ref())
    }
}

/// The next step of a worker whose pages have no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// Waits a moment: room is being made.
    Wait,
    /// Waits as long as this number grows, which counts what has happened so far.
    Unless(u64),
    /// The partner has nothing more to give on this node.
    No,
}

impl RoomMaker for Exchange {
    fn room(&self, target: &TargetMemory, _: &Need<'_>) -> u64 {
        target.free_room().max(self.vacated(target.node, &target.memory))
    }

    /// Asks others to take memory away from the node, and waits a moment.
    fn make(&self, need: &mut Need<'_>, rests: &mut Rests<'_>, _: &mut Ledger<'_>) -> Making {
        // Others' memory has the same bounds on the nodes that it goes to.
        let work = need.work;
        let room_for_others = |source| {
            let memory = TargetMemory::read(work, source, Supply::base());
            memory.map_or(0, |memory| memory.free_room() + memory.cache_room())
        };
        match self.ask(need.node, need.waiting_bytes, room_for_others) {
            Answer::Wait => need.patience = None,
            Answer::Unless(progress) if need.lasts(progress) => {}
            Answer::Unless(_) => {
                self.give_up(need.node);
                return Err(None);
            }
            Answer::No => return Err(None),
        }
        rests.pause(EXCHANGE_PAUSE);
        Ok(())
    }

    /// Counts what came in place of others' memory. The rest came into memory that became free meanwhile.
    fn came(&self, node: NodeId, bytes: u64, calls: &mut CallStats) {
        calls.exchanged_bytes += self.state.lock().balance(node).come(bytes);
    }
}

impl Exchange {
    /// Nothing is asked for yet. `sides` has the nodes where others' memory may go, by the node that it may leave.
    pub fn new(sides: BTreeMap<NodeId, NodeSet>) -> Self {
        Self { sides, state: Mutex::default(), news: Condvar::new() }
    }

    /// Where others' memory may go that leaves this node: where the memory that waits comes from.
    pub fn sources(&self, node: NodeId) -> NodeSet {
        self.sides.get(&node).cloned().unwrap_or_default()
    }

    /// Asks for room on `node` for `waiting_bytes`. `room` says how many bytes a node that they come from can take.
    fn ask(&self, node: NodeId, waiting_bytes: u64, room: impl Fn(NodeId) -> u64) -> Answer {
        let Some(to) = self.sides.get(&node) else { return Answer::No };
        let mut state = self.state.lock();
        if state.closed || state.given_up.contains(&node) {
            return Answer::No;
        }
        if !state.has_turn(node) {
            return Answer::Wait;
        }
        let balance = state.balance(node);
        match balance.step(waiting_bytes, to.iter().map(room).sum()) {
            Step::Wait => Answer::Wait,
            Step::Stop => Answer::Unless(balance.progress()),
            Step::Ask(bytes) => {
                balance.asked_bytes += bytes;
                state.node = Some(node);
                state.allowance().into_iter().for_each(|allowance| allowance.add(bytes));
                self.news.notify_all();
                Answer::Wait
            }
        }
    }

    /// No more is asked for on this node.
    fn give_up(&self, node: NodeId) {
        let mut state = self.state.lock();
        state.given_up.insert(node);
        if state.node == Some(node) {
            state.allowance().into_iter().for_each(Allowance::close);
        }
    }

    /// No partner is left that could make room on this node.
    pub fn no_partner_left(&self, node: NodeId) {
        let mut state = self.state.lock();
        state.given_up.insert(node);
        state.node = None;
    }

    /// Bytes that a node, with this memory, can take for what has left it.
    fn vacated(&self, node: NodeId, memory: &NodeMemory) -> u64 {
        self.state.lock().balance(node).room(memory)
    }

    /// Waits until room is asked for that no partner makes yet; `None`: the run has ended.
    pub fn wanted(&self) -> Option<NodeId> {
        let mut state = self.state.lock();
        loop {
            if state.closed {
                return None;
            }
            if let Some(node) = state.node {
                let balance = *state.balance(node);
                if balance.out_bytes < balance.asked_bytes && !state.given_up.contains(&node) {
                    return Some(node);
                }
                // The next request may be for another node.
                state.node = None;
            }
            self.news.wait(&mut state);
        }
    }

    /// Begins a partner's run; `None`: the run that it is for has ended.
    pub fn begin(&self, node: NodeId) -> Option<Arc<Control>> {
        let mut state = self.state.lock();
        let Balance { asked_bytes, out_bytes, .. } = *state.balance(node);
        let control =
            Arc::new(Control::allowed(Allowance::of(asked_bytes.saturating_sub(out_bytes))));
        state.run = Some((control.clone(), out_bytes));
        (!state.closed).then_some(control)
    }

    /// A partner's run has ended. Returns whether it has only made way for another node: then it may continue later.
    pub fn end(&self, node: NodeId) -> bool {
        let mut state = self.state.lock();
        state.balance(node);
        state.run = None;
        let yields = std::mem::take(&mut state.yields);
        if yields {
            state.node = None;
        }
        yields && !state.given_up.contains(&node)
    }

    /// The run or its partners have ended: no more is asked for, or made.
    pub fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        state.allowance().into_iter().for_each(Allowance::close);
        self.news.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaloc_core::exchange::CHUNK;

    const NODE: NodeId = NodeId(0);
    const MIB: u64 = 1 << 20;

    fn exchange() -> Exchange {
        let sides =
            [(NODE, "1".parse().expect("a list")), (NodeId(2), "1".parse().expect("a list"))];
        Exchange::new(sides.into())
    }

    fn come(exchange: &Exchange, bytes: u64) {
        let mut calls = CallStats::default();
        exchange.came(NODE, bytes, &mut calls);
        assert_eq!(calls.exchanged_bytes, bytes);
    }

    fn ample(_: NodeId) -> u64 {
        u64::MAX / 4
    }

    #[test]
    fn a_partner_takes_away_what_was_asked_for_and_the_next_one_the_rest() {
        let exchange = exchange();
        assert_eq!(exchange.ask(NodeId(1), MIB, ample), Answer::No, "nothing comes to it");
        assert_eq!(exchange.ask(NODE, 8 * MIB, ample), Answer::Wait);
        assert_eq!(exchange.wanted(), Some(NODE));
        assert_eq!(exchange.ask(NodeId(2), MIB, ample), Answer::Wait, "one node at a time");
        let control = exchange.begin(NODE).expect("it continues");
        let allowed = |control: &Control| control.allowance.as_ref().map(Allowance::bytes);
        assert_eq!(allowed(&control), Some(8 * MIB));
        control.moved_bytes.store(3 * MIB, Relaxed);
        assert_eq!(exchange.ask(NODE, 8 * MIB, ample), Answer::Wait, "that is on its way");
        exchange.end(NODE);
        assert_eq!(exchange.wanted(), Some(NODE), "5 MiB are still to come");
        let control = exchange.begin(NODE).expect("it continues");
        assert_eq!(allowed(&control), Some(5 * MIB));
        control.moved_bytes.store(5 * MIB, Relaxed);
        come(&exchange, 8 * MIB);
        assert_eq!(exchange.ask(NODE, 2 * CHUNK, ample), Answer::Wait);
        assert_eq!(allowed(&control), Some(5 * MIB + CHUNK));
        exchange.close();
        assert!(control.allowance.as_ref().is_some_and(Allowance::is_closed));
        assert_eq!(exchange.ask(NODE, MIB, ample), Answer::No);
        assert_eq!(exchange.wanted(), None);
        assert!(exchange.begin(NODE).is_none());
    }

    #[test]
    fn another_node_has_its_turn_when_what_was_asked_for_has_left() {
        let (exchange, other) = (exchange(), NodeId(2));
        assert_eq!(exchange.ask(NODE, 8 * MIB, ample), Answer::Wait);
        let control = exchange.begin(NODE).expect("it continues");
        let is_closed = || control.allowance.as_ref().is_some_and(Allowance::is_closed);
        assert_eq!(exchange.ask(other, MIB, ample), Answer::Wait);
        assert!(!is_closed(), "8 MiB are still to leave");
        control.moved_bytes.store(8 * MIB, Relaxed);
        assert_eq!(exchange.ask(other, MIB, ample), Answer::Wait);
        assert!(is_closed(), "its run ends");
        assert_eq!(exchange.ask(NODE, 8 * MIB, ample), Answer::Wait, "for its next turn");
        assert!(exchange.end(NODE), "it has made way");
        assert_eq!(exchange.ask(other, MIB, ample), Answer::Wait);
        assert_eq!(exchange.wanted(), Some(other));
        let control = exchange.begin(other).expect("it continues");
        assert_eq!(control.allowance.as_ref().map(Allowance::bytes), Some(MIB));
        control.moved_bytes.store(MIB, Relaxed);
        come(&exchange, 8 * MIB);
        assert_eq!(exchange.ask(NODE, 8 * MIB, ample), Answer::Wait);
        assert!(exchange.end(other));
        assert_eq!(exchange.ask(NODE, 8 * MIB, ample), Answer::Wait);
        assert_eq!(exchange.wanted(), Some(NODE), "and its turn comes again");
        assert!(exchange.begin(NODE).is_some() && !exchange.end(NODE), "it has no more");
    }

    #[test]
    fn what_has_left_may_come_and_wakes_no_kswapd() {
        let exchange = exchange();
        let memory = |free_bytes| NodeMemory {
            free_bytes,
            low_watermark_bytes: 2 * MIB,
            ..NodeMemory::default()
        };
        assert_eq!(exchange.vacated(NODE, &memory(90 * MIB)), 0);
        assert_eq!(exchange.ask(NODE, 8 * MIB, ample), Answer::Wait);
        let control = exchange.begin(NODE).expect("it continues");
        control.moved_bytes.store(8 * MIB, Relaxed);
        assert_eq!(exchange.vacated(NODE, &memory(90 * MIB)), 8 * MIB);
        assert_eq!(exchange.vacated(NODE, &memory(5 * MIB)), 3 * MIB);
        come(&exchange, 7 * MIB);
        assert_eq!(exchange.vacated(NODE, &memory(90 * MIB)), MIB);
    }

    #[test]
    fn memory_that_comes_into_free_room_does_not_count_as_exchange() {
        let (exchange, mut calls) = (exchange(), CallStats::default());
        exchange.came(NODE, MIB, &mut calls);
        assert_eq!(calls.exchanged_bytes, 0, "nothing has left");
        assert_eq!(exchange.ask(NODE, 2 * MIB, ample), Answer::Wait);
        let control = exchange.begin(NODE).expect("it continues");
        control.moved_bytes.store(2 * MIB, Relaxed);
        exchange.came(NODE, 3 * MIB, &mut calls);
        assert_eq!(calls.exchanged_bytes, 2 * MIB);
        exchange.came(NODE, MIB, &mut calls);
        assert_eq!(calls.exchanged_bytes, 2 * MIB);
    }

    #[test]
    fn without_room_for_others_nothing_is_asked_for() {
        let exchange = exchange();
        assert_eq!(exchange.ask(NODE, MIB, |_| 0), Answer::Unless(0));
        exchange.give_up(NODE);
        assert_eq!(exchange.ask(NODE, MIB, ample), Answer::No);
        exchange.close();
        assert_eq!(exchange.wanted(), None);
    }
}
