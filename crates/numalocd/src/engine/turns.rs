//! Blocking work that takes turns: so many at a time, first come, first served.

use crate::dispatch::Refusal;
use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};
use tokio::{sync::Semaphore, task::spawn_blocking};

/// Lets so many work at a time.
#[derive(Clone, Debug)]
pub struct Turns(Arc<Semaphore>);

/// Tells the work, when it is dropped, that nobody waits for it any more.
struct Interest(Arc<AtomicBool>);

impl Drop for Interest {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

impl Turns {
    /// So many at a time.
    pub fn new(at_once: usize) -> Self {
        Self(Arc::new(Semaphore::new(at_once)))
    }

    /// Waits for a turn and has `work` done in a thread. Nothing is begun for a caller that goes away meanwhile; later
    /// the work's argument tells it.
    ///
    /// # Errors
    /// Those of the work; internal, if it panics.
    pub async fn take<T: Send + 'static>(
        &self,
        work: impl FnOnce(&(dyn Fn() -> bool + Sync)) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let bug = |message: String| Refusal::Internal { message };
        let turn = self.0.clone().acquire_owned().await.map_err(|error| bug(error.to_string()))?;
        let gone = Arc::new(AtomicBool::new(false));
        let _interest = Interest(gone.clone());
        let span = tracing::Span::current();
        let work = move || {
            // The turn ends with the work, not with the caller's interest in it.
            let _turn = turn;
            span.in_scope(|| caught(|| work(&|| gone.load(Relaxed))))
        };
        spawn_blocking(work).await.unwrap_or_else(|error| Err(bug(error.to_string())))
    }
}

/// Does `work`; a panic in it is an error of this call and of nothing else.
///
/// # Errors
/// Those of the work; internal, if it panics.
pub fn caught<T>(work: impl FnOnce() -> Result<T, Refusal>) -> Result<T, Refusal> {
    // What the work has changed is dropped with it; nobody sees it half done.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let message = format!("this is a bug, please report it: {}", words(&*panic));
        tracing::error!("{message}");
        Err(Refusal::Internal { message })
    })
}

fn words(panic: &(dyn Any + Send)) -> &str {
    let literal = panic.downcast_ref::<&str>().copied();
    literal.or(panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("panic without words")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{sync::mpsc, time::Duration};
    use tokio::{task::yield_now, time::timeout};

    const DEADLINE: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn who_goes_away_while_waiting_starts_nothing() {
        let (turns, begun) = (Turns::new(1), Arc::new(AtomicBool::new(false)));
        let (release, held) = mpsc::channel::<()>();
        let (in_turn, first) = (turns.clone(), turns.clone());
        let first = tokio::spawn(async move {
            first.take(move |_| held.recv().map_err(|error| panic!("{error}"))).await
        });
        while in_turn.0.available_permits() > 0 {
            yield_now().await;
        }
        let (mark, waiting) = (begun.clone(), turns.clone());
        let second = async move {
            waiting
                .take(move |_| {
                    mark.store(true, Relaxed);
                    Ok(())
                })
                .await
        };
        timeout(Duration::from_millis(20), second).await.expect_err("it is not its turn");
        release.send(()).expect("it waits");
        first.await.expect("no panic").expect("no error");
        let third = timeout(DEADLINE, turns.take(|_| Ok(7))).await.expect("its turn comes");
        assert_eq!(third, Ok(7));
        assert!(!begun.load(Relaxed), "it was begun for nobody");
    }

    #[tokio::test]
    async fn who_goes_away_later_is_noticed_and_keeps_the_turn_until_the_end() {
        let turns = Turns::new(1);
        let (begin, begun) = tokio::sync::oneshot::channel();
        let (tell, told) = mpsc::channel();
        let first = turns.clone();
        let first = tokio::spawn(async move {
            let work = move |stop: &(dyn Fn() -> bool + Sync)| {
                begin.send(()).expect("somebody waits");
                while !stop() {
                    std::thread::yield_now();
                }
                tell.send(()).expect("somebody waits");
                Ok(())
            };
            first.take(work).await
        });
        begun.await.expect("it begins");
        assert_eq!(turns.0.available_permits(), 0);
        first.abort();
        first.await.expect_err("it was aborted");
        let ended = timeout(DEADLINE, turns.take(move |_| Ok(told.try_recv().is_ok()))).await;
        assert_eq!(ended.expect("its turn comes"), Ok(true), "the turn was given away early");
    }

    #[tokio::test]
    async fn a_panic_is_an_error_of_that_call() {
        let turns = Turns::new(1);
        let literal: Result<(), _> = turns.take(|_| panic!("too bad")).await;
        let formatted: Result<(), _> = caught(|| panic!("too {}", "bad"));
        for refusal in [literal.unwrap_err(), formatted.unwrap_err()] {
            assert!(
                matches!(&refusal, Refusal::Internal { message } if message.ends_with("too bad"))
            );
        }
        assert_eq!(turns.take(|_| Ok(1)).await, Ok(1), "the turn was lost");
    }
}
