use super::*;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use proptest::prelude::*;
use std::sync::Arc;

/// The writes so far: when, and the label.
type Writes = Arc<Mutex<Vec<(Duration, Option<String>)>>>;

/// An API server that answers each write with a status.
fn server(status: StatusCode) -> (Api, Writes) {
    let (writes, begin) = (Writes::default(), Instant::now());
    let log = Arc::clone(&writes);
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let log = Arc::clone(&log);
        async move {
            let path =
                "/apis/nfd.k8s-sigs.io/v1alpha1/namespaces/kube-system/nodefeatures/numaloc-node-1";
            assert_eq!(request.uri().path(), path);
            let body = request.into_body().collect().await.expect("a body").to_bytes();
            let object: Value = serde_json::from_slice(&body).expect("an object");
            let metadata = &object["metadata"];
            assert_eq!(metadata["labels"]["nfd.node.kubernetes.io/node-name"], "node-1");
            let label = object["spec"]["labels"]["numaloc.io/remote-share"].as_str();
            log.lock().push((begin.elapsed(), label.map(str::to_owned)));
            let body = Full::new(Bytes::from_static(b"{}"));
            Ok::<_, Infallible>(Response::builder().status(status).body(body).expect("valid"))
        }
    });
    (Api::fake(kube::Client::new(service, "default")), writes)
}

const MINUTE: Duration = Duration::from_secs(60);

/// Has a share measured each minute, as percent, for a number of minutes each, and writes meanwhile.
async fn measured(api: &Api, share: &Share, shares: &[(Option<u64>, u32)]) {
    let measure = async {
        for &(percent, minutes) in shares {
            for _ in 0..minutes {
                share.report("uid", percent.map(|percent| (100 - percent, percent)));
                sleep(MINUTE).await;
            }
        }
    };
    tokio::select! {
        never = write("node-1", api, share) => match never {},
        () = measure => {}
    }
}

fn labels(writes: &Writes) -> Vec<String> {
    let label = |(_, label): &(Duration, Option<String>)| label.clone().unwrap_or_default();
    writes.lock().iter().map(label).collect()
}

#[test]
fn a_class_is_left_downwards_with_a_margin() {
    let mut before = None;
    for (local, remote, expected) in [
        (0, 0, Class::None),
        (991, 9, Class::None),
        (990, 10, Class::Low),
        (992, 8, Class::Low),
        (993, 7, Class::None),
        (900, 100, Class::Medium),
        (920, 80, Class::Medium),
        (921, 79, Class::Low),
        (700, 300, Class::High),
        (760, 240, Class::High),
        (761, 239, Class::Medium),
        (0, u64::MAX, Class::High),
        (u64::MAX, u64::MAX, Class::High),
        (u64::MAX, 0, Class::None),
    ] {
        let class = Class::of(local, remote, before);
        assert_eq!(
            class,
            expected,
            "{remote} of {} after {before:?}",
            local.saturating_add(remote)
        );
        before = Some(class);
    }
}

proptest! {
    #[test]
    fn small_changes_do_not_change_a_class_back(share in 0..1000_u64, less in 0..1000_u64) {
        let class = |share: u64, before| Class::of(1000 - share, share, before);
        let first = class(share, None);
        let second = class(less.min(share), Some(first));
        prop_assert!(second <= first);
        // Within a fifth nothing changes.
        if less.min(share) * 5 >= share * 4 {
            prop_assert_eq!(second, first);
        }
        prop_assert_eq!(class(share, Some(first)), first);
    }
}

#[tokio::test(start_paused = true)]
async fn a_share_that_changes_each_minute_is_written_each_ten_minutes_at_most() {
    let (api, writes) = server(StatusCode::OK);
    let turns: Vec<_> = (0..120).map(|at| (Some(if at % 2 == 0 { 0 } else { 90 }), 1)).collect();
    measured(&api, &Share::default(), &turns).await;
    let times: Vec<_> = writes.lock().iter().map(|(at, _)| *at).collect();
    assert!(times.windows(2).all(|pair| pair[1] - pair[0] >= GAP), "{times:?}");
    assert!((6..=12).contains(&times.len()), "{times:?}");
}

#[tokio::test(start_paused = true)]
async fn a_share_that_stays_is_written_each_hour_and_one_that_is_not_measured_is_taken_away() {
    let (api, writes) = server(StatusCode::OK);
    measured(&api, &Share::default(), &[(Some(20), 130), (None, 45), (Some(50), 1)]).await;
    assert_eq!(labels(&writes), ["medium", "medium", "medium", "", "high"]);
}

#[tokio::test(start_paused = true)]
async fn what_an_earlier_agent_has_written_does_not_stay_if_nothing_is_measured() {
    let (api, writes) = server(StatusCode::OK);
    measured(&api, &Share::default(), &[(None, 29)]).await;
    assert_eq!(labels(&writes), [""; 0]);
    measured(&api, &Share::default(), &[(None, 32)]).await;
    assert_eq!(labels(&writes), [""]);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_without_the_kind_is_asked_rarely() {
    for status in [StatusCode::NOT_FOUND, StatusCode::FORBIDDEN] {
        let (api, writes) = server(status);
        measured(&api, &Share::default(), &[(Some(20), 60)]).await;
        assert!((4..=7).contains(&writes.lock().len()), "{status}: {:?}", labels(&writes));
    }
}

#[test]
fn the_object_goes_with_its_node() {
    let object = |uid| object("node-1", uid, Some(Class::Low));
    let owners = &object("u1")["metadata"]["ownerReferences"];
    assert_eq!(
        owners,
        &json!([{"apiVersion": "v1", "kind": "Node", "name": "node-1", "uid": "u1"}])
    );
    assert_eq!(object("")["metadata"].get("ownerReferences"), None);
    assert_eq!(object("u1")["spec"]["labels"], json!({"numaloc.io/remote-share": "low"}));
}
