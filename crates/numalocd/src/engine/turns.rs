//! Blocking work that takes turns: a limited number at a time, and callers in rotation. However much one caller asks
//! for, the single request of another caller is next.

use crate::refusal::Refusal;
use parking_lot::Mutex;
use std::{
    any::Any,
    collections::{HashMap, VecDeque},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::{runtime::Handle, sync::oneshot, task::spawn_blocking, time::sleep};

/// Time for which work whose caller has gone keeps its turn.
const GIVE_UP: Duration = Duration::from_secs(10);

/// Lets a limited number of requests work at a time. Clones share the same turns.
#[derive(Clone, Debug)]
pub struct Turns(Arc<Mutex<EngineLine>>);

#[derive(Debug)]
struct EngineLine {
    free: usize,
    /// Most turns of one caller, because its work may take long.
    most: usize,
    held: HashMap<String, usize>,
    /// Callers that wait, in the order of their turns, each with its requests.
    waiting: VecDeque<(String, VecDeque<oneshot::Sender<EngineTurn>>)>,
}

/// A turn. It ends when this is dropped.
#[derive(Debug)]
struct EngineTurn {
    of: String,
    /// `None`: the turn has been given back already.
    line: Option<Arc<Mutex<EngineLine>>>,
}

impl Drop for EngineTurn {
    fn drop(&mut self) {
        let Some(line) = self.line.take() else { return };
        line.lock().give_back(&self.of);
        hand_out(&line);
    }
}

impl EngineLine {
    /// Adds a request of the caller `of`.
    fn ask(&mut self, of: &str, give: oneshot::Sender<EngineTurn>) {
        match self.waiting.iter_mut().find(|(waits, _)| waits == of) {
            Some((_, asked)) => asked.push_back(give),
            None => self.waiting.push_back((of.to_owned(), [give].into())),
        }
    }

    /// Takes a turn for the next request. Its caller then goes behind all others.
    fn next(&mut self) -> Option<(String, oneshot::Sender<EngineTurn>)> {
        let (held, most) = (&self.held, self.most);
        let may = |of: &String| held.get(of).copied().unwrap_or_default() < most;
        let at = self.waiting.iter().position(|(of, _)| may(of)).filter(|_| self.free > 0)?;
        let (of, mut asked) = self.waiting.remove(at)?;
        let give = asked.pop_front()?;
        if !asked.is_empty() {
            self.waiting.push_back((of.clone(), asked));
        }
        self.free -= 1;
        *self.held.entry(of.clone()).or_default() += 1;
        Some((of, give))
    }

    fn give_back(&mut self, of: &str) {
        self.free += 1;
        if let Some(held) = self.held.get_mut(of) {
            *held -= 1;
            if *held == 0 {
                self.held.remove(of);
            }
        }
    }
}

/// Gives free turns to requests that wait.
fn hand_out(line: &Arc<Mutex<EngineLine>>) {
    let mut locked = line.lock();
    while let Some((of, give)) = locked.next() {
        let turn = EngineTurn { of, line: Some(line.clone()) };
        // If the caller does not wait any more, its turn is given back here. Dropping it must not lock the line: it is
        // locked already.
        if let Err(mut turn) = give.send(turn) {
            turn.line = None;
            locked.give_back(&turn.of);
        }
    }
}

/// When it is dropped, the work is notified that no caller waits for it any more.
struct Interest {
    gone: Arc<AtomicBool>,
    turn: Arc<Mutex<Option<EngineTurn>>>,
}

impl Drop for Interest {
    fn drop(&mut self) {
        self.gone.store(true, Relaxed);
        let turn = self.turn.clone();
        let has_ended = turn.lock().is_none();
        // Without a runtime the daemon is ending.
        if let (false, Ok(runtime)) = (has_ended, Handle::try_current()) {
            runtime.spawn(async move {
                sleep(GIVE_UP).await;
                end(&turn);
            });
        }
    }
}

fn end(turn: &Mutex<Option<EngineTurn>>) {
    drop(turn.lock().take());
}

impl Turns {
    /// Turns for `at_once` requests at a time. If there are several, one caller gets at most all but one of them.
    pub fn new(at_once: usize) -> Self {
        let most = at_once.saturating_sub(1).max(1);
        let (held, waiting) = (HashMap::new(), VecDeque::new());
        Self(Arc::new(Mutex::new(EngineLine { free: at_once, most, held, waiting })))
    }

    /// Waits for a turn of the caller `of`, then runs `work` in a thread. If the caller goes away before its turn,
    /// nothing is begun. If it goes away later, the argument of `work` returns true. Work that has not ended
    /// [`GIVE_UP`] after that loses its turn: it may wait in the kernel for a process that does not answer.
    ///
    /// # Errors
    /// Those of the work; internal, if it panics.
    pub async fn take<T: Send + 'static>(
        &self,
        of: &str,
        work: impl FnOnce(&(dyn Fn() -> bool + Sync)) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let bug = |message: String| Refusal::Internal { message };
        let turn = self.turn(of).await.map_err(|error| bug(error.to_string()))?;
        let gone = Arc::new(AtomicBool::new(false));
        let turn = Arc::new(Mutex::new(Some(turn)));
        let _interest = Interest { gone: gone.clone(), turn: turn.clone() };
        let span = tracing::Span::current();
        let work = move || {
            let done = span.in_scope(|| caught(|| work(&|| gone.load(Relaxed))));
            end(&turn);
            done
        };
        spawn_blocking(work).await.unwrap_or_else(|error| Err(bug(error.to_string())))
    }

    async fn turn(&self, of: &str) -> Result<EngineTurn, oneshot::error::RecvError> {
        let (give, given) = oneshot::channel();
        self.0.lock().ask(of, give);
        hand_out(&self.0);
        given.await
    }

    #[cfg(test)]
    fn free(&self) -> usize {
        self.0.lock().free
    }

    #[cfg(test)]
    fn waiting(&self) -> usize {
        self.0.lock().waiting.iter().map(|(_, asked)| asked.len()).sum()
    }
}

