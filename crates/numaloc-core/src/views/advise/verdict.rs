//! Whether a subject is worse off after its finding has been carried out.

use crate::machine::ids::{NodeId, NodeSet};
use std::{collections::BTreeMap, fmt};

/// The local share may be this many percentage points lower without being called worse: page maps of large processes are sampled.
pub const LOCAL_MARGIN: f64 = 2.0;
/// Pressure may rise by this many percentage points.
pub const PRESSURE_MARGIN: f64 = 10.0;

/// Measurements of a subject, or of the whole host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sight {
    /// Its memory by node, in bytes, hugetlb memory included. Empty for the host.
    pub resident: BTreeMap<NodeId, u64>,
    /// The percentage of the time in which one of its tasks or more waited, by resource
    /// (Documentation/accounting/psi.rst). Resources that the kernel does not account for is left out.
    pub pressure: BTreeMap<&'static str, f64>,
}

impl Sight {
    /// The percentage of its memory on these nodes; `None` if it has no memory.
    pub fn percent_on(&self, nodes: &NodeSet) -> Option<f64> {
        let all: u64 = self.resident.values().sum();
        let on = self.resident.iter().filter(|(node, _)| nodes.contains(**node));
        let on: u64 = on.map(|(_, bytes)| bytes).sum();
        (all > 0).then(|| on as f64 * 100.0 / all as f64)
    }
}

/// The figure that got worse, before and after, in percent.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum Worse {
    Ended,
    LessLocal { before: f64, after: f64 },
    MorePressure { resource: &'static str, before: f64, after: f64 },
}

impl fmt::Display for Worse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended => f.write_str("it has ended"),
            Self::LessLocal { before, after } => {
                write!(f, "its local share fell from {before:.0}% to {after:.0}%")
            }
            Self::MorePressure { resource, before, after } => {
                write!(
                    f,
                    "its {resource} pressure rose from {before:.0}% to {after:.0}% of the time"
                )
            }
        }
    }
}

/// The figure that got worse between two looks at the same subject, whose memory belongs on `home`; `None` for `after`:
/// it has ended.
pub fn worse(before: &Sight, after: Option<&Sight>, home: &NodeSet) -> Option<Worse> {
    let Some(after) = after else { return Some(Worse::Ended) };
    if let (Some(before), Some(after)) = (before.percent_on(home), after.percent_on(home))
        && after < before - LOCAL_MARGIN
    {
        return Some(Worse::LessLocal { before, after });
    }
    before.pressure.iter().find_map(|(&resource, &before)| {
        let &after = after.pressure.get(resource)?;
        let is_more = after > before + PRESSURE_MARGIN;
        is_more.then_some(Worse::MorePressure { resource, before, after })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sight(local: u64, remote: u64, cpu: f64) -> Sight {
        Sight {
            resident: [(NodeId(0), local), (NodeId(1), remote)].into(),
            pressure: [("CPU", cpu)].into(),
        }
    }

    fn said(after: Option<Sight>) -> Option<String> {
        let home: NodeSet = "0".parse().unwrap();
        worse(&sight(50, 50, 5.0), after.as_ref(), &home).map(|worse| worse.to_string())
    }

    #[test]
    fn worse_is_ended_less_local_or_waiting() {
        assert_eq!(said(None).as_deref(), Some("it has ended"));
        let less = "its local share fell from 50% to 40%";
        assert_eq!(said(Some(sight(40, 60, 5.0))).as_deref(), Some(less));
        let waits = "its CPU pressure rose from 5% to 16% of the time";
        assert_eq!(said(Some(sight(90, 10, 15.5))).as_deref(), Some(waits));
    }

    #[test]
    fn noise_and_what_is_not_known_are_not_worse() {
        assert_eq!(said(Some(sight(48, 52, 15.0))), None);
        assert_eq!(said(Some(Sight::default())), None);
        let host = Sight { resident: BTreeMap::new(), ..sight(0, 0, 1.0) };
        assert_eq!(worse(&host, Some(&host), &NodeSet::new()), None);
    }
}
