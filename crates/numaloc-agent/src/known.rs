//! The known state of the cluster, shared by the tasks that follow it and the one that speaks to numalocd. Its size is
//! bounded by the node's pods.

use crate::{
    cluster::{
        objects::{ConfigMapObject, Meta, MetaObject, PodObject, PolicyObject},
        watch::Sink,
    },
    facts::Facts,
};
use numaloc_policy::{
    DSA_CONFIG_KEY, KnownPolicy, PolicyKind, PolicyResource, PolicyStatus, QOS_CONFIG_KEY,
    THRESHOLD_CONFIG_KEY, Turn,
};
use parking_lot::{Mutex, MutexGuard};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use tokio::sync::Notify;

/// A pod by its namespace and name, as `namespace/name`.
pub type PodKey = String;

/// The known state, and the tasks that wait for it.
#[derive(Debug)]
pub struct Known {
    /// The name of this node.
    node: String,
    state: Mutex<State>,
    filled: Notify,
    /// Policies, or their status, have changed.
    policies_changed: Notify,
    /// A policy has come that chooses namespaces by their labels.
    namespaces_needed: Notify,
}

/// The state received so far.
#[derive(Debug)]
struct State {
    /// The pods of this node; `None` until all are listed.
    pods: Option<BTreeMap<PodKey, Arc<Facts>>>,
    /// This node, if it exists; `None` until it is listed.
    node: Option<NodeFacts>,
    /// The data of the ConfigMaps, in the order of the configuration; `None` until listed, no data if there is none.
    config_maps: Vec<Option<BTreeMap<String, String>>>,
    /// The labels of all namespaces; `None` until they are listed, which they are once a policy chooses by them.
    namespaces: Option<BTreeMap<String, BTreeMap<String, String>>>,
    /// The policies of each kind; a kind that is missing is not listed yet.
    policies: BTreeMap<PolicyKind, Policies>,
    /// Their objects, by kind and `namespace/name`.
    objects: BTreeMap<(PolicyKind, String), PolicyFacts>,
    /// The changes since the last [`Known::changed`].
    changed: Changed,
}

/// The facts about a node; empty if it does not exist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeFacts {
    pub uid: String,
    pub labels: BTreeMap<String, String>,
}

/// The facts about a policy's object besides the policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyFacts {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub resource_version: String,
    pub generation: u64,
    pub status: PolicyStatus,
}

impl PolicyFacts {
    fn of(object: &PolicyObject) -> Self {
        let Meta { namespace, name, uid, resource_version, generation, .. } =
            object.metadata.clone();
        let status = PolicyStatus::of(&object.whole);
        Self { namespace, name, uid, resource_version, generation, status }
    }
}

/// Policies by `namespace/name`, as they were read.
pub type Policies = BTreeMap<String, KnownPolicy>;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// Any pod may have changed: pods were listed again, or a source that decides for each of them changed.
    pub all: bool,
    pub pods: BTreeSet<PodKey>,
}

/// The known state at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The pods of this node.
    pub pods: BTreeMap<PodKey, Arc<Facts>>,
    pub node: NodeFacts,
    /// The data of the ConfigMaps, in the order of the configuration.
    pub config_maps: Vec<BTreeMap<String, String>>,
    /// The policies of the cluster and of all namespaces, as they were read.
    pub policies: Vec<KnownPolicy>,
    /// The turns of this node, by the uid of their policy.
    pub turns: BTreeMap<String, Turn>,
}

impl Known {
    /// Nothing is known yet of the cluster of this node; this number of ConfigMaps is expected.
    pub fn new(node: String, config_maps: usize) -> Self {
        let config_maps = vec![None; config_maps];
        let (pods, own, namespaces) = (None, None, None);
        let (policies, objects, changed) = Default::default();
        let state = State { pods, node: own, config_maps, namespaces, policies, objects, changed };
        let [filled, policies_changed, namespaces_needed] = [(); 3].map(|()| Notify::new());
        Self { node, state: Mutex::new(state), filled, policies_changed, namespaces_needed }
    }

    /// Waits until a policy chooses namespaces by their labels.
    pub async fn namespaces_needed(&self) {
        while !self.state().needs_namespaces() {
            self.namespaces_needed.notified().await;
        }
    }

    /// Waits until policies, or their status, may have changed.
    pub async fn policies_changed(&self) {
        self.policies_changed.notified().await;
    }

    /// All policies, as they were read, with their objects.
    pub fn policies(&self) -> Vec<(PolicyKind, PolicyFacts, KnownPolicy)> {
        let state = self.state();
        let one = |((kind, key), object): (&(PolicyKind, String), &PolicyFacts)| {
            let known = state.policies.get(kind)?.get(key)?;
            Some((*kind, object.clone(), known.clone()))
        };
        state.objects.iter().filter_map(one).collect()
    }

    /// Waits until there may be something to take.
    pub async fn filled(&self) {
        self.filled.notified().await;
    }

