//! Messages of the API as people write them: in JSON, YAML or TOML, with the names of fields that the definitions have, and with sizes,
//! durations and percentages as on the command line. The first mistake is reported with its path and what to write instead.
//!
//! | module | what it holds |
//! |---|---|
//! | `tree` | JSON, YAML and TOML as values |
//! | `fields` | single values, and what is wrong with them |
//! | `message` | messages by their descriptions |
//! | `text` | texts made fit for messages |

mod fields;
mod message;
mod text;
mod tree;

pub use fields::{Fields, Problem, below, flag, one_of, text, unknown_name, whole};
pub use message::{Rules, message, read_message, read_schedule};
pub use text::{ERROR_MAX, SHOWN_MAX, shown};
pub use tree::Tree;
