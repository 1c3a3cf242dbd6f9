//! One look at the whole host, again and again, for all who watch it live.
//!
//! A thread looks as long as a client asks: however many do, the host is read once. The thread makes the snapshots, and
//! nothing is kept for a viewer but which processes it watches closely, and whether it has the present snapshot: a
//! viewer that has waits for the next one, because of each snapshot megabytes may have to be encoded.

use super::turns::caught;
use crate::refusal::Refusal;
use numaloc_core::{Identity, live::Snapshot};
use numaloc_host::{Roots, live::Live, topology};
use parking_lot::{Mutex, MutexGuard};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    thread,
    time::{Duration, Instant, SystemTime},
};
use tokio::{sync::watch, time::timeout};

/// CPU time that looking may use, in percent of one CPU.
const BUDGET_PERCENT: f64 = 2.0;
/// Time between two snapshots. The second one comes sooner, because the first one has little on it.
const PERIOD: Duration = Duration::from_secs(1);
const SECOND: Duration = Duration::from_millis(300);
/// Time between two turns of looking.
const TURN: Duration = Duration::from_millis(50);
/// Longest time that a viewer that has the present snapshot waits for the next one. Then it gets the present one again.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time for which looking continues after the last question.
const LASTS: Duration = Duration::from_secs(15);
/// Most processes that are watched closely for one caller, and for all.
const CLOSELY_EACH: usize = 4;
const CLOSELY: usize = 16;

/// The host at one moment.
#[derive(Clone, Debug)]
pub struct HostNow {
    pub snapshot: Snapshot,
    /// Time since looking began.
    pub up: Duration,
    /// The wall clock at that moment.
    pub time: SystemTime,
}

/// The result that viewers wait for; `None` before the first snapshot.
type Latest = Option<Result<Arc<HostNow>, Refusal>>;

/// Looks while a client asks. Clones share one look.
#[derive(Clone, Debug)]
pub struct Sampler(Arc<SharedFeed>);

#[derive(Debug)]
struct SharedFeed {
    roots: Roots,
    lasts: Duration,
    viewers: Mutex<Viewers>,
    shown: watch::Sender<Latest>,
}

/// The clients that watch, and the processes that they watch closely.
#[derive(Debug, Default)]
struct Viewers {
    /// When a client asked last; `None` if no thread looks.
    asked: Option<Instant>,
    /// In the order in which they were asked for last.
    closely: Vec<Closely>,
    /// Viewers that have the present snapshot.
    served: BTreeSet<String>,
    /// As [`Sampler::moved`] was called last.
    moved: BTreeMap<Identity, u64>,
}

/// A process that is watched closely.
#[derive(Clone, Debug)]
struct Closely {
    of: String,
    process: Identity,
    asked: Instant,
}

impl Viewers {
    /// The caller `of` watches this process closely. If it watches too many, it loses the one that it has not asked for
    /// longest.
    fn watch(&mut self, of: &str, process: Identity, now: Instant) {
        self.closely.retain(|each| each.of != of || each.process != process);
        let own = self.closely.iter().filter(|each| each.of == of).count();
        if own >= CLOSELY_EACH
            && let Some(first) = self.closely.iter().position(|each| each.of == of)
        {
            self.closely.remove(first);
        }
        if self.closely.len() >= CLOSELY {
            self.take_from_most(of);
        }
        if self.closely.len() < CLOSELY {
            self.closely.push(Closely { of: of.to_owned(), process, asked: now });
        }
    }

    /// The caller with most closely watched processes loses the one asked for longest ago, if `of` has fewer even with
    /// one more.
    fn take_from_most(&mut self, of: &str) {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        self.closely.iter().for_each(|each| *counts.entry(&each.of).or_default() += 1);
        let own = counts.get(of).copied().unwrap_or(0);
        let most = counts.values().copied().max().unwrap_or(0);
        let has_most = |each: &Closely| counts.get(each.of.as_str()) == Some(&most);
        let first = self.closely.iter().position(has_most).filter(|_| most > own + 1);
        if let Some(first) = first {
            self.closely.remove(first);
        }
    }

    /// The processes to watch closely; `None` if no client has asked for so long.
    fn wanted(&mut self, lasts: Duration, now: Instant) -> Option<BTreeSet<Identity>> {
        let is_recent = |asked: Instant| now.saturating_duration_since(asked) < lasts;
        self.closely.retain(|each| is_recent(each.asked));
        self.asked.filter(|&asked| is_recent(asked))?;
        Some(self.closely())
    }

