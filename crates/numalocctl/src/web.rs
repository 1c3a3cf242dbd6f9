//! The page: what `top`, `jobs`, `advise` and pictures show, for a browser. `desk` looks at the host and carries out
//! what is confirmed, `gate` decides whether a request is answered, `route` what it asks for, `serve` speaks HTTP over
//! what `listen` has opened, `look` answers what is asked for once, and `report` writes all of it into one file. The page itself is in `page`, without a
//! build step.

mod desk;
mod doc;
mod gate;
mod listen;
mod look;
mod records;
mod report;
mod route;
mod serve;

pub use desk::{Desk, run};
pub use doc::HostDoc;
pub use gate::Gate;
pub use listen::Listening;
pub use look::Looks;
pub use records::Records;
pub use report::{before, write as report};
pub use serve::start;
