//! Stands before all services: no call reaches a service unless its caller may make it.

use super::{
    Caller, Grants, Peer, Quotas, UnixPeer, audit, connection,
    held::{Patience, held},
    lines::Lines,
    rules::{self, Need, Rule},
};
use crate::{
    config::{Config, Role},
    refusal::Refusal,
};
use http::{Extensions, Request, Response};
use std::{
    future::Future,
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Instant,
};
use tokio::{sync::watch, time::timeout};
use tonic::{Status, body::Body};
use tower::{Layer, Service};

/// A layer for the whole server that lets a call through if the configuration allows it at that moment. Calls under way go on
/// when their caller loses its role.
///
/// Services learn from [`super::caller`] who calls. A refused call gets a status and reaches no service. A call that is not
/// answered by its deadline is given up, and the connection of a client that does not take its answers is closed. Both limits are
/// those of the configuration when the call comes.
#[derive(Clone, Debug)]
pub struct Access {
    config: watch::Receiver<Arc<Config>>,
    quotas: Quotas,
    lines: Lines,
}

impl Access {
    /// With the grants of `config`. The services use the same `quotas`.
    pub fn new(config: watch::Receiver<Arc<Config>>, quotas: Quotas) -> Self {
        Self { config, quotas, lines: Lines::default() }
    }

    /// Whether a call may be made. Returns the caller's name, the rule of the call, and the caller if it has a role.
    fn permit(
        &self,
        path: &str,
        connection: &Extensions,
    ) -> Result<(String, &'static Rule, Option<Caller>), Status> {
        let peer = Peer::of(connection)?;
        let caller = {
            let config = self.config.borrow();
            Grants::from(&**config).caller_at(&peer, UnixPeer::socket(connection))
        };
        let name = caller.as_ref().map_or_else(|| peer.name(), |caller| caller.name.clone());
        // Checked before anything is logged, so that nobody can flood the log.
        self.quotas.admit(&name, Instant::now())?;
        let Some(rule) = rules::find(path) else { return Err(unknown(path, caller.as_ref())) };
        let permitted = permit(rule, &name, caller.as_ref());
        if let (true, Err(refusal)) = (rule.is_change(), &permitted) {
            audit::denied(&name, rule.method(), refusal);
        }
        permitted?;
        Ok((name, rule, caller))
    }
}

/// Whether `caller`, known as `name`, may make the call of `rule`.
fn permit(rule: &Rule, name: &str, caller: Option<&Caller>) -> Result<(), Refusal> {
    let Need::Role(needed) = rule.need else { return Ok(()) };
    let method = rule.method();
    let message = match caller {
        Some(caller) if caller.role >= needed => return Ok(()),
        Some(caller) => format!(
            "{method} needs the role {needed}, {name} has the role {}: ask for a grant in the daemon's configuration",
            caller.role
        ),
        None => format!(
            "{method} needs the role {needed}, {name} has none: ask for a grant in the daemon's configuration"
        ),
    };
    Err(Refusal::NotPermitted { message })
}

/// The answer to a call without a rule, which never reaches a service. An admin is told that there is no such call, others that
/// they may not make it.
fn unknown(path: &str, caller: Option<&Caller>) -> Status {
    if caller.is_some_and(|caller| caller.role == Role::Admin) {
        return Status::unimplemented("no such call: the client may be newer than the daemon");
    }
    let message = format!("{} may be called by nobody: see the API", path.escape_debug());
    Refusal::NotPermitted { message }.into()
}

impl<S> Layer<S> for Access {
    type Service = Guarded<S>;

    fn layer(&self, inner: S) -> Guarded<S> {
        Guarded { access: self.clone(), inner }
    }
}

/// Services behind [`Access`].
#[derive(Clone, Debug)]
pub struct Guarded<S> {
    access: Access,
    inner: S,
}

impl<S, B> Service<Request<B>> for Guarded<S>
where
    S: Service<Request<B>, Response = Response<Body>> + Clone + Send + 'static,
    S::Future: Send,
    B: Send + 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // Call the service that `poll_ready` was asked about, not its clone.
        let clone = self.inner.clone();
        let mut inner = mem::replace(&mut self.inner, clone);
        let access = self.access.clone();
        Box::pin(async move {
            let (mut head, body) = request.into_parts();
            let permitted = access.permit(head.uri.path(), &head.extensions);
            let (name, rule, caller) = match permitted {
                Ok(permitted) => permitted,
                Err(status) => return Ok(status.into_http()),
            };
            // `None`: the caller has no role, and the call needs none.
            caller.map(|caller| head.extensions.insert(caller));
            let calls = access.config.borrow().calls;
            let patience = connection::hangup(&head.extensions).map(|hangup| Patience {
                limit: calls.take_timeout,
                caller: name.clone(),
                hangup: hangup.clone(),
            });
            let answered = async {
                match access.lines.turn(&name, rule.kind).await {
                    Err(refusal) => Ok(Status::from(refusal).into_http()),
                    Ok(turn) => {
                        let answer = inner.call(Request::from_parts(head, body)).await;
                        answer
                            .map(|answer| answer.map(|body| held(body, turn, rule.kind, patience)))
                    }
                }
            };
            match rule.kind.deadline(&calls) {
                None => answered.await,
                Some(limit) => {
                    let late = |_| Ok(Status::from(Refusal::Late { limit }).into_http());
                    timeout(limit, answered).await.unwrap_or_else(late)
                }
            }
        })
    }
}