    fn closely(&self) -> BTreeSet<Identity> {
        self.closely.iter().map(|each| each.process).collect()
    }
}

impl Sampler {
    /// A look at this host, which begins with the first question.
    pub fn new(roots: Roots) -> Self {
        Self::lasting(roots, LASTS)
    }

    fn lasting(roots: Roots, lasts: Duration) -> Self {
        let (viewers, shown) = (Mutex::default(), watch::Sender::new(None));
        Self(Arc::new(SharedFeed { roots, lasts, viewers, shown }))
    }

    /// The present snapshot; the next one, if the caller `of` has the present one already. Watches `process` closely.
    ///
    /// # Errors
    /// The host cannot be read, or there can be no thread.
    pub async fn ask(&self, of: &str, process: Option<Identity>) -> Result<Arc<HostNow>, Refusal> {
        let (mut shown, is_served) = self.begin(of, process)?;
        if is_served {
            // A look that hangs must not keep viewers waiting. The sender is there as long as `self` is.
            let _ = timeout(PATIENCE, shown.changed()).await;
        }
        let gone =
            |error: watch::error::RecvError| Refusal::Internal { message: error.to_string() };
        let shown = shown.wait_for(Option::is_some).await.map_err(gone)?.clone();
        let none = || Refusal::Internal { message: "nothing was seen".to_owned() };
        let now = shown.ok_or_else(none)??;
        self.0.viewers().served.insert(of.to_owned());
        Ok(now)
    }

    /// Bytes that jobs which have ended since looking began have moved of each process. Those of which that has changed are looked
    /// at next ([`Live::moved`]).
    pub fn moved(&self, moved: BTreeMap<Identity, u64>) {
        self.0.viewers().moved = moved;
    }

    /// Notes the question, and starts the thread if none looks. Gives back where snapshots come, and whether the caller
    /// has the present one.
    fn begin(
        &self,
        of: &str,
        process: Option<Identity>,
    ) -> Result<(watch::Receiver<Latest>, bool), Refusal> {
        let (mut viewers, now) = (self.0.viewers(), Instant::now());
        if let Some(process) = process {
            viewers.watch(of, process, now);
        }
        if viewers.asked.replace(now).is_some() {
            return Ok((self.0.shown.subscribe(), viewers.served.contains(of)));
        }
        self.0.shown.send_replace(None);
        let shown = self.0.shown.subscribe();
        let shared = self.0.clone();
        let thread = thread::Builder::new().name("live-view".to_owned());
        let started = thread.spawn(move || shared.run());
        started.map(|_| (shown, false)).map_err(|error| {
            viewers.asked = None;
            Refusal::Internal { message: format!("cannot start a thread: {error}") }
        })
    }
}

