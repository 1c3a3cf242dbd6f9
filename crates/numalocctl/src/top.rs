//! The live view. A pure model (`state`, `rows`, `keys`) takes documents and events, and `draw` makes a picture of it.
//! A feed of the engine has the documents, `moving` carries out the migrations that it starts, `screen` has the
//! terminal, `live` strings all together.

mod batch;
mod draw;
mod files;
mod keys;
mod live;
mod moving;
mod rows;
mod screen;
mod state;
#[cfg(test)]
mod tests;

pub use batch::run as batch;
pub use files::run as files;
pub use live::run as live;
pub use moving::{MigrationThread, requested};
pub use rows::RowKey;
pub use state::Stage;
