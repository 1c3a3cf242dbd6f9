//! An event for a pod, of any kind.

/// An event for a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodEvent {
    /// Normal, or Warning if action is needed.
    pub kind: EventKind,
    /// Its reason, one word that clients can filter by.
    pub reason: EventReason,
    /// Its message: lines, without an end of line after the last. There is one for each container, and none of them is
    /// long.
    pub message: String,
}

/// The types that Kubernetes has for events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// Information. All events of the contract are.
    Normal,
    /// The pod's author should look into it: an annotation cannot be parsed.
    Warning,
}

impl EventKind {
    /// The value of the field `type` of a Kubernetes event.
    pub fn name(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// The reasons that events of this agent have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventReason {
    /// Memory of at least one container was moved, or was to be moved and processes failed.
    Completed,
    /// Nothing was to be done for any container.
    Skipped,
    /// It failed for some, and was completed for none. Or an annotation cannot be parsed.
    Failed,
    /// A pod gets less than it asks for. The contract does not have this one.
    Bounded,
    /// Another program acts for the pod, so nothing is done here. The contract does not have this one either.
    Conflict,
}

impl PodEvent {
    /// The event of a pod that another program acts for: `other` names it, and the remedy.
    pub fn conflict(other: &str) -> Self {
        let message = format!("{other}; nothing is done for this pod by numaloc-agent");
        Self { kind: EventKind::Warning, reason: EventReason::Conflict, message }
    }
}

impl EventReason {
    /// Whether Koordinator's contract has it.
    pub fn is_of_contract(self, kind: EventKind) -> bool {
        kind == EventKind::Normal && matches!(self, Self::Completed | Self::Skipped | Self::Failed)
    }
    /// Every reason, in the order of declaration.
    pub const ALL: [Self; 5] =
        [Self::Completed, Self::Skipped, Self::Failed, Self::Bounded, Self::Conflict];

    /// The name in events and in the status.
    pub fn name(self) -> &'static str {
        match self {
            Self::Completed => "MemoryLocalityCompleted",
            Self::Skipped => "MemoryLocalitySkipped",
            Self::Failed => "MemoryLocalityFailed",
            Self::Bounded => "MemoryLocalityBounded",
            Self::Conflict => "MemoryLocalityConflict",
        }
    }
}
