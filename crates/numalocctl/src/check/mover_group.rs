//! Whether memory is moved in a resctrl group, and more slowly there.

use super::Findings;
use crate::doc::Check;
use numaloc_core::MoverGroup;

/// The resctrl group that the daemon's configuration asks for.
#[derive(Clone, Debug)]
pub enum MoverGroupState {
    /// None.
    Unset,
    /// This one, and the host has what it asks for.
    Set(MoverGroup),
    /// One that this host cannot have: why not.
    Wrong(String),
}

/// Whether jobs copy more slowly than they could.
pub fn mover_group(found: &Findings) -> Check {
    const NAME: &str = "mover_group";
    match &found.mover_group {
        MoverGroupState::Unset => {
            Check::ok(NAME, "not set: the daemon's jobs have no resctrl group")
        }
        MoverGroupState::Wrong(why) => Check::warning(
            NAME,
            why.as_str(),
            "correct [resctrl] in /etc/numaloc/numalocd.toml and restart numalocd; jobs move memory without the group meanwhile",
        ),
        MoverGroupState::Set(group) => {
            let limits = [("memory_bandwidth", &group.memory_bandwidth), ("l3", &group.l3)];
            let limits = limits
                .into_iter()
                .filter_map(|(key, value)| value.as_ref().map(|value| format!("{key} {value}")));
            let limits = limits.collect::<Vec<_>>().join(", ");
            let name = group.name.as_str();
            match group.is_limited() {
                false => Check::ok(NAME, format!("resctrl group {name} without limits")),
                true => Check::warning(
                    NAME,
                    format!("resctrl group {name} with {limits}"),
                    "a slower copy keeps pages unmapped for longer, and threads that touch them wait: compare the target's latency without [resctrl], or use --profile gentle, which never uses the group",
                ),
            }
        }
    }
}
