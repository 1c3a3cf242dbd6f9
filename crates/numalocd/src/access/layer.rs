//! Stands before all services: no call reaches a service unless its caller may make it.

use super::{
    Caller, Grants, Peer, UnixPeer, audit, connection,
    denials::{self, Denials},
    held::{SendTimeout, held},
    lines::Lines,
    rules::{self, Asks, Rule},
    standing::{Standing, permit},
    whole::Asking,
};
use crate::{
    accounts::{Accounts, Client, Cohort},
    config::Config,
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

/// A layer for the whole server that lets a call through if the configuration allows it at that moment. A stream ends
/// when its caller loses its role; other calls under way continue.
///
/// Services learn from [`super::caller`] who calls. A refused call gets a status and reaches no service. A request is
/// complete before its call gets a turn; if it comes in parts, the service reads the parts. A call that is not answered
/// by its deadline is given up, and the connection of a client that does not take its answers is closed. Both limits
/// are those of the configuration when the call comes.
#[derive(Clone, Debug)]
pub struct Access {
    config: watch::Receiver<Arc<Config>>,
    accounts: Accounts,
    lines: Lines,
    denials: Denials,
}

/// A call that may be made.
struct Permitted {
    rule: &'static Rule,
    client: Client,
    /// `None`: the caller has no role, and the call needs none.
    caller: Option<Caller>,
    standing: Standing,
}

impl Access {
    /// With the grants of `config`. The services use the same `accounts`.
    pub fn new(config: watch::Receiver<Arc<Config>>, accounts: Accounts) -> Self {
        Self { config, accounts, lines: Lines::default(), denials: Denials::default() }
    }

    /// The accounts that calls are charged to.
    pub fn accounts(&self) -> &Accounts {
        &self.accounts
    }

    /// Whom the connection of a user at a Unix socket counts for, by the grants that are in force.
    pub fn client_of(&self, user: &UnixPeer) -> Client {
        // An unknown peer can call nothing, and shares a part with all clients without a role.
        let unknown = || Client { name: "unknown".to_owned(), cohort: Some(Cohort::WithoutRole) };
        let Ok(peer) = user.peer() else { return unknown() };
        let config = self.config.borrow();
        let caller = Grants::from(&**config).caller_at(&peer, user.further());
        client(&peer, caller.as_ref())
    }

    /// Whether a call may be made.
    fn permit(&self, path: &str, connection: &Extensions) -> Result<Permitted, Status> {
        let peer = Peer::of(connection)?;
        let socket = UnixPeer::socket(connection).cloned();
        let caller = {
            let config = self.config.borrow();
            Grants::from(&**config).caller_at(&peer, socket.as_deref())
        };
        let client = client(&peer, caller.as_ref());
        // Checked before anything is logged, so that no client can flood the log.
        self.accounts.admit(&client, Instant::now())?;
        let Some(rule) = rules::find(path) else { return Err(unknown(path, caller.as_ref())) };
        let permitted = permit(rule, &client.name, caller.as_ref());
        if let (true, Err(refusal)) = (rule.is_change(), &permitted)
            && let Some(calls) = self.denials.count(
                &client.name,
                rule.method(),
                denials::AuditRate::One,
                Instant::now(),
            )
        {
            audit::denied(&client.name, rule.method(), refusal, calls);
        }
        permitted?;
        let standing = Standing::new(rule, peer, socket, self.config.clone());
        Ok(Permitted { rule, client, caller, standing })
    }
}

/// Whom the calls of a peer count for.
fn client(peer: &Peer, caller: Option<&Caller>) -> Client {
    let without_role = || Client { name: peer.name(), cohort: Some(Cohort::WithoutRole) };
    caller.map_or_else(without_role, Caller::client)
}

/// The answer to a call without a rule, which never reaches a service. A known caller learns that the call does not
/// exist, so that a newer client can tell an older daemon from a missing right.
fn unknown(path: &str, caller: Option<&Caller>) -> Status {
    if caller.is_some() {
        return Status::unimplemented("no such call: the client may be newer than the daemon");
    }
    let message = format!("{} cannot be called by any client: see the API", path.escape_debug());
    Refusal::NotPermitted { message }.into()
}

impl<S> Layer<S> for Access {
    type Service = Guarded<S>;

    fn layer(&self, inner: S) -> Guarded<S> {
        Guarded { access: self.clone(), inner }
    }
}

/// A service whose calls pass through [`Access`] first.
#[derive(Clone, Debug)]
pub struct Guarded<S> {
    access: Access,
    inner: S,
}

impl<S> Service<Request<Body>> for Guarded<S>
where
    S: Service<Request<Body>, Response = Response<Body>> + Clone + Send + 'static,
    S::Future: Send,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        // Call the service that `poll_ready` was asked about, not its clone.
        let clone = self.inner.clone();
        let inner = mem::replace(&mut self.inner, clone);
        let access = self.access.clone();
        Box::pin(async move {
            match access.permit(request.uri().path(), request.extensions()) {
                Ok(permitted) => access.answer(permitted, request, inner).await,
                Err(status) => Ok(status.into_http()),
            }
        })
    }
}

impl Access {
    /// The answer to a call that may be made.
    async fn answer<S>(
        &self,
        permitted: Permitted,
        request: Request<Body>,
        mut inner: S,
    ) -> Result<Response<Body>, S::Error>
    where
        S: Service<Request<Body>, Response = Response<Body>>,
    {
        let Permitted { rule, client, caller, standing } = permitted;
        let (mut head, body) = request.into_parts();
        caller.map(|caller| head.extensions.insert(caller));
        head.extensions.insert(self.denials.clone());
        let calls = self.config.borrow().calls;
        let patience = connection::hangup(&head.extensions).map(|hangup| SendTimeout {
            limit: calls.take_timeout,
            caller: client.name.clone(),
            hangup: hangup.clone(),
        });
        let asking = match Asking::begin(&self.accounts, &client, &head.headers) {
            Ok(asking) => asking,
            Err(refusal) => return Ok(Status::from(refusal).into_http()),
        };
        let ready = async {
            match rule.asks {
                Asks::Once(most) => {
                    let continues = rule.kind.goes_on();
                    let (body, charge) = asking.whole(body, most, calls.timeout, continues).await?;
                    Ok((body, self.lines.turn(&client, rule.kind).await?, charge))
                }
                // HTTP/2 keeps the parts that have arrived until the service reads them.
                Asks::Stream => {
                    let turn = self.lines.turn(&client, rule.kind).await?;
                    let charge = rule.kind.goes_on().then(|| asking.charge());
                    Ok((body, turn, charge))
                }
            }
        };
        let answered = async {
            match ready.await {
                Err(status) => Ok(Status::into_http(status)),
                Ok((body, turn, charge)) => {
                    let answer = inner.call(Request::from_parts(head, body)).await;
                    answer.map(|answer| {
                        answer.map(|body| held(body, turn, rule.kind, patience, standing, charge))
                    })
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
    }
}
