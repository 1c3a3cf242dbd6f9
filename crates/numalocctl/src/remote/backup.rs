//! A copy of the daemon's store.

use super::{Daemon, client};
use crate::exit::Failure;
use numaloc_api::v1;
use std::io::{self, Write};
use tokio::time::timeout;
use tonic::Request;

impl Daemon {
    /// Writes a copy of the store to `out`, and returns its length in bytes. The copy is complete only if this
    /// succeeds.
    ///
    /// # Errors
    /// The daemon refuses or sends nothing for --request-timeout. Errors of `out`, as `failed` makes them.
    pub fn backup(
        &self,
        out: &mut impl Write,
        failed: impl Fn(io::Error) -> Failure,
    ) -> Result<u64, Failure> {
        let mut service = client!(self, daemon_service_client, DaemonServiceClient);
        self.runtime.block_on(async {
            let request = Request::new(v1::BackupStoreRequest {});
            let answer = timeout(self.request_timeout, service.backup_store(request)).await;
            let answer = answer.map_err(|_| self.silent(self.request_timeout))?;
            let mut parts = answer.map_err(|status| self.refused(&status))?.into_inner();
            let mut bytes = 0;
            loop {
                let part = timeout(self.request_timeout, parts.message()).await;
                let part = part.map_err(|_| self.silent(self.request_timeout))?;
                let Some(part) = part.map_err(|status| self.refused(&status))? else {
                    return Ok(bytes);
                };
                out.write_all(&part.chunk).map_err(&failed)?;
                bytes += part.chunk.len() as u64;
            }
        })
    }
}
