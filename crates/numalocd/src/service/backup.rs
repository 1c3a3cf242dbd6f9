//! The bytes of a copy of the store.

use crate::{refusal::Refusal, store::StoreSnapshot};
use numaloc_api::v1::BackupStoreResponse;
use std::{fs::File, io::Read};
use tokio::{
    sync::{OwnedSemaphorePermit, mpsc},
    task::spawn_blocking,
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, codegen::BoxStream};

/// Most bytes of the store in one message.
const CHUNK: usize = 64 << 10;
/// Answers that may wait for a slow client.
const AHEAD: usize = 4;

/// Copies what the store holds into a file.
///
/// # Errors
/// The disk has no room for the copy, or the store cannot be read.
pub async fn copy(snapshot: StoreSnapshot) -> Result<File, Refusal> {
    let copied = spawn_blocking(move || snapshot.copy()).await;
    copied.map_err(|error| Refusal::Internal { message: error.to_string() })?.map_err(Refusal::from)
}

/// The bytes of a file, read as fast as the client takes them. `turn` is held until all are taken or the client has
/// gone.
pub fn stream(mut file: File, turn: OwnedSemaphorePermit) -> BoxStream<BackupStoreResponse> {
    let (sender, receiver) = mpsc::channel(AHEAD);
    spawn_blocking(move || {
        let _turn = turn;
        loop {
            let mut chunk = Vec::with_capacity(CHUNK);
            let read = file.by_ref().take(CHUNK as u64).read_to_end(&mut chunk);
            let answer = match read {
                Ok(0) => return,
                Ok(_) => Ok(BackupStoreResponse { chunk }),
                Err(error) => Err(Status::from(Refusal::Internal {
                    message: format!("the copy of the store cannot be read: {error}"),
                })),
            };
            let failed = answer.is_err();
            // Sending fails if the client has gone.
            if sender.blocking_send(answer).is_err() || failed {
                return;
            }
        }
    });
    Box::pin(ReceiverStream::new(receiver))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek, Write};
    use std::sync::Arc;
    use tokio::sync::Semaphore;
    use tokio_stream::StreamExt;

    #[tokio::test]
    async fn all_bytes_come_in_order_and_then_the_next_has_its_turn() {
        let bytes: Vec<u8> = (0..3 * AHEAD * CHUNK + 7).map(|at| (at / 251) as u8).collect();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        file.rewind().unwrap();
        let turns = Arc::new(Semaphore::new(1));
        let mut answers = stream(file, turns.clone().acquire_owned().await.unwrap());
        let first = answers.next().await.unwrap().unwrap().chunk;
        assert_eq!((first.len(), turns.available_permits()), (CHUNK, 0));
        let mut all = first;
        while let Some(answer) = answers.next().await {
            all.extend(answer.unwrap().chunk);
        }
        assert!(all == bytes);
        let _next = turns.acquire().await.unwrap();
    }

    #[tokio::test]
    async fn who_leaves_holds_up_nobody() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 30).unwrap();
        let turns = Arc::new(Semaphore::new(1));
        drop(stream(file, turns.clone().acquire_owned().await.unwrap()));
        let _next = turns.acquire().await.unwrap();
    }
}
