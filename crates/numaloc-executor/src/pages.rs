//! Pages of a window: folios, rows of them, and where they are after a call.

pub(crate) mod cached;
pub(crate) mod folio;
pub(crate) mod move_index;
pub(crate) mod row;
pub(crate) mod verify;
