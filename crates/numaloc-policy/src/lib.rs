//! Policies for pods: a pod's requests, within its operator's ceilings, become one decision for each container. Its
//! result becomes events and a status. Nothing here does IO or reads a clock. `numaloc-nri` uses it, and so does
//! `numaloc-agent`, the node agent for Kubernetes.
//!
//! ```text
//! annotations, labels (Pod)  ┐                                    ┌ events of the daemon (numaloc-api)
//! resources (Container)      ├─ decide ─> Decision ─> schedule ...┤
//! defaults, ceilings         ┘      └──> BadAnnotation            └> ContainerResult ─> PodResult ─> PodEvent, Status
//! ```
//!
//! | module | what it holds |
//! |---|---|
//! | `pod` | the facts about a pod and its containers |
//! | `bounded` | bounds on the part of a pod that is read |
//! | `cut` | texts that are cut to a number of bytes |
//! | `class` | the quality-of-service class of a container |
//! | `decide` | the source that decides: annotations, the cluster's ConfigMap, or the operator's default for the class |
//! | `cluster`, `selector` | the cluster's ConfigMap: settings of classes, and the nodes they are for |
//! | `keys` | annotations about the memory policy of new containers |
//! | `koordinator`, `own` | the two forms of a policy: `koordinator.sh/memoryLocality`, and our own, a schedule of the API |
//! | `settings` | the effect of a policy: a schedule without its target |
//! | `ceilings` | the most that pods may request, and the messages where they request more |
//! | `config` | defaults and ceilings in a configuration |
//! | `memory_policy` | the memory policy that containers are created with |
//! | `bad` | an annotation that cannot be parsed, and the place of the error |
//! | `resource`, `selector` | policies as objects of the cluster, and the pods and nodes that they select |
//! | `result` | the result of a container |
//! | `pod_event` | an event of a pod, of any kind |
//! | `event` | the events about a pod's result, word for word as koordlet writes them |
//! | `own_status` | our own annotation: the source that has decided, and the result |
//! | `status` | the annotation with the last result, and the choice of results that have an event |
//! | `time` | times as text |
//!
//! JSON and TOML as values, fields one by one with their paths, messages of the API by their descriptions, and texts
//! made fit for messages are in `numaloc_config::written`.
//!
//! Any user who may create a pod writes its fields. So no input makes this crate panic, sizes are bounded, and every
//! text repeated in a message is escaped and cut.
#![forbid(unsafe_code)]

mod bad;
mod bounded;
mod ceilings;
mod class;
mod cluster;
mod config;
mod cut;
mod decide;
mod event;
mod keys;
mod koordinator;
mod kubelet;
mod memory_policy;
mod own;
mod own_status;
mod pod;
mod pod_event;
mod resource;
mod result;
mod selector;
mod settings;
mod status;
mod time;

pub use bad::{BadAnnotation, Position};
pub use ceilings::Ceilings;
pub use class::{QOS_LABEL, named as named_class, qos_class};
pub use cluster::{
    BadConfigMap, ClassStrategy, DSA_CONFIG_KEY, QOS_CONFIG_KEY, QosConfig, THRESHOLD_CONFIG_KEY,
    ThresholdConfig, read_dsa_config,
};
pub use decide::{
    CONTAINER_KEY, DecidingPolicy, Decision, DecisionSource, Defaults, KOORDINATOR_KEY,
    POLICIES_KEY, POLICY_KEY, PodBounds, RUN_KEY, Sources, VALUE_MAX, class_of, decide,
};
pub use event::PodResult;
pub use keys::{MEMORY_POLICY_KEY, NUMA_BALANCING_KEY};
pub use kubelet::{cgroup_parent, cpu_resources, milli_cpu};
pub use memory_policy::MemoryPolicy;
pub use own_status::{ContainerStatus, OWN_STATUS_KEY, OwnStatus, PastRun};
pub use pod::{Container, Owner, Pod, Resources};
pub use pod_event::{EventKind, EventReason, PodEvent};
pub use resource::{
    BadPolicy, ClusterScope, Condition, GROUP, KnownPolicy, LastError, NODE_KIND, NODES_PLURAL,
    Node, NodeLocality, NumaNodeLocality, Policies, PolicyKind, PolicyReach, PolicyResource,
    PolicyStatus, PolicyVerdict, RemoteContainer, Rollout, Turn, VERSION, definitions,
};
pub use result::{ContainerResult, Verdict};
pub use selector::Selector;
pub use settings::Settings;
pub use status::{BadStatus, LastResult, Phase, PodStatus, STATUS_KEY};
pub use time::{read as read_time, written as written_time};
