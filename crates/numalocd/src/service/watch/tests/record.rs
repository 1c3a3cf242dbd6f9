use super::*;
use crate::dispatch::{Begin, RecordChange, RecordChanges};
use numaloc_api::value::{Workload, WorkloadId, WorkloadSpec};
use parking_lot::Mutex;
use std::time::SystemTime;

type WorkloadChange = RecordChange<Arc<Workload>, WorkloadId>;

fn present(id: &str) -> WorkloadChange {
    let spec = WorkloadSpec::new(WorkloadId::new(id).unwrap(), "/a");
    let workload = Workload::new(spec, String::new(), SystemTime::UNIX_EPOCH);
    WorkloadChange::Present(Arc::new(workload))
}

fn removed(id: &str) -> WorkloadChange {
    WorkloadChange::Removed(WorkloadId::new(id).unwrap())
}

/// Changes by their numbers, two of which are read at a time.
struct Known {
    last: watch::Sender<u64>,
    changes: Arc<Mutex<Vec<(u64, WorkloadChange)>>>,
}

impl Known {
    fn new(changes: Vec<(u64, WorkloadChange)>) -> Self {
        let last = changes.last().map_or(0, |(number, _)| *number);
        Self { last: watch::Sender::new(last), changes: Arc::new(Mutex::new(changes)) }
    }

    fn add(&self, number: u64, change: WorkloadChange) {
        self.changes.lock().push((number, change));
        self.last.send_replace(number);
    }

    fn watch(&self, after: Option<u64>) -> impl Watch<Answer = (WorkloadChange, String)> + use<> {
        let (known, last) = (Arc::clone(&self.changes), self.last.subscribe());
        let begin = Begin { last: self.last.subscribe(), after };
        RecordWatch::new(begin, move |seen| {
            let known = known.lock();
            let rest = known.iter().filter(|(number, _)| *number > seen).take(2);
            let told = |(number, change): &(u64, WorkloadChange)| {
                (*number, change.clone(), format!("r.{number}"))
            };
            let changes: Vec<_> = rest.map(told).collect();
            let all = changes.len() < 2;
            let seen = if all { *last.borrow() } else { changes[1].0 };
            let read = RecordChanges { changes, seen, token: format!("r.{seen}") };
            async move { Ok(read) }
        })
    }
}

/// The next changes in short, with their tokens.
async fn told(answers: &mut BoxStream<(WorkloadChange, String)>, count: usize) -> Vec<String> {
    let mut told = Vec::new();
    for _ in 0..count {
        let (change, token) = answers.next().await.unwrap().unwrap();
        told.push(match change {
            WorkloadChange::Present(workload) => format!("{token} +{}", workload.spec.id.id()),
            WorkloadChange::Removed(id) => format!("{token} -{}", id.id()),
            WorkloadChange::CaughtUp => format!("{token} all"),
        });
    }
    told
}

#[tokio::test(start_paused = true)]
async fn a_list_and_then_changes() {
    let changes = vec![(2, present("a")), (3, removed("b")), (4, present("c")), (5, present("d"))];
    let (around, known) = (Around::new(), Known::new(changes));
    let mut answers = around.stream(known.watch(None));
    // Workloads that were removed before are not reported.
    let expected = ["r.2 +a", "r.4 +c", "r.5 +d", "r.5 all"];
    assert_eq!(told(&mut answers, 4).await, expected);
    known.add(6, removed("a"));
    known.add(8, present("e"));
    assert_eq!(told(&mut answers, 2).await, ["r.6 -a", "r.8 +e"]);
    let more = tokio::time::timeout(Duration::from_secs(60), answers.next()).await;
    assert!(more.is_err(), "nothing has changed");
}

#[tokio::test(start_paused = true)]
async fn it_goes_on_after_a_change() {
    let changes = vec![(2, present("a")), (3, removed("b")), (4, present("c"))];
    let (around, known) = (Around::new(), Known::new(changes));
    let mut answers = around.stream(known.watch(Some(2)));
    assert_eq!(told(&mut answers, 3).await, ["r.3 -b", "r.4 +c", "r.4 all"]);
    let mut answers = around.stream(known.watch(Some(4)));
    assert_eq!(told(&mut answers, 1).await, ["r.4 all"]);
}

#[tokio::test(start_paused = true)]
async fn nothing_at_all_is_a_list_too() {
    let (around, known) = (Around::new(), Known::new(Vec::new()));
    let mut answers = around.stream(known.watch(None));
    assert_eq!(told(&mut answers, 1).await, ["r.0 all"]);
    known.add(1, present("a"));
    assert_eq!(told(&mut answers, 1).await, ["r.1 +a"]);
}
