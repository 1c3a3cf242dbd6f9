use super::*;
use numaloc_api::{
    encoded::Encoded,
    event_number, v1,
    value::{Event, EventType, JobId},
};
use parking_lot::Mutex;
use prost::Message;
use std::time::SystemTime;

fn event(number: u64) -> Encoded<Event> {
    let (kind, time) = (EventType::Completed, SystemTime::UNIX_EPOCH);
    let job = Some(JobId::numbered(number));
    Encoded::from(&Event { job, ..Event::new(number, kind, time, String::new()) })
}

fn number(event: &Encoded<Event>) -> u64 {
    event_number(&v1::Event::decode(event.as_ref()).unwrap().name).unwrap()
}

/// A store of events, of which only those with even numbers match the filter. It reads ten at a time and notes what it
/// was asked.
struct Stored {
    last: watch::Sender<u64>,
    asked: Arc<Mutex<Vec<u64>>>,
}

impl Stored {
    fn new(last: u64) -> Self {
        Self { last: watch::Sender::new(last), asked: Arc::default() }
    }

    fn watch(&self, after: Option<u64>) -> impl Watch<Answer = Encoded<Event>> + use<> {
        let (asked, last) = (Arc::clone(&self.asked), self.last.subscribe());
        EventWatch::new(self.last.subscribe(), after, move |seen| {
            asked.lock().push(seen);
            let looked = (seen + 10).min(*last.borrow());
            let events = (seen + 1..=looked).filter(|number| number % 2 == 0).map(event);
            let events = events.collect();
            async move { Ok((events, looked)) }
        })
    }
}

async fn numbers(answers: &mut BoxStream<Encoded<Event>>, count: usize) -> Vec<u64> {
    let mut numbers = Vec::new();
    for _ in 0..count {
        numbers.push(number(&answers.next().await.unwrap().unwrap()));
    }
    numbers
}

#[tokio::test(start_paused = true)]
async fn from_now_on() {
    let (around, stored) = (Around::new(), Stored::new(20));
    let mut answers = around.stream(stored.watch(None));
    // The watch begins with the call, not with the first answer that is taken.
    stored.last.send_replace(24);
    assert_eq!(numbers(&mut answers, 2).await, [22, 24]);
    assert!(is_silent(&mut answers).await);
    assert_eq!(*stored.asked.lock(), [20]);
}

#[tokio::test(start_paused = true)]
async fn from_a_stored_one_on() {
    let (around, stored) = (Around::new(), Stored::new(20));
    let mut answers = around.stream(stored.watch(Some(15)));
    assert_eq!(numbers(&mut answers, 3).await, [16, 18, 20]);
    assert!(is_silent(&mut answers).await);
    // First an event that does not match, then one that does.
    stored.last.send_replace(21);
    assert!(is_silent(&mut answers).await);
    stored.last.send_replace(22);
    assert_eq!(numbers(&mut answers, 1).await, [22]);
    let mut later = around.stream(stored.watch(Some(u64::MAX)));
    assert!(is_silent(&mut later).await);
}

#[tokio::test(start_paused = true)]
async fn a_slow_client_misses_nothing_and_has_nothing_queued() {
    let (around, stored) = (Around::new(), Stored::new(0));
    let mut answers = around.stream(stored.watch(None));
    assert!(is_silent(&mut answers).await);
    for last in 1..=1000 {
        stored.last.send_replace(last);
    }
    assert_eq!(numbers(&mut answers, 5).await, [2, 4, 6, 8, 10]);
    // The client has taken events of one reading, and there has been no other.
    assert_eq!(*stored.asked.lock(), [0]);
    let rest = numbers(&mut answers, 495).await;
    assert_eq!((rest[0], rest[494]), (12, 1000));
    assert!(rest.is_sorted());
    drop(stored.last);
}

#[tokio::test(start_paused = true)]
async fn a_dispatcher_that_stops_ends_it() {
    let (around, stored) = (Around::new(), watch::Sender::new(3));
    let read = async |seen| Ok((vec![event(seen + 1)], seen + 1));
    let mut answers = around.stream(EventWatch::new(stored.subscribe(), Some(0), read));
    drop(stored);
    assert_eq!(numbers(&mut answers, 3).await, [1, 2, 3]);
    assert_eq!(end(&mut answers).await, Code::Unavailable);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_gets_no_further_is_not_asked_over_and_over() {
    let (around, stored) = (Around::new(), watch::Sender::new(9));
    let asked = Arc::new(Mutex::new(0));
    let count = Arc::clone(&asked);
    let read = move |seen| {
        *count.lock() += 1;
        async move { Ok((Vec::new(), seen)) }
    };
    let mut answers = around.stream(EventWatch::new(stored.subscribe(), Some(0), read));
    assert!(is_silent(&mut answers).await);
    assert_eq!(*asked.lock(), 1);
}
