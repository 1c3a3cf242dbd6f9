//! The turns in which nodes have first runs of a policy. Pure: what is known of a turn is in the status of the policy and
//! in the reports of the nodes, so another agent that takes the Lease continues.

use numaloc_policy::{PolicyReach, Rollout, Turn};
use std::{
    collections::BTreeSet,
    time::{SystemTime, UNIX_EPOCH},
};

/// Most turns of a policy whose nodes are not limited.
const MOST: usize = 256;

/// The turns after `before`, by the reports of the nodes. A turn ends when its node has nothing left to do in it; then
/// another node has one. A node without a report has none: its agent does not work.
pub fn turns(
    rollout: &Rollout,
    policy_uid: &str,
    before: &[Turn],
    reached: &[(&str, &PolicyReach)],
    now: SystemTime,
) -> Vec<Turn> {
    if !rollout.takes_turns() {
        return Vec::new();
    }
    let report = |node: &str| reached.iter().find(|(of, _)| *of == node).map(|(_, reach)| *reach);
    let is_open = |turn: &&Turn| report(&turn.node).is_some_and(|of| of.done_turn < turn.id);
    let mut turns: Vec<Turn> = before.iter().filter(is_open).cloned().collect();
    // Runs that are under way without a turn, for example of a turn whose status was lost, count as well.
    let mut busy: BTreeSet<&str> =
        reached.iter().flat_map(|(_, of)| &of.running).map(String::as_str).collect();
    let granted: Vec<String> = turns.iter().flat_map(|turn| turn.workloads.clone()).collect();
    busy.extend(granted.iter().map(String::as_str));
    let has_turn: BTreeSet<String> = turns.iter().map(|turn| turn.node.clone()).collect();
    let run_on = reached
        .iter()
        .filter(|(node, of)| !of.running.is_empty() && !has_turn.contains(*node))
        .count();
    let most = rollout.max_nodes.map_or(MOST, usize::from);
    let mut free = most.saturating_sub(turns.len() + run_on);
    let id = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let id = u64::try_from(id).unwrap_or(u64::MAX);
    let mut waiting: Vec<_> = reached
        .iter()
        .filter(|(node, of)| {
            !of.waiting.is_empty() && of.running.is_empty() && !has_turn.contains(*node)
        })
        .collect();
    waiting.sort_by_key(|(node, _)| rollout_place(node, policy_uid));
    for (node, of) in waiting {
        if free == 0 {
            break;
        }
        let may = |workload: &&String| !rollout.one_replica || !busy.contains(workload.as_str());
        let workloads: Vec<String> = of.waiting.iter().filter(may).cloned().collect();
        if workloads.is_empty() {
            continue;
        }
        busy.extend(of.waiting.iter().filter(|it| workloads.contains(it)).map(String::as_str));
        let id = id.max(of.done_turn + 1);
        turns.push(Turn { node: (*node).to_owned(), id, workloads });
        free -= 1;
    }
    turns
}