impl SharedFeed {
    fn viewers(&self) -> MutexGuard<'_, Viewers> {
        self.viewers.lock()
    }

    /// The thread. A failure is reported to all waiting viewers, and the next request tries again.
    fn run(&self) {
        if let Err(refusal) = caught(|| self.look()) {
            tracing::error!(%refusal, "the host cannot be watched live");
            let mut viewers = self.viewers();
            *viewers = Viewers::default();
            self.shown.send_replace(Some(Err(refusal)));
        }
    }

    fn look(&self) -> Result<(), Refusal> {
        let topology = topology::topology(&self.roots)?;
        let begin = Instant::now();
        let clock = move || begin.elapsed();
        let (pause, mut due, mut next) = (PERIOD / 2, Duration::ZERO, SECOND);
        let mut live = Live::new(&self.roots, topology, BUDGET_PERCENT, pause, Duration::ZERO)?;
        loop {
            if clock() >= due {
                // A viewer that waits for the first snapshot gets it, however long it took until here.
                let is_first = due.is_zero();
                let closely = if is_first { Some(self.viewers().closely()) } else { self.wanted() };
                let Some(closely) = closely else { return Ok(()) };
                live.watch(&closely);
                live.moved(self.viewers().moved.clone());
                live.refresh(&clock);
                live.work(&clock);
                let up = clock();
                let now = HostNow { snapshot: live.snapshot(up), up, time: SystemTime::now() };
                self.show(now);
                (due, next) = (up + next, PERIOD);
            }
            thread::sleep(TURN);
            live.work(&clock);
        }
    }

    /// Shows a snapshot that no viewer has yet.
    fn show(&self, now: HostNow) {
        let mut viewers = self.viewers();
        viewers.served.clear();
        self.shown.send_replace(Some(Ok(Arc::new(now))));
    }

    /// As [`Viewers::wanted`]. If no client asks any more, what was shown is forgotten, and the next question starts a
    /// thread.
    fn wanted(&self) -> Option<BTreeSet<Identity>> {
        let mut viewers = self.viewers();
        let wanted = viewers.wanted(self.lasts, Instant::now());
        if wanted.is_none() {
            *viewers = Viewers::default();
            self.shown.send_replace(None);
        }
        wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaloc_core::live::Seen;
    use numaloc_engine::fixture::Asleep;
    use numaloc_host::identify;

    const DEADLINE: Duration = Duration::from_secs(60);

    /// Asks until something is known.
    async fn until<T>(
        sampler: &Sampler,
        process: Option<Identity>,
        known: impl Fn(&HostNow) -> Option<T>,
    ) -> T {
        let begin = Instant::now();
        loop {
            let now = sampler.ask("uid:7", process).await.expect("this host can be read");
            if let Some(known) = known(&now) {
                return known;
            }
            assert!(begin.elapsed() < DEADLINE, "not known: {:?}", now.snapshot.unseen);
            tokio::time::sleep(TURN).await;
        }
    }

    async fn ended(sampler: &Sampler) {
        let begin = Instant::now();
        while sampler.0.viewers().asked.is_some() {
            assert!(begin.elapsed() < DEADLINE, "nobody asks, and it continues");
            tokio::time::sleep(TURN).await;
        }
    }

    #[tokio::test]
    async fn this_host_is_seen_and_a_process_closely() {
        let asleep = Asleep::new();
        let roots = Roots::default();
        let found = identify(&roots, [asleep.pid()]).expect("it is there");
        let (_, process) = found.into_iter().next().expect("one");
        let sampler = Sampler::new(roots);
        let seen = until(&sampler, Some(process), |now| {
            let all = &now.snapshot.processes;
            let row = all.iter().find(|row| row.identity == process)?;
            (row.seen != Seen::Never).then(|| (row.comm.clone(), row.seen.clone()))
        })
        .await;
        assert_eq!(seen.0, "sleep");
        if let Seen::Pages { nodes, .. } = seen.1 {
            assert!(nodes.values().sum::<u64>() > 0, "{nodes:?}");
        }
        let threads = until(&sampler, Some(process), |now| {
            let details = &now.snapshot.details;
            let detail = details.iter().find(|detail| detail.identity == process)?;
            (!detail.threads.is_empty()).then(|| detail.threads.clone())
        })
        .await;
        assert_eq!(threads.iter().map(|thread| thread.tid).collect::<Vec<_>>(), [asleep.pid()]);
        let now = sampler.ask("uid:8", None).await.expect("it looks");
        assert!(!now.snapshot.nodes.is_empty() && now.up >= now.snapshot.used);
    }

    /// A viewer that asks repeatedly gets each snapshot once. The clock is paused: it moves on while a viewer waits.
    #[tokio::test(start_paused = true)]
    async fn a_viewer_that_has_the_snapshot_waits_for_the_next() {
        let sampler = Sampler::new(Roots::default());
        // As if a thread looked.
        sampler.0.viewers().asked = Some(Instant::now());
        let snapshot = |seconds| HostNow {
            snapshot: Snapshot::default(),
            up: Duration::from_secs(seconds),
            time: SystemTime::UNIX_EPOCH,
        };
        let ask = async |of| sampler.ask(of, None).await.expect("it is seen").up.as_secs();
        sampler.0.show(snapshot(1));
        let begin = tokio::time::Instant::now();
        assert_eq!((ask("a").await, ask("b").await), (1, 1));
        assert_eq!(begin.elapsed(), Duration::ZERO, "nobody has waited");
        let next = async {
            tokio::task::yield_now().await;
            sampler.0.show(snapshot(2));
        };
        assert_eq!(tokio::join!(ask("a"), ask("a"), ask("c"), next), (2, 2, 1, ()));
        assert_eq!(begin.elapsed(), Duration::ZERO, "they have waited for the snapshot alone");
        // A look that hangs does not block viewers forever.
        assert_eq!((ask("b").await, ask("b").await), (2, 2));
        assert_eq!(begin.elapsed(), PATIENCE);
    }

    #[tokio::test]
    async fn it_ends_when_nobody_asks_and_begins_again() {
        let sampler = Sampler::lasting(Roots::default(), Duration::from_millis(100));
        assert!(sampler.0.viewers().asked.is_none(), "nobody has asked yet");
        for _ in 0..2 {
            let other = sampler.clone();
            let (first, second) = tokio::join!(sampler.ask("a", None), other.ask("b", None));
            assert!(!first.expect("seen").snapshot.nodes.is_empty());
            second.expect("seen");
            ended(&sampler).await;
            assert!(sampler.0.shown.borrow().is_none(), "what was seen is forgotten");
        }
    }

    #[tokio::test]
    async fn a_host_that_cannot_be_read_is_an_error_each_time() {
        let sys = tempfile::tempdir().expect("a directory");
        let nodes = sys.path().join("devices/system/node");
        std::fs::create_dir_all(&nodes).expect("directories");
        std::fs::write(nodes.join("online"), "x").expect("a file");
        let sampler = Sampler::new(Roots { sys: sys.path().into(), ..Roots::default() });
        for _ in 0..2 {
            let error = sampler.ask("a", None).await.expect_err("nonsense");
            assert!(error.to_string().contains("node/online"), "{error}");
            ended(&sampler).await;
        }
    }

    #[test]
    fn few_processes_are_watched_closely_and_not_for_long() {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let process = |pid| Identity { pid, start_time: 1 };
        let pids = |viewers: &mut Viewers, seconds| {
            let wanted = viewers.wanted(LASTS, at(seconds));
            wanted.map(|wanted| wanted.into_iter().map(|each| each.pid).collect::<Vec<_>>())
        };
        let mut viewers = Viewers::default();
        assert_eq!(pids(&mut viewers, 0), None);
        viewers.asked = Some(at(0));
        for pid in [1, 2, 3, 4, 1, 5] {
            viewers.watch("a", process(pid), at(0));
        }
        assert_eq!(pids(&mut viewers, 0), Some(vec![1, 3, 4, 5]), "2 was asked for longest ago");
        viewers.watch("b", process(3), at(10));
        assert_eq!(pids(&mut viewers, 14), Some(vec![1, 3, 4, 5]));
        assert_eq!(pids(&mut viewers, 15), None);
        viewers.asked = Some(at(16));
        assert_eq!(pids(&mut viewers, 16), Some(vec![3]));
        for caller in 0..10 {
            for pid in 0..4 {
                viewers.watch(&format!("c{caller}"), process(100 * caller + pid), at(16));
            }
        }
        assert_eq!(viewers.closely.len(), CLOSELY);
    }

    /// Few callers must not keep all others out.
    #[test]
    fn callers_share_what_can_be_watched_closely() {
        let now = Instant::now();
        let mut viewers = Viewers::default();
        let ask = |viewers: &mut Viewers, caller: usize| {
            for pid in 0..4 {
                let pid = i32::try_from(10 * caller + pid).expect("small");
                viewers.watch(&format!("c{caller}"), Identity { pid, start_time: 1 }, now);
            }
        };
        (0..4).for_each(|caller| ask(&mut viewers, caller));
        let count = |viewers: &Viewers, caller: usize| {
            let name = format!("c{caller}");
            viewers.closely.iter().filter(|each| each.of == name).count()
        };
        assert_eq!((0..4).map(|caller| count(&viewers, caller)).collect::<Vec<_>>(), [4; 4]);
        viewers.watch("root", Identity { pid: 999, start_time: 1 }, now);
        assert!(viewers.closely().iter().any(|process| process.pid == 999));
        // Callers that ask again and again do not take it from callers that have less.
        for _ in 0..3 {
            (0..8).for_each(|caller| ask(&mut viewers, caller));
            assert!(viewers.closely().iter().any(|process| process.pid == 999));
        }
        assert!((0..8).all(|caller| (1..=3).contains(&count(&viewers, caller))));
        assert_eq!(viewers.closely.len(), CLOSELY);
    }
}
