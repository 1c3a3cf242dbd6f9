//! Requests that are not there as a whole.

use super::{config, grant, server::access};
use crate::{
    access::{UnixPeer, rules::REQUEST_MAX},
    accounts::Resource,
    config::{Config, Grantee, Role},
};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Frame};
use std::{convert::Infallible, sync::Arc, time::Duration};
use tokio::{task::JoinSet, time::Instant};
use tokio_stream::StreamExt;
use tonic::{Code, Status, body::Body};
use tonic_types::StatusExt;
use tower::{Layer, Service, ServiceExt, service_fn};

const WATCH: &str = "/numaloc.v1.LocalityService/WatchLocality";
const SMALL: &str = "/numaloc.v1.MigrationService/WatchJob";
const GET: &str = "/numaloc.v1.MigrationService/GetJob";
const LIST: &str = "/numaloc.v1.MigrationService/ListJobs";

/// Bytes that one client may have under way.
const EACH: usize = 16 << 20;

/// The piece that requests consist of.
static PIECE: [u8; 16 << 10] = [b'a'; 16 << 10];

/// Members of a group, and users with grants of their own, all of them viewers.
const GROUP: u32 = 7_000;
const ALONE: [u32; 6] = [8_000, 8_001, 8_002, 8_003, 8_004, 8_005];

fn viewers() -> Arc<Config> {
    let alone = ALONE.map(|uid| grant(Grantee::Uid(uid), Role::Viewer));
    config([grant(Grantee::Gid(GROUP), Role::Viewer)].into_iter().chain(alone).collect())
}

/// A request of which `sent` bytes come, of a message that is announced with `announced`. It ends only if `ends`.
fn request(uid: u32, path: &str, announced: usize, sent: usize, ends: bool) -> http::Request<Body> {
    let announced = u32::try_from(announced).expect("it fits").to_be_bytes();
    let prefix = Bytes::from([&[0][..], &announced].concat());
    let pieces = std::iter::repeat_n(PIECE.len(), sent / PIECE.len()).chain([sent % PIECE.len()]);
    let pieces = pieces.map(|len| Bytes::from_static(&PIECE[..len]));
    let frames = [prefix].into_iter().chain(pieces);
    let frames = frames.map(|bytes| Ok::<_, Infallible>(Frame::data(bytes)));
    let frames = tokio_stream::iter(frames);
    let body = if ends {
        Body::new(StreamBody::new(frames))
    } else {
        Body::new(StreamBody::new(frames.chain(tokio_stream::pending())))
    };
    let mut request = http::Request::new(body);
    *request.uri_mut() = path.parse().expect("a path");
    let groups = if ALONE.contains(&uid) { vec![uid] } else { vec![GROUP] };
    request.extensions_mut().insert(UnixPeer::user(uid, &groups));
    request
}

fn whole(uid: u32, path: &str) -> http::Request<Body> {
    request(uid, path, 3, 3, true)
}

/// Reads the request, and answers with its size.
fn service()
-> impl Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible, Future: Send>
+ Clone
+ Send
+ 'static {
    service_fn(async |request: http::Request<Body>| {
        let read = request.into_body().collect().await.expect("it is whole").to_bytes().len();
        Ok::<_, Infallible>(http::Response::new(Body::new(read.to_string())))
    })
}

