use super::*;
use crate::{
    clock,
    cluster::api::Api,
    health::{Health, Renewal},
};
use http::{Request, Response, StatusCode, header::AUTHORIZATION};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use parking_lot::Mutex;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::{convert::Infallible, os::unix::fs::PermissionsExt};

const HOUR: Duration = Duration::from_secs(3600);

/// A token of the agent on a node, with the time of its issue and its end.
fn text(node: &str, issued: SystemTime, ends: SystemTime) -> String {
    let seconds = |at: SystemTime| at.duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    encoded(&json!({
        "iss": "https://cluster", "iat": seconds(issued), "exp": seconds(ends),
        "kubernetes.io": {
            "namespace": "kube-system", "serviceaccount": {"name": "numaloc-agent"}, "node": {"name": node, "uid": "u"},
        },
    }))
}

fn encoded(payload: &Value) -> String {
    format!("head.{}.signature", BASE64_URL_SAFE_NO_PAD.encode(payload.to_string()))
}

fn token(node: &str, issued: SystemTime, ends: SystemTime) -> Token {
    Token::parse(&text(node, issued, ends)).expect("a token")
}

fn at(hours: u32) -> SystemTime {
    UNIX_EPOCH + HOUR * hours
}

#[test]
fn only_a_token_that_is_bound_to_a_node_alone_is_renewed() {
    let of = |node: Value, pod: Value| {
        let bound =
            json!({"namespace": "n", "serviceaccount": {"name": "a"}, "node": node, "pod": pod});
        encoded(&json!({"iss": "i", "iat": 1, "exp": 2, "kubernetes.io": bound}))
    };
    let (none, named) = (Value::Null, json!({"name": "x", "uid": "u"}));
    assert!(Token::parse(&of(named.clone(), none.clone())).is_some());
    for other in [
        of(named.clone(), named.clone()),
        of(none.clone(), none),
        encoded(&json!({"iss": "i", "iat": 1, "exp": 2})),
        "secret".to_owned(),
        "a.b.c".to_owned(),
        String::new(),
    ] {
        assert_eq!(Token::parse(&other), None, "{other}");
    }
    let shown = format!("{:?}", token("node-1", at(1), at(2)));
    assert!(shown.contains("node-1") && !shown.contains("signature"), "{shown}");
}

#[test]
fn the_next_token_is_asked_for_after_most_of_the_lifetime_or_a_day() {
    for (lifetime, early, expected) in [
        (10 * HOUR, 0.0, 8 * HOUR),
        (30 * HOUR, 0.0, 24 * HOUR),
        (168 * HOUR, 0.0, 24 * HOUR),
        (HOUR / 6, 0.0, Duration::from_secs(480)),
        (HOUR / 6, 1.0, Duration::from_secs(432)),
        (Duration::ZERO, 0.5, Duration::ZERO),
    ] {
        let due = token("n", at(100), at(100) + lifetime).claims.due(early);
        assert_eq!(due, at(100) + expected, "{lifetime:?}");
    }
    // One that ends before it begins is no reason to wait.
    assert_eq!(token("n", at(100), at(90)).claims.due(0.0), at(100));
}

proptest! {
    #[test]
    fn a_fifth_of_the_lifetime_is_left(lifetime in 600..4_000_000_u64, early in 0.0..1.0_f64) {
        let claims = token("n", at(1), at(1) + Duration::from_secs(lifetime)).claims;
        let left = claims.ends.duration_since(claims.due(early)).expect("before the end").as_secs();
        prop_assert!(left >= lifetime / 5 && claims.due(early) >= claims.issued + Duration::from_secs(lifetime.min(108_000) * 72 / 100));
    }
}

#[test]
fn the_newer_token_counts_unless_it_alone_has_ended() {
    let of = |issued, ends| token("node-1", at(issued), at(ends));
    let (old, new, short) = (of(1, 200), of(2, 100), of(3, 4));
    for (given, stored, now, expected) in [
        (&old, None, 10, &old),
        (&old, Some(&new), 10, &new),
        (&new, Some(&old), 10, &new),
        (&short, Some(&old), 10, &old),
        (&old, Some(&short), 10, &old),
        (&short, Some(&old), 300, &short),
        (&old, Some(&token("node-2", at(5), at(300))), 10, &old),
    ] {
        assert_eq!(&Token::newer(given.clone(), stored.cloned(), at(now)), expected);
    }
}

#[test]
fn a_stored_token_is_whole_and_for_its_owner_alone() {
    let directory = tempfile::tempdir().expect("a directory");
    assert_eq!(read(directory.path()).expect("none"), None);
    // What a write that failed has left.
    fs::write(directory.path().join(NEW_FILE), "half").expect("a file");
    for hours in [2, 3] {
        let token = token("node-1", at(1), at(hours));
        write(directory.path(), &token).expect("it is written");
        assert_eq!(read(directory.path()).expect("it is read"), Some(token));
    }
    let mode = fs::metadata(directory.path().join(FILE)).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(fs::read_dir(directory.path()).expect("a directory").count(), 1);
    fs::write(directory.path().join(FILE), "damaged").expect("a file");
    assert_eq!(read(directory.path()).expect_err("damaged").kind(), io::ErrorKind::InvalidData);
}

/// An API server that answers requests for tokens, and what it was asked: the credentials and the body of each.
type Asked = Arc<Mutex<Vec<(String, Value)>>>;

