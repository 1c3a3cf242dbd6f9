//! Streams of callers that lose their role.

use super::{config, grant, server::access};
use crate::{
    access::UnixPeer,
    config::{Grant, Grantee, Role},
};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Bytes, Frame};
use std::{convert::Infallible, time::Duration};
use tokio::{sync::watch, time::timeout};
use tokio_stream::{StreamExt, wrappers::WatchStream};
use tonic::{Code, Status, body::Body};
use tonic_types::StatusExt;
use tower::{Layer, ServiceExt, service_fn};

const MOMENT: Duration = Duration::from_millis(1);

fn viewer(to: Grantee) -> Grant {
    grant(to, Role::Viewer)
}

/// A call of user 7000, who is in group 8000.
fn request(path: &str) -> http::Request<Body> {
    let mut request = http::Request::new(Body::empty());
    *request.uri_mut() = path.parse().expect("a path");
    request.extensions_mut().insert(UnixPeer::user(7_000, &[8_000]));
    request
}

/// The text of the next message; an error: the status with which the answer has ended.
async fn next(body: &mut Body) -> Result<String, Status> {
    let frame = body.frame().await.expect("there is a status at the end")?;
    match frame.into_data() {
        Ok(data) => Ok(String::from_utf8_lossy(&data).into_owned()),
        Err(frame) => {
            let trailers = frame.into_trailers().expect("these are left");
            Err(Status::from_header_map(&trailers).expect("a status"))
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_when_its_caller_loses_its_role() {
    for path in [
        "/numaloc.v1.LocalityService/WatchLocality",
        "/numaloc.v1.MigrationService/WatchJobs",
        "/numaloc.v1.EventService/WatchEvents",
        "/grpc.health.v1.Health/Watch",
    ] {
        let (access, sender) = access(config(vec![viewer(Grantee::Uid(7_000))]));
        // The next message of the watch is sent here.
        let (tell, told) = watch::channel("first");
        let service = access.layer(service_fn(move |_: http::Request<Body>| {
            let messages = WatchStream::new(told.clone());
            let frame = |text: &'static str| Ok::<_, Infallible>(Frame::data(Bytes::from(text)));
            let body = Body::new(StreamBody::new(messages.map(frame)));
            async move { Ok::<_, Infallible>(http::Response::new(body)) }
        }));
        let answer = service.oneshot(request(path)).await.expect("an answer");
        let mut body = answer.into_body();
        assert_eq!(next(&mut body).await.expect("it may"), "first");
        assert_eq!(tell.receiver_count(), 1);
        // By another grant it is a viewer still, and nothing is missed.
        sender.send(config(vec![viewer(Grantee::Gid(8_000))])).expect("it listens");
        timeout(MOMENT, next(&mut body)).await.expect_err("nothing has been told");
        tell.send_replace("second");
        assert_eq!(next(&mut body).await.expect("it may"), "second");
        // A watch of which nothing comes ends as well.
        sender.send(config(vec![viewer(Grantee::Uid(7_001))])).expect("it listens");
        let ended = timeout(MOMENT, next(&mut body)).await.expect("it ends at once");
        let status = ended.expect_err("it lost its role");
        assert_eq!(status.code(), Code::PermissionDenied, "{status}");
        let info = status.get_details_error_info().expect("an ErrorInfo");
        assert_eq!(info.reason, "NOT_PERMITTED");
        assert!(status.message().contains("uid:7000 has none"), "{status}");
        assert!(body.frame().await.is_none(), "{path} continues");
        assert_eq!(tell.receiver_count(), 0, "what makes the messages is still there");
    }
}

/// An answer that is under way is not a stream: it is given.
#[tokio::test(start_paused = true)]
async fn an_answer_that_was_made_is_given() {
    let (access, sender) = access(config(vec![viewer(Grantee::Uid(7_000))]));
    let service = access.layer(service_fn(async |_: http::Request<Body>| {
        Ok::<_, Infallible>(http::Response::new(Body::new("a page".to_owned())))
    }));
    let list = request("/numaloc.v1.MigrationService/ListJobs");
    let mut body = service.oneshot(list).await.expect("an answer").into_body();
    sender.send(config(Vec::new())).expect("it listens");
    assert_eq!(next(&mut body).await.expect("it was made"), "a page");
}
