//! This kernel's interface for letting a DMA engine copy the pages that it migrates, and its counters.
//!
//! A queue of a process's own (/dev/dsa/wqX.Y) reaches the memory of the process alone. So the memory of others is
//! copied by an engine only if the kernel's own migration gives its copies to one. No kernel of kernel.org does. Two
//! kinds of kernels do:
//!
//! | interface | where | known from |
//! |---|---|---|
//! | `alibaba` | /sys/kernel/mm/migrate | Alibaba Cloud Linux 3; its node agent writes these files |
//! | `dcbm` | /sys/module/dcbm/parameters, in earlier versions /sys/kernel/dcbm | the module of the series "Accelerate page migration with batch copying and hardware offload" (linux-mm; RFC v2 to v6) |
//!
//! Another one is one more file with an implementation of [`Interface`], and a line in [`find`]. Nothing here decides: who changes
//! these settings, for how long, and how they are put back is the caller's business.

mod alibaba;
mod dcbm;
mod engines;
mod interface;
#[cfg(test)]
mod tests;

pub use engines::{EngineStates, condition};
pub use interface::{Counters, Interface, Knob, Settings};

use engines::channels;
use numaloc_host::Roots;
use std::fs::File;

/// This kernel's interface for copies by DMA engines, and whether it can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probed {
    /// The name of the interface, [`Interface::name`]; `None` if the kernel has none.
    pub interface: Option<&'static str>,
    /// Whether it can be used by this process now.
    pub available: bool,
    /// Why not, and what to do about it.
    pub reason: Option<String>,
}

/// This kernel's interface, and whether it can be used. Changes nothing.
pub fn probe(roots: &Roots) -> Probed {
    let Some(interface) = find(roots) else {
        return Probed { interface: None, available: false, reason: Some(NONE.into()) };
    };
    let reason = refusal(roots, interface.as_ref());
    Probed { interface: Some(interface.name()), available: reason.is_none(), reason }
}

/// The reason why nothing is offloaded on a kernel without an interface.
const NONE: &str = "this kernel cannot give the copies of a page migration to a DMA engine: it has neither \
                    /sys/kernel/mm/migrate/dma_migrate_enabled (Alibaba Cloud Linux) nor the module dcbm (try modprobe dcbm)";

/// The interface of this kernel; `None` if it has none.
pub fn find(roots: &Roots) -> Option<Box<dyn Interface>> {
    let alibaba = || alibaba::Alibaba::find(roots).map(|it| Box::new(it) as Box<dyn Interface>);
    let dcbm = || dcbm::Dcbm::find(roots).map(|it| Box::new(it) as Box<dyn Interface>);
    alibaba().or_else(dcbm)
}

/// Whether it is switched on; `None` if the kernel has no interface, or it does not say.
pub fn is_on(roots: &Roots) -> Option<bool> {
    find(roots)?.is_on().ok()
}

/// Why this process cannot use the interface; `None` if it can.
fn refusal(roots: &Roots, interface: &dyn Interface) -> Option<String> {
    let switch = interface.directory().join(interface.switch());
    if let Err(error) = File::options().write(true).open(&switch) {
        return Some(format!(
            "cannot change {}: {error}; it takes root, and a sandbox that lets it be written",
            switch.display()
        ));
    }
    if channels(roots).is_some_and(|channels| channels.is_empty()) {
        return Some(
            "no DMA engine offers the kernel a channel (/sys/class/dma is empty): give it one, for Intel DSA an enabled work \
             queue of type kernel that is bound to the driver dmaengine"
                .into(),
        );
    }
    interface.refusal()
}
