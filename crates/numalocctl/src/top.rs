//! The live view. A pure model (`state`, `rows`, `keys`) takes documents and events, and `draw` makes a picture of it.
//! `host`, `views` and `flows` feed it, `moving` carries out the migrations that it starts, `screen` has the terminal,
//! `live` strings all together.

mod batch;
mod draw;
mod files;
mod flows;
mod host;
mod keys;
mod live;
mod moving;
mod rows;
mod screen;
mod state;
#[cfg(test)]
mod tests;
mod views;

pub use batch::run as batch;
pub use files::run as files;
pub use flows::Flows;
pub use host::{Host, ScanPace};
pub use live::run as live;
pub use moving::{By, MigrationThread, moving, requested};
pub use rows::RowKey;
pub use state::Stage;
pub use views::Views;