    /// Whether everything is listed at least once. Nothing is decided before.
    pub fn is_complete(&self) -> bool {
        let state = self.state();
        state.pods.is_some()
            && state.node.is_some()
            && state.config_maps.iter().all(Option::is_some)
            && PolicyKind::ALL.iter().all(|kind| state.policies.contains_key(kind))
            && state.has_namespaces()
    }

    /// The whole known state, with no change after it; `None` until everything is listed.
    pub fn snapshot(&self) -> Option<Snapshot> {
        let mut state = self.state();
        if !state.has_namespaces() {
            return None;
        }
        let config_maps = state.config_maps.iter().cloned().collect::<Option<_>>()?;
        let policies = state.policies.values().flat_map(BTreeMap::values).cloned().collect();
        let (pods, node) = (state.pods.clone()?, state.node.clone()?);
        let turn = |object: &PolicyFacts| {
            Some((object.uid.clone(), object.status.turn_of(&self.node)?.clone()))
        };
        let turns = state.objects.values().filter_map(turn).collect();
        let snapshot = Snapshot { pods, node, config_maps, policies, turns };
        state.changed = Changed::default();
        Some(snapshot)
    }

    /// What has changed since the last call.
    pub fn changed(&self) -> Changed {
        std::mem::take(&mut self.state().changed)
    }

    /// A pod; `None`: it is gone.
    pub fn pod(&self, key: &str) -> Option<Arc<Facts>> {
        self.state().pods.as_ref()?.get(key).cloned()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // The state is consistent between any two statements of these functions that can panic: there are none.
        self.state.lock()
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
        self.filled.notify_one();
    }
}

impl State {
    /// Whether a policy chooses namespaces by their labels.
    fn needs_namespaces(&self) -> bool {
        let mut policies = self.policies.values().flat_map(BTreeMap::values);
        policies.any(|policy| policy.in_force().is_some_and(PolicyResource::needs_namespaces))
    }

    /// Whether the labels of namespaces are known as far as policies need them.
    fn has_namespaces(&self) -> bool {
        self.namespaces.is_some() || !self.needs_namespaces()
    }

    /// A pod with the labels of its namespace.
    fn keyed(&self, object: PodObject) -> (PodKey, Arc<Facts>) {
        let mut facts = Facts::new(object);
        facts.pod.namespace_labels = self.labels_of(&facts.pod.namespace);
        (format!("{}/{}", facts.pod.namespace, facts.pod.name), Arc::new(facts))
    }

    fn labels_of(&self, namespace: &str) -> BTreeMap<String, String> {
        let labels = self.namespaces.as_ref().and_then(|all| all.get(namespace));
        labels.cloned().unwrap_or_default()
    }

    /// Gives pods the labels that their namespaces have now.
    fn label_pods(&mut self) {
        let Some(mut pods) = self.pods.take() else { return };
        for (key, facts) in &mut pods {
            let labels = self.labels_of(&facts.pod.namespace);
            if facts.pod.namespace_labels != labels {
                Arc::make_mut(facts).pod.namespace_labels = labels;
                self.changed.pods.insert(key.clone());
            }
        }
        self.pods = Some(pods);
    }
}

/// The pods of this node.
#[derive(Clone, Debug)]
pub struct Pods(pub Arc<Known>);

impl Sink<PodObject> for Pods {
    fn listed(&self, all: Vec<PodObject>) {
        self.0.change(|state| {
            state.pods = Some(all.into_iter().map(|pod| state.keyed(pod)).collect());
            state.changed.all = true;
        });
    }

    fn applied(&self, one: PodObject) {
        self.0.change(|state| {
            let (key, facts) = state.keyed(one);
            let pods = state.pods.get_or_insert_default();
            // Most changes of a pod are of fields that are not read.
            if pods.get(&key) != Some(&facts) {
                pods.insert(key.clone(), facts);
                state.changed.pods.insert(key);
            }
        });
    }

    fn deleted(&self, one: PodObject) {
        self.0.change(|state| {
            let (key, facts) = state.keyed(one);
            let pods = state.pods.get_or_insert_default();
            // Another pod of the same name may exist by now.
            if pods.get(&key).is_some_and(|known| known.api_uid == facts.api_uid) {
                pods.remove(&key);
                state.changed.pods.insert(key);
            }
        });
    }
}

/// All namespaces, by their labels.
#[derive(Clone, Debug)]
pub struct Namespaces(pub Arc<Known>);

impl Namespaces {
    fn change(&self, change: impl FnOnce(&mut BTreeMap<String, BTreeMap<String, String>>)) {
        self.0.change(|state| {
            // The first list lets decisions begin.
            state.changed.all |= state.namespaces.is_none();
            change(state.namespaces.get_or_insert_default());
            state.label_pods();
        });
    }
}

impl Sink<MetaObject> for Namespaces {
    fn listed(&self, all: Vec<MetaObject>) {
        let all = all.into_iter().map(|MetaObject { metadata }| (metadata.name, metadata.labels));
        self.change(|namespaces| *namespaces = all.collect());
    }