/// The first message of an answer. A stream makes no more of them until that has been dropped.
async fn answered(answer: http::Response<Body>) -> Result<String, Status> {
    if let Some(status) = Status::from_header_map(answer.headers()) {
        return Err(status);
    }
    let frame = answer.into_body().frame().await.expect("a message")?;
    let bytes = frame.into_data().expect("data");
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Begins calls whose requests stop after the first half. Returns the calls that still wait, and the number refused.
async fn half<S>(
    service: &S,
    calls: impl Iterator<Item = (u32, &'static str)>,
) -> (JoinSet<()>, usize)
where
    S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
{
    let mut waiting = JoinSet::new();
    for (uid, path) in calls {
        let call = service.clone().oneshot(request(uid, path, REQUEST_MAX, REQUEST_MAX - 1, false));
        waiting.spawn(async move {
            let answer = call.await.expect("an answer");
            let status = answered(answer).await.expect_err("it was never whole");
            assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
            let info = status.get_details_error_info().expect("an ErrorInfo");
            assert_eq!(info.reason, "QUOTA_EXCEEDED");
        });
    }
    tokio::time::sleep(Duration::from_millis(1)).await;
    let mut refused = 0;
    while let Some(done) = waiting.try_join_next() {
        done.expect("it was refused for its size");
        refused += 1;
    }
    (waiting, refused)
}

#[tokio::test(start_paused = true)]
async fn half_requests_hold_a_bounded_number_of_bytes_and_up_nobody_else() {
    let (access, _config) = access(viewers());
    let service = access.layer(service());
    let of = ALONE[0];
    let (waiting, refused) = half(&service, (0..600).map(|_| (of, WATCH))).await;
    assert!(waiting.len() * REQUEST_MAX <= EACH, "{} wait", waiting.len());
    assert!(waiting.len() > 10 && refused == 600 - waiting.len(), "{refused} were refused");
    for (path, uid) in [(WATCH, ALONE[1]), (GET, ALONE[1]), (LIST, 7_001), (WATCH, 0)] {
        let answer = service.clone().oneshot(whole(uid, path)).await.expect("an answer");
        assert_eq!(answered(answer).await.expect("others are answered"), "8", "{uid} {path}");
    }
    // A call that is given up gives its bytes back.
    drop(waiting);
    tokio::time::sleep(Duration::from_millis(1)).await;
    let (again, _) = half(&service, (0..600).map(|_| (of, WATCH))).await;
    assert!(again.len() > 10, "{}", again.len());
}

/// A user with many user ids is many callers, but one group.
#[tokio::test(start_paused = true)]
async fn members_of_one_group_leave_room_to_others() {
    let (access, _config) = access(viewers());
    let service = access.layer(service());
    let members = (0..6_000).map(|number| (100_000 + number % 1_000, WATCH));
    let (waiting, _) = half(&service, members).await;
    assert!(waiting.len() * REQUEST_MAX <= 2 * EACH, "{} wait", waiting.len());
    let answer = service.clone().oneshot(whole(ALONE[0], WATCH)).await.expect("an answer");
    assert_eq!(answered(answer).await.expect("others are answered"), "8");
    // All together have a bound, too, which is not root's.
    let alone = (0..6_000).map(|number| (ALONE[number % 5], WATCH));
    let (more, _) = half(&service, alone).await;
    let all = waiting.len() + more.len();
    assert!(all * REQUEST_MAX <= 4 * EACH, "{all} wait");
    assert!(all * REQUEST_MAX > 3 * EACH, "{all} wait");
    let answer = service.clone().oneshot(whole(0, WATCH)).await.expect("an answer");
    assert_eq!(answered(answer).await.expect("root is answered"), "8");
}

/// Half a request takes no turn: the fifth list of a caller is answered while four are never whole.
#[tokio::test(start_paused = true)]
async fn half_a_request_takes_no_turn_and_is_given_up() {
    let (access, config) = access(viewers());
    let service = access.layer(service());
    for path in [LIST, WATCH, SMALL] {
        let begin = Instant::now();
        let mut waiting = JoinSet::new();
        for _ in 0..100 {
            let half = service.clone().oneshot(request(ALONE[0], path, 100, 50, false));
            waiting.spawn(async move { answered(half.await.expect("an answer")).await });
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
        let answer = service.clone().oneshot(whole(ALONE[0], path)).await.expect("an answer");
        assert_eq!(answered(answer).await.expect("it is whole"), "8", "{path}");
        let limit = config.borrow().calls.timeout;
        while let Some(half) = waiting.join_next().await {
            let status = half.expect("no panic").expect_err("it was never whole");
            assert_eq!(status.code(), Code::DeadlineExceeded, "{status}");
        }
        let took = begin.elapsed();
        assert!(took >= limit && took < limit + Duration::from_secs(1), "{path}: {took:?}");
    }
}

/// It is refused as soon as its size is known, with another code than a watch that cannot be continued.
#[tokio::test(start_paused = true)]
async fn too_large_a_request_is_refused_at_once() {
    let (access, _config) = access(viewers());
    let service = access.layer(service());
    for (path, most) in [(WATCH, REQUEST_MAX), (SMALL, 16 << 10), (GET, 16 << 10)] {
        for (announced, sent) in [(most + 1, 0), (u32::MAX as usize, 3), (10, most + 1)] {
            let asked = request(ALONE[0], path, announced, sent, false);
            let answer = service.clone().oneshot(asked).await.expect("an answer");
            let status = answered(answer).await.expect_err("it is too large");
            assert_eq!(status.code(), Code::InvalidArgument, "{status}");
            let info = status.get_details_error_info().expect("an ErrorInfo");
            assert_eq!(info.reason, "REQUEST_TOO_LARGE");
            assert_eq!(info.metadata.get("most"), Some(&most.to_string()));
        }
        let asked = request(ALONE[0], path, most, most, true);
        let answer = service.clone().oneshot(asked).await.expect("an answer");
        assert_eq!(answered(answer).await.expect("it fits"), (most + 5).to_string());
    }
}

/// A watch keeps its request, decoded, and the answer that its client does not take.
#[tokio::test(start_paused = true)]
async fn a_watch_is_charged_for_what_it_keeps_until_it_ends() {
    let (access, _config) = access(viewers());
    let held = || access.accounts().held(Resource::Kept);
    let service = access.layer(service());
    let of = ALONE[0];
    let large = || request(of, WATCH, REQUEST_MAX, REQUEST_MAX, true);
    let mut watches = Vec::new();
    let refused = loop {
        let answer = service.clone().oneshot(large()).await.expect("an answer");
        if let Some(status) = Status::from_header_map(answer.headers()) {
            break status;
        }
        watches.push(answer);
        assert!(watches.len() < 100, "nothing refuses");
    };
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
    assert!((2..=5).contains(&watches.len()), "{} watches of 1 MiB", watches.len());
    assert!(held() >= 3 * REQUEST_MAX * watches.len() && held() <= EACH, "{}", held());
    let answer = service.clone().oneshot(whole(ALONE[1], WATCH)).await.expect("an answer");
    assert_eq!(answered(answer).await.expect("others are answered"), "8");
    drop(watches);
    assert_eq!(held(), 0);
}

/// A stream ends if one answer is larger than its client may have under way, or if the answers that the client does not
/// take add up to more.
#[tokio::test(start_paused = true)]
async fn answers_that_are_not_taken_are_charged() {
    let (access, _config) = access(viewers());
    let held = || access.accounts().held(Resource::Kept);
    let service = access.layer(service_fn(async |_: http::Request<Body>| {
        let bytes = Bytes::from(vec![0; 3 << 20]);
        Ok::<_, Infallible>(http::Response::new(Body::new(Full::new(bytes))))
    }));
    let mut untaken = Vec::new();
    let status = loop {
        let answer = service.clone().oneshot(whole(ALONE[0], WATCH)).await.expect("an answer");
        let mut body = answer.into_body();
        let frame = body.frame().await.expect("a frame").expect("no error");
        match frame.into_data() {
            Ok(bytes) => untaken.push((bytes, body)),
            Err(frame) => {
                let trailers = frame.into_trailers().expect("the end");
                assert!(body.frame().await.is_none(), "an answer after the end");
                break Status::from_header_map(&trailers).expect("a status");
            }
        }
        assert!(untaken.len() < 100, "nothing refuses");
    };
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    assert_eq!(untaken.len(), 5, "of 3 MiB");
    assert!(held() > 15 << 20 && held() <= EACH, "{}", held());
    untaken.iter_mut().for_each(|(bytes, _)| *bytes = Bytes::new());
    assert!(held() < 1 << 20, "{} bytes count that were taken", held());
    drop(untaken);
    assert_eq!(held(), 0);
}