/// The answer to a request for a token, by what the request has.
fn server(
    answer: impl Fn(&Value) -> (StatusCode, Value) + Clone + Send + 'static,
) -> (kube::Client, Asked) {
    let asked = Asked::default();
    let log = Arc::clone(&asked);
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let (log, answer) = (Arc::clone(&log), answer.clone());
        async move {
            assert_eq!(
                request.uri().path(),
                "/api/v1/namespaces/kube-system/serviceaccounts/numaloc-agent/token"
            );
            let bearer = request.headers()[AUTHORIZATION].to_str().expect("a text").to_owned();
            let body = request.into_body().collect().await.expect("a body").to_bytes();
            let body: Value = serde_json::from_slice(&body).expect("an object");
            let (status, answer) = answer(&body);
            log.lock().push((bearer, body));
            let body = Full::new(Bytes::from(answer.to_string()));
            Ok::<_, Infallible>(Response::builder().status(status).body(body).expect("valid"))
        }
    });
    (kube::Client::new(service, "default"), asked)
}

/// What an agent holds whose kubeconfig has this token.
fn held(given: &str, directory: &Path) -> Renewable {
    let mut config = kube::Config::new("https://cluster".parse().expect("an address"));
    config.auth_info.token = Some(given.to_owned().into());
    let held = Renewable::take(&mut config, Some(directory.to_owned()), clock::now());
    assert!(config.auth_info.token.is_none(), "the client has to take it from us");
    held.expect("it is bound to a node")
}

#[test]
fn other_tokens_are_left_to_the_client() {
    let mut config = kube::Config::new("https://cluster".parse().expect("an address"));
    let here = || Some(PathBuf::from("/var/lib/nothing"));
    for (token, directory) in [
        (None, here()),
        (Some("secret".to_owned()), here()),
        (Some(text("node-1", at(1), at(2))), None),
    ] {
        config.auth_info.token = token.clone().map(Into::into);
        assert!(Renewable::take(&mut config, directory, at(1)).is_none());
        assert_eq!(config.auth_info.token.is_some(), token.is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_token_is_replaced_at_once_and_each_next_one_in_a_day() {
    let directory = tempfile::tempdir().expect("a directory");
    let (client, asked) = server(|request| {
        let (spec, now) = (&request["spec"], clock::now());
        assert_eq!(
            spec["boundObjectRef"],
            json!({"apiVersion": "v1", "kind": "Node", "name": "node-1"})
        );
        let lifetime = Duration::from_secs(spec["expirationSeconds"].as_u64().expect("a time"));
        (StatusCode::CREATED, json!({"status": {"token": text("node-1", now, now + lifetime)}}))
    });
    let first = text("node-1", clock::now(), clock::now() + HOUR);
    let held = held(&first, directory.path());
    let (api, health) = (Api::fake(client).with_bearer(held.bearer()), Health::default());
    let bearer = held.bearer();
    let _ = tokio::time::timeout(HOUR * 23 / 2 + HOUR * 24, renew(held, &api, &health)).await;
    let asked = asked.lock();
    let bearers: Vec<_> = asked.iter().map(|(bearer, _)| bearer.as_str()).collect();
    assert_eq!(bearers.len(), 2, "{bearers:?}");
    assert_eq!(bearers[0], format!("Bearer {first}"));
    let stored = read(directory.path()).expect("it is read").expect("one");
    assert_ne!(bearers[1], bearers[0]);
    assert_eq!(bearer.header().to_str().expect("a text"), format!("Bearer {}", stored.text));
    assert!(matches!(*health.token.lock(), Renewal::Done));
}

#[tokio::test(start_paused = true)]
async fn a_missing_right_is_reported_before_the_token_ends_and_the_command_after_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let (client, asked) =
        server(|_| (StatusCode::FORBIDDEN, json!({"message": "no", "code": 403})));
    let held = held(&text("node-1", clock::now(), clock::now() + HOUR), directory.path());
    let (api, health) = (Api::fake(client).with_bearer(held.bearer()), Health::default());
    let state = || health.token.lock().clone();
    let mut renewing = Box::pin(renew(held, &api, &health));
    let _ = tokio::time::timeout(HOUR / 2, &mut renewing).await;
    let Renewal::Failed(why) = state() else { panic!("{:?}", state()) };
    assert!(why.starts_with("set agent.hostService.enabled of the chart: "), "{why}");
    assert!(why.contains("no (403)"), "{why}");
    let first = asked.lock().len();
    assert!((3..20).contains(&first), "{first} requests");
    let _ = tokio::time::timeout(HOUR, &mut renewing).await;
    let Renewal::Ended(why) = state() else { panic!("{:?}", state()) };
    let command = "kubectl --namespace kube-system create token numaloc-agent --bound-object-kind Node --bound-object-name node-1";
    assert!(why.contains(command), "{why}");
    assert_eq!(read(directory.path()).expect("nothing"), None);
}

#[tokio::test(start_paused = true)]
async fn a_token_for_another_node_is_not_taken() {
    let directory = tempfile::tempdir().expect("a directory");
    let (client, _) = server(|_| {
        let token = text("node-2", clock::now(), clock::now() + HOUR);
        (StatusCode::CREATED, json!({"status": {"token": token}}))
    });
    let held = held(&text("node-1", clock::now(), clock::now() + HOUR), directory.path());
    let (api, health) = (Api::fake(client).with_bearer(held.bearer()), Health::default());
    let _ = tokio::time::timeout(HOUR / 6, renew(held, &api, &health)).await;
    assert!(
        matches!(&*health.token.lock(), Renewal::Failed(why) if why.contains("another account or Node"))
    );
    assert_eq!(read(directory.path()).expect("nothing"), None);
}
