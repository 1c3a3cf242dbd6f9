//! The resctrl group in which memory is moved, if the operator has set one.

use numaloc_core::{MoverGroup as Settings, Profile};
use numaloc_host::{
    Roots,
    resctrl::{self, ControlGroup},
};
use std::{panic, sync::Arc, thread};

/// Whether runs of this process move memory in a resctrl group of their own. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub enum MoverGroup {
    /// They move it in the group that this process is in.
    #[default]
    Disabled,
    /// They move it in this group, except for runs with the profile `gentle`.
    Enabled(Arc<ControlGroup>),
}

impl MoverGroup {
    /// Removes the group that a process which was killed has left, and makes the one that the configuration asks for. Also gives
    /// back why there is none although it is asked for; memory is moved without it then. Blocks.
    pub fn begin(roots: &Roots, settings: Option<&Settings>) -> (Self, Option<String>) {
        match resctrl::recover(roots) {
            Ok(None) => {}
            Ok(Some(group)) => {
                tracing::warn!(group, "the resctrl group of a daemon that died is removed");
            }
            Err(error) => {
                tracing::error!(%error, "the resctrl group of a daemon that died stays");
            }
        }
        let Some(settings) = settings else { return (Self::Disabled, None) };
        match ControlGroup::make(roots, settings) {
            Ok(group) => {
                let (path, set) = (group.path().display(), group.settings().join(", "));
                tracing::info!(%path, set, "threads that move memory run in a resctrl group");
                (Self::Enabled(Arc::new(group)), None)
            }
            Err(error) => {
                let why = format!("memory is moved without the resctrl group: {error}");
                (Self::Disabled, Some(why))
            }
        }
    }

    /// Does `work`, in the group if there is one. The profile `gentle` never uses it: slower copies keep pages unmapped for longer.
    ///
    /// A thread of its own enters the group and does the work, because a thread cannot leave a group for the one that it came from.
    pub fn run<T: Send>(&self, profile: Profile, work: impl FnOnce() -> T + Send) -> T {
        let Self::Enabled(group) = self else { return work() };
        if profile == Profile::Gentle {
            return work();
        }
        let span = tracing::Span::current();
        let inside = || {
            let _span = span.entered();
            if let Err(error) = group.enter() {
                tracing::warn!(%error, "memory is moved without the resctrl group");
            }
            work()
        };
        let joined = thread::scope(|scope| scope.spawn(inside).join());
        joined.unwrap_or_else(|panic| panic::resume_unwind(panic))
    }

    /// Removes the group. Threads that are still in it are in the root group then. Blocks.
    pub fn end(&self) {
        let Self::Enabled(group) = self else { return };
        if let Err(error) = group.remove() {
            tracing::error!(%error, "the resctrl group stays: try numalocd --restore-settings");
        }
    }
}
