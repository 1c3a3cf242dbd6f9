//! Accounts and localities as parts of documents.

use super::fields::{amount, left, share};
use crate::doc::{AccountDoc, LocalityPair};
use numaloc_api::v1;
use numaloc_core::Locality;

/// Locality of movable and of all memory; `None` if nobody has looked.
pub fn pair(movable: Option<&v1::Share>, overall: Option<&v1::Share>) -> Option<LocalityPair> {
    movable?;
    Some(Locality { movable: share(movable), overall: share(overall) }.into())
}

/// An account.
pub fn account(message: Option<&v1::Account>) -> AccountDoc {
    let Some(message) = message else { return AccountDoc::default() };
    AccountDoc {
        found_bytes: amount(message.found_bytes),
        moved_bytes: amount(message.moved_bytes),
        moved_back_bytes: amount(message.moved_back_bytes),
        vanished_bytes: amount(message.vanished_bytes),
        left: left(&message.left),
    }
}
