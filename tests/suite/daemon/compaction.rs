//! A target node whose free memory is in pieces that the kernel cannot put together. Each job would have it compacted.

use super::*;
use crate::{
    app::{FEW_WORDS, Layout},
    room::blocks::{COMPACT, blocks, fragmented},
    settings::Setting,
    truth::{free_bytes, high_watermark_bytes},
};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use numaloc_sys::fixture::skipped;

const JOBS: usize = 4;
/// Huge pages of each job.
const SIZE: u64 = 320 * MIB;
/// Bytes moved once some of its huge pages have: all others come to less.
const SOME: u64 = 12 * MIB;
/// Least time between two compactions of a node.
const EVERY: Duration = Duration::from_secs(60);

/// Counts who has the kernel compact node 0.
struct Compactions {
    events: Inotify,
    count: u64,
}

impl Compactions {
    fn from_now() -> Self {
        let events = Inotify::init(InitFlags::IN_NONBLOCK).expect("inotify");
        // Two events that are alike would be shown as one if they followed each other.
        let writes = AddWatchFlags::IN_MODIFY | AddWatchFlags::IN_CLOSE_WRITE;
        events.add_watch(COMPACT, writes).expect("it is there");
        Self { events, count: 0 }
    }

    fn so_far(&mut self) -> u64 {
        while let Ok(events) = self.events.read_events() {
            let writes =
                events.iter().filter(|event| event.mask.contains(AddWatchFlags::IN_MODIFY));
            self.count += writes.count() as u64;
        }
        self.count
    }
}

#[test]
fn a_node_is_compacted_once_a_minute_by_all_jobs_together() {
    if !Path::new(COMPACT).exists() {
        skipped("this kernel cannot compact");
        return;
    }
    let _settings = (Setting::still_host(), Setting::no_compaction());
    // Pages that are locked stay where they are.
    let _locked = Setting::set("/proc/sys/vm/compact_unevictable_allowed", "0");
    fs::write("/proc/sys/vm/drop_caches", "3").expect("root");
    let pieces = fragmented("mlock");
    let daemon = Daemon::start();
    let client = daemon.client();
    let (begin, mut compactions, mut told) = (Instant::now(), Compactions::from_now(), 0);
    for number in 0..JOBS {
        let free = free_bytes(0).saturating_sub(high_watermark_bytes(0));
        println!("{} MiB free, {} in blocks", free / MIB, blocks() / MIB);
        assert!(blocks() < SIZE.min(free / 2), "the scene: {free} free, {} in blocks", blocks());
        let app = Layout::remote(&[&format!("thp:{SIZE}:{FEW_WORDS}")]).load("idle").start("jobs");
        let mut request = request(app.pid(), v1::Limits::default());
        let policy = v1::Policy { compact: v1::Compact::Always.into(), ..v1::Policy::default() };
        request.spec.as_mut().expect("a spec").policy = Some(policy);
        let name = client.try_create(request).expect("it is taken").name;
        // Its wait for huge pages is over once some of them have moved.
        let moved = |job: v1::Job| job.progress.map_or(0, |progress| progress.moved_bytes as u64);
        until("huge pages move", || moved(client.job(&name)) >= SOME);
        client.cancel(&name).expect("it has more to move");
        let job = client.reaches(&name, v1::JobState::Cancelled);
        told += job.outcome.and_then(|outcome| outcome.calls).map_or(0, |calls| calls.compactions);
        let (done, took) = (compactions.so_far(), begin.elapsed());
        println!("job {number}: {done} compactions, {told} told of, after {took:?}");
        let most = 1 + took.as_secs() / EVERY.as_secs();
        assert!(
            (1..=most).contains(&done),
            "{done} compactions in {took:?} when job {number} ended"
        );
        assert_eq!(told as u64, done);
    }
    drop(pieces);
}
