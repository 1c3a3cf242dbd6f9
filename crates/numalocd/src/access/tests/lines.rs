//! Calls of one caller at once.

use super::{config, server::access};
use crate::{
    access::lines::{Kind, Lines},
    dispatch::Refusal,
};
use std::{convert::Infallible, time::Duration};
use tokio::time::timeout;
use tonic::{body::Body, transport::server::TcpConnectInfo};
use tower::{Layer, ServiceExt, service_fn};

const MOMENT: Duration = Duration::from_millis(1);

#[tokio::test(start_paused = true)]
async fn a_caller_waits_for_its_own_calls_and_nobody_elses() {
    let lines = Lines::default();
    let mut turns = Vec::new();
    for _ in 0..Kind::List.at_once() {
        turns.push(lines.turn("a", Kind::List).await.expect("a turn"));
    }
    timeout(MOMENT, lines.turn("a", Kind::List)).await.expect_err("one too many at once");
    let quick = timeout(MOMENT, lines.turn("a", Kind::Read)).await;
    quick.expect("a quick call waits for a list").expect("a turn");
    let other = timeout(MOMENT, lines.turn("b", Kind::List)).await;
    other.expect("another caller waits").expect("a turn");
    turns.pop();
    let next = timeout(MOMENT, lines.turn("a", Kind::List)).await;
    next.expect("its turn has come").expect("a turn");
}

#[tokio::test(start_paused = true)]
async fn a_line_has_an_end() {
    let lines = Lines::default();
    let mut turns = Vec::new();
    for _ in 0..Kind::List.at_once() {
        turns.push(lines.turn("a", Kind::List).await.expect("a turn"));
    }
    let waiting: Vec<_> = (0..1024)
        .map(|_| {
            let lines = lines.clone();
            tokio::spawn(async move { drop(lines.turn("a", Kind::List).await) })
        })
        .collect();
    tokio::time::sleep(MOMENT).await;
    let refused = lines.turn("a", Kind::List).await;
    assert!(matches!(&refused, Err(Refusal::Quota { limit: 1024, .. })), "{refused:?}");
    // Those that give up leave the line.
    waiting.iter().for_each(tokio::task::JoinHandle::abort);
    tokio::time::sleep(MOMENT).await;
    timeout(MOMENT, lines.turn("a", Kind::List)).await.expect_err("it may wait again");
}

#[tokio::test]
async fn who_calls_no_more_is_forgotten() {
    let lines = Lines::default();
    let _kept = lines.turn("kept", Kind::Change).await.expect("a turn");
    for number in 0..10_000 {
        drop(lines.turn(&number.to_string(), Kind::Read).await.expect("a turn"));
        assert!(lines.remembered() <= 65, "{} after {number}", lines.remembered());
    }
}

/// A list that its client asks for.
fn list() -> http::Request<Body> {
    let mut request = http::Request::new(Body::empty());
    *request.uri_mut() = "/numaloc.v1.MigrationService/ListJobs".parse().expect("a path");
    // Everybody at the plain port is a viewer.
    request.extensions_mut().insert(TcpConnectInfo { local_addr: None, remote_addr: None });
    request
}

#[tokio::test(start_paused = true)]
async fn an_answer_counts_until_it_is_taken() {
    let (access, _sender) = access(config(Vec::new()));
    let service = access.layer(service_fn(async |_: http::Request<Body>| {
        let body = Body::new("a page".to_owned());
        Ok::<_, Infallible>(http::Response::new(body))
    }));
    let mut untaken = Vec::new();
    for _ in 0..Kind::List.at_once() {
        untaken.push(service.clone().oneshot(list()).await.expect("an answer"));
    }
    let more = timeout(MOMENT, service.clone().oneshot(list())).await;
    more.expect_err("a client that reads nothing has as much as it likes");
    untaken.pop();
    let more = timeout(MOMENT, service.oneshot(list())).await;
    more.expect("its turn has come").expect("an answer");
}
