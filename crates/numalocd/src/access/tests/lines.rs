//! Tests of how many calls are answered at once.

use super::{client, config, server::access};
use crate::{
    access::{
        lines::{CallKind, Lines},
        rules::RULES,
    },
    accounts::{Client, Cohort},
    config::{Calls, Config},
    refusal::Refusal,
};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Bytes, Frame};
use std::{convert::Infallible, sync::Arc, time::Duration};
use tokio::time::{Instant, timeout};
use tonic::{Code, Status, body::Body, transport::server::TcpConnectInfo};
use tower::{Layer, ServiceExt, service_fn};

const MOMENT: Duration = Duration::from_millis(1);

#[tokio::test(start_paused = true)]
async fn a_caller_waits_for_its_own_calls_and_nobody_elses() {
    let lines = Lines::default();
    let mut turns = Vec::new();
    for _ in 0..CallKind::List.at_once() {
        turns.push(lines.turn(&client("a"), CallKind::List).await.expect("a turn"));
    }
    timeout(MOMENT, lines.turn(&client("a"), CallKind::List))
        .await
        .expect_err("one too many at once");
    let quick = timeout(MOMENT, lines.turn(&client("a"), CallKind::Read)).await;
    quick.expect("a quick call waits for a list").expect("a turn");
    let other = timeout(MOMENT, lines.turn(&client("b"), CallKind::List)).await;
    other.expect("another caller waits").expect("a turn");
    turns.pop();
    let next = timeout(MOMENT, lines.turn(&client("a"), CallKind::List)).await;
    next.expect("its turn has come").expect("a turn");
}

#[tokio::test(start_paused = true)]
async fn a_line_has_an_end() {
    let lines = Lines::default();
    let mut turns = Vec::new();
    for _ in 0..CallKind::List.at_once() {
        turns.push(lines.turn(&client("a"), CallKind::List).await.expect("a turn"));
    }
    let waiting: Vec<_> = (0..1024)
        .map(|_| {
            let lines = lines.clone();
            tokio::spawn(async move { drop(lines.turn(&client("a"), CallKind::List).await) })
        })
        .collect();
    tokio::time::sleep(MOMENT).await;
    let refused = lines.turn(&client("a"), CallKind::List).await;
    assert!(matches!(&refused, Err(Refusal::Quota { limit: 1024, .. })), "{refused:?}");
    // Calls that are given up leave the line.
    waiting.iter().for_each(tokio::task::JoinHandle::abort);
    tokio::time::sleep(MOMENT).await;
    timeout(MOMENT, lines.turn(&client("a"), CallKind::List)).await.expect_err("it may wait again");
}

#[tokio::test]
async fn who_calls_no_more_is_forgotten() {
    let lines = Lines::default();
    let _kept = lines.turn(&client("kept"), CallKind::Change).await.expect("a turn");
    for number in 0..10_000 {
        drop(lines.turn(&client(&number.to_string()), CallKind::Read).await.expect("a turn"));
        assert!(lines.remembered() <= 65, "{} after {number}", lines.remembered());
    }
}

/// A request for a list.
fn list() -> http::Request<Body> {
    let mut request = http::Request::new(Body::empty());
    *request.uri_mut() = "/numaloc.v1.MigrationService/ListJobs".parse().expect("a path");
    // Each client at the plain port is a viewer.
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
    for _ in 0..CallKind::List.at_once() {
        untaken.push(service.clone().oneshot(list()).await.expect("an answer"));
    }
    let more = timeout(MOMENT, service.clone().oneshot(list())).await;
    more.expect_err("a client that reads nothing has as much as it likes");
    untaken.pop();
    let more = timeout(MOMENT, service.clone().oneshot(list())).await;
    untaken.push(more.expect("its turn has come").expect("an answer"));
    // A frame that has been handed on but not written still holds its turn.
    let frame = untaken.remove(0).into_body().frame().await.expect("a frame").expect("no error");
    let unwritten = frame.into_data().expect("data");
    let more = timeout(MOMENT, service.clone().oneshot(list())).await;
    more.expect_err("what has not been written does not count");
    assert_eq!(unwritten, "a page");
    drop(unwritten);
    let more = timeout(MOMENT, service.oneshot(list())).await;
    more.expect("its turn has come").expect("an answer");
}

/// This holds however large a flow-control window the client has opened.
#[tokio::test(start_paused = true)]
async fn a_stream_makes_the_next_message_when_the_last_is_written() {
    let (access, _sender) = access(config(Vec::new()));
    let service = access.layer(service_fn(async |_: http::Request<Body>| {
        let frame = |text: &'static str| Ok::<_, Infallible>(Frame::data(Bytes::from(text)));
        let frames = tokio_stream::iter(["a", "b"].map(frame));
        Ok::<_, Infallible>(http::Response::new(Body::new(StreamBody::new(frames))))
    }));
    let mut request = list();
    *request.uri_mut() = "/numaloc.v1.EventService/WatchEvents".parse().expect("a path");
    let mut body = service.oneshot(request).await.expect("an answer").into_body();
    let first = body.frame().await.expect("a frame").expect("no error").into_data();
    timeout(MOMENT, body.frame()).await.expect_err("two are kept for a slow client");
    drop(first);
    let second = body.frame().await.expect("a frame").expect("no error").into_data();
    assert_eq!(second.expect("data"), "b");
}

