//! Accounts: what happened to remote bytes.

use super::parts::{LeftDoc, left};
use numaloc_core::Account;
use serde::Serialize;

/// Remote bytes by what happened to them. `found_bytes` is the sum of all others.
#[derive(Clone, Debug, Default, Serialize)]
pub struct AccountDoc {
    /// Found remote.
    pub found_bytes: u64,
    /// A second look has found them on their target.
    pub moved_bytes: u64,
    /// Moved, but a second look has found them elsewhere again.
    pub moved_back_bytes: u64,
    /// Unmapped, swapped out, replaced or moved by somebody else meanwhile.
    pub vanished_bytes: u64,
    /// Still remote, by reason.
    pub left: Vec<LeftDoc>,
}

impl From<&Account> for AccountDoc {
    fn from(account: &Account) -> Self {
        Self {
            found_bytes: account.found_bytes(),
            moved_bytes: account.moved_bytes(),
            moved_back_bytes: account.moved_back_bytes(),
            vanished_bytes: account.vanished_bytes(),
            left: left(account.left_bytes()),
        }
    }
}