    fn applied(&self, MetaObject { metadata }: MetaObject) {
        self.change(|namespaces| drop(namespaces.insert(metadata.name, metadata.labels)));
    }

    fn deleted(&self, MetaObject { metadata }: MetaObject) {
        self.change(|namespaces| drop(namespaces.remove(&metadata.name)));
    }
}

/// The node that this agent is for.
#[derive(Clone, Debug)]
pub struct Node(pub Arc<Known>);

impl Node {
    fn set(&self, Meta { uid, labels, .. }: Meta) {
        let node = NodeFacts { uid, labels };
        self.0.change(|state| {
            if state.node.as_ref() != Some(&node) {
                state.node = Some(node);
                state.changed.all = true;
            }
        });
    }
}

impl Sink<MetaObject> for Node {
    fn listed(&self, all: Vec<MetaObject>) {
        self.set(all.into_iter().next().unwrap_or_default().metadata);
    }

    fn applied(&self, one: MetaObject) {
        self.set(one.metadata);
    }

    fn deleted(&self, _: MetaObject) {
        self.set(Meta::default());
    }
}

/// The keys of ConfigMaps that count.
const CONFIG_KEYS: [&str; 3] = [QOS_CONFIG_KEY, DSA_CONFIG_KEY, THRESHOLD_CONFIG_KEY];

/// One of the ConfigMaps, by its place in the configuration.
#[derive(Clone, Debug)]
pub struct ConfigMap(pub Arc<Known>, pub usize);

impl ConfigMap {
    fn set(&self, mut data: BTreeMap<String, String>) {
        data.retain(|key, _| CONFIG_KEYS.contains(&key.as_str()));
        self.0.change(|state| {
            if let Some(known) = state.config_maps.get_mut(self.1)
                && known.as_ref() != Some(&data)
            {
                *known = Some(data);
                state.changed.all = true;
            }
        });
    }
}

impl Sink<ConfigMapObject> for ConfigMap {
    fn listed(&self, all: Vec<ConfigMapObject>) {
        self.set(all.into_iter().next().unwrap_or_default().data);
    }

    fn applied(&self, one: ConfigMapObject) {
        self.set(one.data);
    }

    fn deleted(&self, _: ConfigMapObject) {
        self.set(BTreeMap::new());
    }
}

/// The policies of one kind.
#[derive(Clone, Debug)]
pub struct PoliciesOf(pub Arc<Known>, pub PolicyKind);

impl PoliciesOf {
    /// Adds a policy as it is now to others, or in its place.
    fn read(&self, object: &PolicyObject, before: &Policies, policies: &mut Policies) {
        let key = key(object);
        let read = PolicyResource::read(self.1, &object.whole);
        policies.insert(key.clone(), KnownPolicy::new(read, before.get(&key)));
    }

    fn change(
        &self,
        change: impl FnOnce(&Policies, &mut Policies),
        change_objects: impl FnOnce(&mut BTreeMap<(PolicyKind, String), PolicyFacts>),
    ) {
        let node = self.0.node.as_str();
        self.0.change(|state| {
            let before = state.policies.get(&self.1);
            let mut policies = before.cloned().unwrap_or_default();
            change(before.unwrap_or(&Policies::default()), &mut policies);
            // Most changes are of fields that are not read.
            if before != Some(&policies) {
                state.policies.insert(self.1, policies);
                state.changed.all = true;
            }
            let turns = |objects: &BTreeMap<_, PolicyFacts>| -> Vec<_> {
                let turn = |object: &PolicyFacts| object.status.turn_of(node).cloned();
                objects.values().filter_map(turn).collect()
            };
            let before = turns(&state.objects);
            change_objects(&mut state.objects);
            state.changed.all |= before != turns(&state.objects);
        });
        self.0.policies_changed.notify_one();
        self.0.namespaces_needed.notify_one();
    }
}

fn key(object: &PolicyObject) -> String {
    format!("{}/{}", object.metadata.namespace, object.metadata.name)
}

impl Sink<PolicyObject> for PoliciesOf {
    fn listed(&self, all: Vec<PolicyObject>) {
        let change = |before: &Policies, policies: &mut Policies| {
            policies.clear();
            all.iter().for_each(|object| self.read(object, before, policies));
        };
        self.change(change, |objects| {
            objects.retain(|(kind, _), _| *kind != self.1);
            objects.extend(all.iter().map(|it| ((self.1, key(it)), PolicyFacts::of(it))));
        });
    }

    fn applied(&self, one: PolicyObject) {
        self.change(
            |before, policies| self.read(&one, before, policies),
            |objects| drop(objects.insert((self.1, key(&one)), PolicyFacts::of(&one))),
        );
    }

    fn deleted(&self, one: PolicyObject) {
        self.change(
            |_, policies| drop(policies.remove(&key(&one))),
            |objects| drop(objects.remove(&(self.1, key(&one)))),
        );
    }
}
