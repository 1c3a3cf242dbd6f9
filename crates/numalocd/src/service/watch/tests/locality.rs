use super::*;
use std::sync::atomic::{AtomicU32, Ordering};

const INTERVAL: Duration = Duration::from_secs(10);

/// Readings that take a second each and are counted; the fifth finds no target.
fn readings(count: &Arc<AtomicU32>) -> impl Watch<Answer = u32> + use<> {
    let count = Arc::clone(count);
    LocalityWatch::new(INTERVAL, move || {
        let number = count.fetch_add(1, Ordering::Relaxed) + 1;
        async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            match number {
                5 => Err(Refusal::TargetNotFound { message: "no process 7".to_owned() }),
                _ => Ok(number),
            }
        }
    })
}

#[tokio::test(start_paused = true)]
async fn at_once_and_then_at_the_interval_until_the_target_is_gone() {
    let (around, count) = (Around::new(), Arc::default());
    let mut answers = around.stream(readings(&count));
    assert_eq!(wait(&mut answers).await, (1, Duration::from_secs(1)));
    for number in 2..5 {
        assert_eq!(wait(&mut answers).await, (number, INTERVAL + Duration::from_secs(1)));
    }
    assert_eq!(end(&mut answers).await, Code::NotFound);
    assert_eq!(around.accounts.held(Resource::Watches), 0);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_read_while_a_client_is_slow() {
    let (around, count) = (Around::new(), Arc::default());
    let mut answers = around.stream(readings(&count));
    wait(&mut answers).await;
    tokio::time::sleep(100 * INTERVAL).await;
    assert_eq!(count.load(Ordering::Relaxed), 1);
    // The next reading is due at once. Missed readings are not made up for.
    assert_eq!(wait(&mut answers).await, (2, Duration::from_secs(1)));
    assert_eq!(wait(&mut answers).await, (3, INTERVAL + Duration::from_secs(1)));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_ends_the_reading() {
    let (around, count) = (Around::new(), Arc::default());
    let mut answers = around.stream(readings(&count));
    wait(&mut answers).await;
    let within = timeout(INTERVAL + Duration::from_millis(500), answers.next()).await;
    assert!(within.is_err() && count.load(Ordering::Relaxed) == 2);
    drop(answers);
    assert_eq!(around.accounts.held(Resource::Watches), 0);
    tokio::time::sleep(100 * INTERVAL).await;
    assert_eq!(count.load(Ordering::Relaxed), 2);
}
