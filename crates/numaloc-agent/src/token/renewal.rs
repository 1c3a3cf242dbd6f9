//! Asks for the next token, as long as the process runs.

use super::{Renewable, Token, write};
use crate::{
    clock,
    cluster::api::{Api, ApiError},
    health::{Health, Renewal},
};
use numaloc_api::timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use std::{
    convert::Infallible,
    time::{Duration, SystemTime},
};
use tokio::time::sleep;

/// Lifetime that is asked for, in seconds: 7 days. validatingadmissionpolicy.yaml of the chart permits no more, and the API
/// server may give less.
const LIFETIME_S: u64 = 7 * 24 * 3600;
/// Longest time between two looks at the clock, which may be set, and continues while the host sleeps.
const LOOK: Duration = Duration::from_secs(60);
/// Waits between attempts: doubled each time.
const FIRST: Duration = Duration::from_secs(5);
const LONGEST: Duration = Duration::from_secs(600);
/// The time after which a token that has ended is logged again.
const AGAIN: Duration = Duration::from_secs(3600);

/// Renews the token forever.
pub async fn renew(mut held: Renewable, api: &Api, health: &Health) -> Infallible {
    let (mut wait, mut said, mut said_end) = (FIRST, None, None::<SystemTime>);
    health.renewal(Renewal::Done);
    loop {
        let early = fastrand::f64();
        while !held.is_first && clock::now() < held.token.claims.due(early) {
            let left = held.token.claims.due(early).duration_since(clock::now());
            sleep(left.unwrap_or_default().min(LOOK)).await;
        }
        let why = match next(&held.token, api).await {
            Ok(token) => {
                take(&mut held, token).await;
                health.renewal(Renewal::Done);
                (wait, said, said_end) = (FIRST, None, None);
                // By a clock that is ahead, each token is due.
                sleep(LOOK).await;
                continue;
            }
            Err(why) => why,
        };
        let (now, ends) = (clock::now(), held.token.claims.ends);
        if now < ends {
            if said.as_ref() != Some(&why) {
                let ends = timestamp(ends);
                tracing::warn!(
                    "the token, which ends {ends}, cannot be renewed: {why}. It is tried again"
                );
            }
            health.renewal(Renewal::Failed(why.clone()));
        } else {
            let ended = ended(&held.token);
            if said_end.is_none_or(|at| now.duration_since(at).unwrap_or(AGAIN) >= AGAIN) {
                tracing::error!("{ended}");
                said_end = Some(now);
            }
            health.renewal(Renewal::Ended(ended));
        }
        said = Some(why);
        sleep(wait.mul_f64(1.0 + fastrand::f64())).await;
        wait = (2 * wait).min(LONGEST);
    }
}

/// Uses a token from now on, and stores it.
async fn take(held: &mut Renewable, token: Token) {
    held.bearer.set(&token.text);
    let (directory, copy) = (held.directory.clone(), token.clone());
    let written = tokio::task::spawn_blocking(move || write(&directory, &copy)).await;
    let ends = timestamp(token.claims.ends);
    match written.map_err(std::io::Error::other).and_then(|done| done) {
        Ok(()) => tracing::info!("the token was renewed: the next one ends {ends}"),
        Err(error) => tracing::error!(
            "the token was renewed until {ends}, and cannot be stored in {}: {error}. A restart of numaloc-agent begins with \
             an older one",
            held.directory.display()
        ),
    }
    (held.token, held.is_first) = (token, false);
}

/// Asks for the next token, for the same account and Node.
async fn next(token: &Token, api: &Api) -> Result<Token, String> {
    #[derive(Deserialize)]
    struct Answer {
        status: Status,
    }
    #[derive(Deserialize)]
    struct Status {
        token: String,
    }
    let claims = &token.claims;
    let path =
        format!("/api/v1/namespaces/{}/serviceaccounts/{}/token", claims.namespace, claims.account);
    let Answer { status } =
        api.ask(&path, &request(&claims.node)).await.map_err(|error| match &error {
            ApiError::Refused(refusal) if refusal.code == 403 => {
                // First, because conditions have bounds.
                format!("set agent.hostService.enabled of the chart: {error}")
            }
            _ => error.to_string(),
        })?;
    let next = Token::parse(&status.token).filter(|next| next.claims.is_like(claims));
    next.ok_or_else(|| "the API server has given a token for another account or Node".to_owned())
}

/// A request for a token that is bound to a Node.
fn request(node: &str) -> Value {
    json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": {
            "expirationSeconds": LIFETIME_S,
            "boundObjectRef": {"apiVersion": "v1", "kind": "Node", "name": node},
        },
    })
}

/// What an administrator has to do about a token that has ended.
fn ended(token: &Token) -> String {
    let claims = &token.claims;
    let (namespace, account, node) = (&claims.namespace, &claims.account, &claims.node);
    format!(
        "the token of the API server ended {}, before it was renewed. Make one: kubectl --namespace {namespace} create token {account} \
         --bound-object-kind Node --bound-object-name {node} --duration 24h; put it into /etc/numaloc/agent.kubeconfig, and run: \
         systemctl restart numaloc-agent",
        timestamp(claims.ends)
    )
}