/// Runs `work`. A panic in it becomes an error of this call, and affects nothing else.
///
/// # Errors
/// Those of the work; internal, if it panics.
pub fn caught<T>(work: impl FnOnce() -> Result<T, Refusal>) -> Result<T, Refusal> {
    // This is unwind safe: what the work has changed is dropped with it, so no caller sees it half done.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let message = format!("this is a bug, please report it: {}", words(&*panic));
        tracing::error!("{message}");
        Err(Refusal::Internal { message })
    })
}

fn words(panic: &(dyn Any + Send)) -> &str {
    let literal = panic.downcast_ref::<&str>().copied();
    literal
        .or(panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("panic without a message")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use tokio::{
        task::yield_now,
        time::{advance, timeout},
    };

    const DEADLINE: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn who_goes_away_while_waiting_starts_nothing() {
        let (turns, begun) = (Turns::new(1), Arc::new(AtomicBool::new(false)));
        let (release, held) = mpsc::channel::<()>();
        let (in_turn, first) = (turns.clone(), turns.clone());
        let first = tokio::spawn(async move {
            first.take("a", move |_| held.recv().map_err(|error| panic!("{error}"))).await
        });
        while in_turn.free() > 0 {
            yield_now().await;
        }
        let (mark, waiting) = (begun.clone(), turns.clone());
        let second = async move {
            waiting
                .take("a", move |_| {
                    mark.store(true, Relaxed);
                    Ok(())
                })
                .await
        };
        timeout(Duration::from_millis(20), second).await.expect_err("it is not its turn");
        release.send(()).expect("it waits");
        first.await.expect("no panic").expect("no error");
        let third = timeout(DEADLINE, turns.take("a", |_| Ok(7))).await.expect("its turn comes");
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
            first.take("a", work).await
        });
        begun.await.expect("it begins");
        assert_eq!(turns.free(), 0);
        first.abort();
        first.await.expect_err("it was aborted");
        let ended = timeout(DEADLINE, turns.take("b", move |_| Ok(told.try_recv().is_ok()))).await;
        assert_eq!(ended.expect("its turn comes"), Ok(true), "the turn was given away early");
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_does_not_end_after_its_caller_has_gone_loses_its_turn() {
        let turns = Turns::new(1);
        let (begin, begun) = tokio::sync::oneshot::channel();
        let (release, held) = mpsc::channel::<()>();
        let first = turns.clone();
        let first = tokio::spawn(async move {
            let work = move |_: &(dyn Fn() -> bool + Sync)| {
                begin.send(()).expect("somebody waits");
                let _ = held.recv();
                Ok(())
            };
            first.take("a", work).await
        });
        begun.await.expect("it begins");
        first.abort();
        first.await.expect_err("it was aborted");
        yield_now().await;
        assert_eq!(turns.free(), 0);
        advance(GIVE_UP + Duration::from_secs(1)).await;
        assert_eq!(turns.take("b", |_| Ok(1)).await, Ok(1));
        assert_eq!(turns.free(), 1);
        drop(release);
    }

    #[tokio::test]
    async fn a_panic_is_an_error_of_that_call() {
        let turns = Turns::new(1);
        let literal: Result<(), _> = turns.take("a", |_| panic!("too bad")).await;
        let formatted: Result<(), _> = caught(|| panic!("too {}", "bad"));
        for refusal in [literal.unwrap_err(), formatted.unwrap_err()] {
            assert!(
                matches!(&refusal, Refusal::Internal { message } if message.ends_with("too bad"))
            );
        }
        assert_eq!(turns.take("a", |_| Ok(1)).await, Ok(1), "the turn was lost");
    }

    #[tokio::test]
    async fn the_backlog_of_one_caller_delays_nobody_else() {
        let (turns, order) = (Turns::new(1), Arc::new(Mutex::new(Vec::new())));
        let held = turns.turn("a").await.expect("a turn");
        let mut asked = Vec::new();
        for of in std::iter::repeat_n("a", 100).chain(["b", "c"]) {
            let (turns, order) = (turns.clone(), order.clone());
            asked.push(tokio::spawn(async move {
                let done = move |_: &(dyn Fn() -> bool + Sync)| {
                    order.lock().push(of);
                    Ok(())
                };
                turns.take(of, done).await
            }));
        }
        while turns.waiting() < 102 {
            yield_now().await;
        }
        drop(held);
        for asked in asked {
            timeout(DEADLINE, asked).await.expect("in time").expect("no panic").expect("its turn");
        }
        let order = order.lock();
        assert_eq!(order[..4], ["a", "b", "c", "a"]);
        assert_eq!((turns.free(), turns.0.lock().held.len()), (1, 0));
    }

    #[tokio::test]
    async fn one_caller_leaves_a_turn_to_others() {
        let turns = Turns::new(3);
        let _first = turns.turn("a").await.expect("a turn");
        let second = turns.turn("a").await.expect("a turn");
        let moment = Duration::from_millis(20);
        timeout(moment, turns.turn("a")).await.expect_err("it has all that one may have");
        timeout(DEADLINE, turns.turn("b")).await.expect("at once").expect("a turn");
        drop(second);
        // The request that was given up meanwhile has taken no turn.
        timeout(DEADLINE, turns.turn("a")).await.expect("its turn").expect("a turn");
    }
}