#[tokio::test(start_paused = true)]
async fn all_callers_together_leave_some_to_root() {
    let lines = Lines::default();
    let mut turns = Vec::new();
    for number in 0..CallKind::List.over_all() {
        let name = format!("uid:{}", 70_000 + number / CallKind::List.at_once());
        let turn = timeout(MOMENT, lines.turn(&client(&name), CallKind::List)).await;
        turns.push(turn.expect("there is room").expect("a turn"));
    }
    timeout(MOMENT, lines.turn(&client("cert:a"), CallKind::List))
        .await
        .expect_err("all are taken");
    timeout(MOMENT, lines.turn(&client("cert:a"), CallKind::Read))
        .await
        .expect("others")
        .expect("a turn");
    for _ in 0..2 * CallKind::List.at_once() {
        let turn = timeout(MOMENT, lines.turn(&client("uid:0"), CallKind::List)).await;
        turns.push(turn.expect("root waits for others").expect("a turn"));
    }
    timeout(MOMENT, lines.turn(&client("uid:0"), CallKind::List))
        .await
        .expect_err("it has its share");
    turns.remove(0);
    let next = timeout(MOMENT, lines.turn(&client("cert:a"), CallKind::List)).await;
    next.expect("its turn has come").expect("a turn");
}

/// A user with many user ids is many callers with one grant. The members of a group have half of all turns together.
#[tokio::test(start_paused = true)]
async fn members_of_one_group_leave_turns_to_others() {
    for kind in [
        CallKind::Read,
        CallKind::List,
        CallKind::Advice,
        CallKind::Change,
        CallKind::Bulk,
        CallKind::Stream,
    ] {
        let lines = Lines::default();
        let member =
            |uid: usize| Client { cohort: Some(Cohort::Group(8)), ..client(&format!("uid:{uid}")) };
        let mut turns = Vec::new();
        for number in 0..kind.over_all() / 2 {
            let turn = timeout(MOMENT, lines.turn(&member(100_000 + number), kind)).await;
            turns.push(turn.expect("there is room").expect("a turn"));
        }
        timeout(MOMENT, lines.turn(&member(200_000), kind)).await.expect_err("the group has half");
        let own = timeout(MOMENT, lines.turn(&client("uid:70000"), kind)).await;
        own.expect("another waits for the group").expect("a turn");
        turns.pop();
        let next = timeout(MOMENT, lines.turn(&member(200_000), kind)).await;
        next.expect("its turn has come").expect("a turn");
    }
}

/// A stuck call is given up. A stream continues until its client ends it.
#[tokio::test(start_paused = true)]
async fn calls_end_in_time() {
    let (access, _sender) = access(config(Vec::new()));
    let service = access.layer(service_fn(async |_: http::Request<Body>| {
        std::future::pending::<Result<http::Response<Body>, Infallible>>().await
    }));
    let day = Duration::from_secs(24 * 3600);
    let mut seen = 0;
    for rule in RULES {
        let mut request = list();
        *request.uri_mut() = rule.path.parse().expect("a path");
        if rule.is_change() {
            continue;
        }
        seen += 1;
        let answer = timeout(day, service.clone().oneshot(request)).await;
        match rule.kind.deadline(&Calls::default()) {
            Some(_) => {
                let answer = answer.expect("in time").expect("an answer");
                let code = answer.headers().get("grpc-status").expect("a status");
                assert_eq!(code, &(Code::DeadlineExceeded as i32).to_string(), "{}", rule.path);
            }
            None => drop(answer.expect_err("it continues")),
        }
    }
    assert!(seen > 10, "{seen}");
    for kind in [CallKind::Change, CallKind::Bulk] {
        assert!(kind.deadline(&Calls::default()).is_some(), "a change may be stuck, too");
    }
}

/// Each call has the time that the configuration says when it comes.
#[tokio::test(start_paused = true)]
async fn a_reload_changes_how_long_calls_may_take() {
    let (access, sender) = access(config(Vec::new()));
    let service = access.layer(service_fn(async |_: http::Request<Body>| {
        std::future::pending::<Result<http::Response<Body>, Infallible>>().await
    }));
    let read = || {
        let mut request = list();
        *request.uri_mut() = "/numaloc.v1.MigrationService/GetJob".parse().expect("a path");
        request
    };
    for (timeout, long_timeout) in [(30, 120), (2, 7), (9, 3)] {
        let [timeout, long_timeout] = [timeout, long_timeout].map(Duration::from_secs);
        if timeout != Calls::default().timeout {
            let calls = Calls { timeout, long_timeout, ..Calls::default() };
            sender.send(Arc::new(Config { calls, ..Config::default() })).expect("it listens");
        }
        for (request, limit) in [(read(), timeout), (list(), long_timeout)] {
            let begin = Instant::now();
            let answer = service.clone().oneshot(request).await.expect("an answer");
            let status = Status::from_header_map(answer.headers()).expect("a status");
            assert_eq!(status.code(), Code::DeadlineExceeded, "{status}");
            let said = format!("given up after {limit:?};");
            assert!(status.message().starts_with(&said), "{status}");
            let took = begin.elapsed();
            assert!(took >= limit && took < limit + Duration::from_secs(1), "{took:?}");
        }
    }
}