/// The place of a node among those that wait.
fn rollout_place(node: &str, policy_uid: &str) -> String {
    numaloc_node::hash(&[node, policy_uid])
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaloc_policy::{PolicyKind, PolicyResource};
    use proptest::prelude::*;
    use serde_json::json;
    use std::{collections::BTreeMap, time::Duration};

    fn rollout(text: serde_json::Value) -> Rollout {
        let spec = json!({"schedule": {"interval": "10m"}, "rollout": text});
        let object = json!({"metadata": {"name": "all"}, "spec": spec});
        PolicyResource::read(PolicyKind::Cluster, &object).expect("valid").rollout
    }

    /// A node with the workloads of its pods whose first runs wait, and those under way with the steps that are left.
    #[derive(Debug, Default)]
    struct Node {
        waiting: Vec<String>,
        running: BTreeMap<String, u8>,
        done: u64,
    }

    /// All nodes take turns until none waits. Reports are seen one step late. Returns the most nodes and the most pods of a
    /// workload under way at once, and the number of steps.
    fn simulated(rollout: &Rollout, mut nodes: Vec<Node>, lasts: u8) -> (usize, usize, usize) {
        let name = |at: usize| format!("node-{at}");
        let (mut turns_now, mut seen) = (Vec::<Turn>::new(), BTreeMap::new());
        let (mut most_nodes, mut most_pods) = (0, 0);
        for step in 0..100_000 {
            let reached: Vec<(&str, &PolicyReach)> =
                seen.iter().map(|(node, of): (&String, &PolicyReach)| (&**node, of)).collect();
            let now = UNIX_EPOCH + Duration::from_millis(step as u64);
            turns_now = turns(rollout, "5f1c", &turns_now, &reached, now);
            for (at, node) in nodes.iter_mut().enumerate() {
                node.running.retain(|_, left| {
                    *left -= 1;
                    *left > 0
                });
                let turn = turns_now.iter().find(|turn| turn.node == name(at));
                if let Some(turn) = turn.filter(|turn| turn.id > node.done) {
                    let running = &mut node.running;
                    node.waiting.retain(|workload| {
                        let begins = !rollout.one_replica
                            || (turn.workloads.contains(workload)
                                && !running.contains_key(workload));
                        if begins {
                            running.insert(workload.clone(), lasts);
                        }
                        !begins
                    });
                    let is_left = |it: &String| !rollout.one_replica || turn.workloads.contains(it);
                    if node.running.is_empty() && !node.waiting.iter().any(is_left) {
                        node.done = turn.id;
                    }
                }
                let (waiting, running) = (node.waiting.clone(), node.running.keys().cloned());
                let (running, done_turn) = (running.collect(), node.done);
                let reach = PolicyReach { waiting, running, done_turn, ..PolicyReach::default() };
                seen.insert(name(at), reach);
            }
            most_nodes =
                most_nodes.max(nodes.iter().filter(|node| !node.running.is_empty()).count());
            let mut pods = BTreeMap::<&String, usize>::new();
            let running = nodes.iter().flat_map(|node| node.running.keys());
            running.for_each(|workload| *pods.entry(workload).or_default() += 1);
            most_pods = most_pods.max(pods.values().copied().max().unwrap_or_default());
            if nodes.iter().all(|node| node.waiting.is_empty() && node.running.is_empty()) {
                return (most_nodes, most_pods, step);
            }
        }
        panic!("they never end: {nodes:?} {turns_now:?}");
    }

    fn nodes(pods: &[(u8, u8)]) -> Vec<Node> {
        let mut nodes = BTreeMap::<u8, Node>::new();
        for (node, workload) in pods {
            nodes.entry(*node).or_default().waiting.push(format!("{workload:016x}"));
        }
        nodes.into_values().collect()
    }

    #[test]
    fn no_more_nodes_than_allowed_have_first_runs() {
        // Two workloads on each of 200 nodes; and one with two replicas on each pair of nodes.
        let pods: Vec<_> = (0..200).flat_map(|node| [(node, 1), (node, 2)]).collect();
        let pairs: Vec<_> = (0..200).map(|node| (node, node / 2)).collect();
        for (limits, pods, expected) in [
            (json!({"maxNodes": 7}), &pods, (7, 7)),
            (json!({"maxNodes": 1}), &pods, (1, 1)),
            (json!({"oneReplica": true}), &pods, (1, 1)),
            (json!({"oneReplica": true}), &pairs, (100, 1)),
            (json!({"oneReplica": true, "maxNodes": 7}), &pairs, (7, 1)),
        ] {
            let (nodes, pods, _) = simulated(&rollout(limits.clone()), nodes(pods), 3);
            assert_eq!((nodes, pods), expected, "{limits}");
        }
    }

    #[test]
    fn a_node_whose_agent_does_not_report_keeps_no_turn() {
        let rollout = rollout(json!({"maxNodes": 1}));
        let waits = PolicyReach { waiting: vec!["w".to_owned()], ..PolicyReach::default() };
        let first = turns(&rollout, "p", &[], &[("a", &waits)], UNIX_EPOCH);
        assert_eq!(first[0].node, "a");
        let both = [("a", &waits), ("b", &waits)];
        assert_eq!(turns(&rollout, "p", &first, &both, UNIX_EPOCH), first, "a has not begun");
        let then = turns(&rollout, "p", &first, &both[1..], UNIX_EPOCH);
        assert_eq!(then[0].node, "b");
    }

    proptest! {
        #[test]
        fn all_have_their_turn(
            pods in prop::collection::vec((0..50_u8, 0..20_u8), 1..200), most in 1..10_usize, one in any::<bool>(), lasts in 1..5_u8,
        ) {
            let rollout = rollout(json!({"maxNodes": most, "oneReplica": one}));
            let (nodes, pods, _) = simulated(&rollout, nodes(&pods), lasts);
            prop_assert!(nodes <= most);
            prop_assert!(!one || pods == 1);
        }
    }
}
