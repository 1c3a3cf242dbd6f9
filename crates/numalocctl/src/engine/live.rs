//! Views of the whole host, as messages of the API: made by this process or by a daemon.

mod by_daemon;
mod own;
mod work;

pub use by_daemon::DaemonFeed;
pub use own::OwnFeed;
pub use work::OwnWork;

use crate::doc::TopSource;
use numaloc_api::v1;
use numaloc_core::Identity;
use std::time::Duration;

/// Scan interval and CPU budget of a view.
#[derive(Clone, Copy, Debug)]
pub struct ScanPace {
    /// Time between two scans.
    pub delay: Duration,
    /// In percent of one CPU.
    pub cpu_budget: f64,
}

/// Looks at the whole host again and again.
pub trait ViewFeed {
    fn source(&self) -> TopSource;

    /// Continues to look, as far as the budget allows. A daemon does so automatically.
    fn work(&mut self);

    /// Looks at what is due with each view.
    fn refresh(&mut self);

    /// Watches a process closely, or none.
    fn watch(&mut self, process: Option<Identity>);

    /// The latest state. Flows are those since the feed began.
    fn view(&self) -> v1::LiveView;

    /// Information that is missing, and the reason.
    fn trouble(&self) -> Option<String>;
}
