//! What people write in JSON, YAML and TOML outside of configuration files: annotations, objects of a cluster, files of schedules. The
//! readers take it value by value and end with the first mistake; [`all`] makes them report every mistake.
//!
//! | module | what it holds |
//! |---|---|
//! | `tree` | JSON, YAML and TOML as values |
//! | `fields` | single values, lists and objects, and what is wrong with them |
//! | `all` | all mistakes at once |
//! | `text` | texts made fit for messages |

mod all;
mod fields;
mod text;
mod tree;

pub use all::{Problems, all};
pub use fields::{
    KNOWN_MAX, Object, Problem, below, flag, list, one_of, text, texts, unknown_name, whole,
};
pub use text::{ERROR_MAX, SHOWN_MAX, shown};
pub use tree::Tree;
