//! Parts of a host: nodes and their memory, CPUs, processes with their threads.

pub mod guest;
pub mod ids;
pub mod local;
pub mod nature;
pub mod process;
pub mod protection;
pub mod room;
pub mod speeds;
pub mod supply;
pub mod threads;
pub mod tier;
pub mod topology;
pub mod traffic;
