//! Parses requests. Pure.

use super::doc::RefusalDoc;
use crate::top::RowKey;
use http::{Method, StatusCode};
use numaloc_api::value::{JobId, ScheduleId};
use numaloc_core::{Identity, Profile};
use serde::Deserialize;

/// A request of the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// A part of the page, which is not secret.
    File(PageFile),
    /// The token of the page, for the one that was printed.
    Session,
    /// The view after the one of this number.
    View(u64),
    Advice,
    /// Placement of a row's memory, by address.
    Map(RowKey),
    /// A job in full.
    Job(JobId),
    /// A schedule in full.
    Schedule(ScheduleId),
    /// A change, which the body names.
    Change(ChangeKind),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageFile {
    Html,
    Style,
    Script,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    Watch,
    Plan,
    Migrate,
    CancelMigration,
    CancelJob,
}

impl ChangeKind {
    /// Whether it changes only what the page shows.
    pub fn is_a_look(self) -> bool {
        self == Self::Watch
    }
}

/// An order to the desk, or to the daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Look at this process closely, or at none.
    Watch(Option<Identity>),
    /// Plan a migration of this row.
    Plan(RowKey),
    /// Carry out the plan of this number, with this profile.
    Migrate(u64, Profile),
    /// End the migration, or forget its plan.
    CancelMigration,
    CancelJob(JobId),
}

/// The reason why a request is not answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub status: StatusCode,
    pub message: String,
}

impl Refusal {
    pub fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    pub fn document(&self) -> RefusalDoc<'_> {
        RefusalDoc { error: &self.message }
    }
}

fn bad(message: impl Into<String>) -> Refusal {
    Refusal::new(StatusCode::BAD_REQUEST, message)
}

/// Parses a request, by its method, path and query.
///
/// # Errors
/// Nothing is at this path, it is not called by this method, or its parameters are invalid.
pub fn route(method: &Method, path: &str, query: &str) -> Result<Route, Refusal> {
    let (get, post) = (Method::GET, Method::POST);
    let (expected, route) = match path {
        "/" => (get, Ok(Route::File(PageFile::Html))),
        "/page.css" => (get, Ok(Route::File(PageFile::Style))),
        "/page.js" => (get, Ok(Route::File(PageFile::Script))),
        "/api/view" => {
            let seen = value(query, "seen").map_or(Ok(0), str::parse).map(Route::View);
            (get, seen.map_err(|_| bad("seen is the number of a view")))
        }
        "/api/advice" => (get, Ok(Route::Advice)),
        "/api/map" => {
            let of = |key| value(query, key);
            let row = of("pid").zip(of("start")).and_then(|(pid, start)| {
                Some(RowKey::Process(pid.parse().ok()?, start.parse().ok()?))
            });
            (get, row.map(Route::Map).ok_or_else(|| bad("name a process: pid=PID&start=TICKS")))
        }
        "/api/job" => {
            let named = value(query, "name").and_then(JobId::from_name);
            (get, named.map(Route::Job).ok_or_else(|| bad("name a job: name=jobs/ID")))
        }
        "/api/schedule" => {
            let named = value(query, "name").and_then(ScheduleId::from_name);
            let bad = || bad("name a schedule: name=schedules/ID");
            (get, named.map(Route::Schedule).ok_or_else(bad))
        }
        "/api/session" => (post, Ok(Route::Session)),
        "/api/watch" => (post, Ok(Route::Change(ChangeKind::Watch))),
        "/api/plan" => (post, Ok(Route::Change(ChangeKind::Plan))),
        "/api/migrate" => (post, Ok(Route::Change(ChangeKind::Migrate))),
        "/api/migration/cancel" => (post, Ok(Route::Change(ChangeKind::CancelMigration))),
        "/api/job/cancel" => (post, Ok(Route::Change(ChangeKind::CancelJob))),
        _ => return Err(Refusal::new(StatusCode::NOT_FOUND, "there is nothing at this path")),
    };
    if *method != expected {
        let message = format!("this path takes {expected} alone");
        return Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, message));
    }
    route
}

/// The value of a key of the query. None of ours needs escapes.
fn value<'a>(query: &'a str, wanted: &str) -> Option<&'a str> {
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.find(|(key, _)| *key == wanted).map(|(_, value)| value)
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Body {
    pid: Option<i32>,
    start: Option<u64>,
    cgroup: Option<String>,
    job: Option<String>,
    plan: Option<u64>,
    profile: Option<String>,
    confirmed: bool,
}

impl Body {
    /// The row that it names, if it names one.
    fn row(&self) -> Result<Option<RowKey>, Refusal> {
        match (self.pid, self.start, &self.cgroup) {
            (None, None, None) => Ok(None),
            (Some(pid), Some(start), None) if pid > 0 => Ok(Some(RowKey::Process(pid, start))),
            (None, None, Some(path)) if path.starts_with('/') => {
                Ok(Some(RowKey::Cgroup(path.clone())))
            }
            _ => Err(bad("name a process (pid, start) or a cgroup by its path")),
        }
    }
}

/// Reads the body of a change.
///
/// # Errors
/// It is not what this change takes, or the change is not confirmed.
pub fn change(kind: ChangeKind, body: &[u8]) -> Result<Change, Refusal> {
    let body: Body = serde_json::from_slice(body)
        .map_err(|error| bad(format!("the body is not valid: {error}")))?;
    let confirmed = || match body.confirmed {
        true => Ok(()),
        false => Err(bad("this changes something and is not confirmed: say confirmed")),
    };
    match kind {
        ChangeKind::Watch => Ok(Change::Watch(match body.row()? {
            None => None,
            Some(RowKey::Process(pid, start_time)) => Some(Identity { pid, start_time }),
            Some(RowKey::Cgroup(_)) => return Err(bad("name a process (pid, start), or none")),
        })),
        ChangeKind::Plan => {
            body.row()?.map(Change::Plan).ok_or_else(|| bad("name a process or a cgroup"))
        }
        ChangeKind::Migrate => {
            confirmed()?;
            let plan = body.plan.ok_or_else(|| bad("name the plan that is meant"))?;
            let profile = match &body.profile {
                None => Profile::default(),
                Some(name) => {
                    let known = Profile::ALL.into_iter().find(|profile| profile.name() == name);
                    known.ok_or_else(|| bad("there is no such profile"))?
                }
            };
            Ok(Change::Migrate(plan, profile))
        }
        ChangeKind::CancelMigration => confirmed().map(|()| Change::CancelMigration),
        ChangeKind::CancelJob => {
            confirmed()?;
            let job = body.job.as_deref().and_then(JobId::from_name);
            job.map(Change::CancelJob).ok_or_else(|| bad("name a job: jobs/ID"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(method: &str, target: &str) -> Result<Route, u16> {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let method = method.parse().unwrap();
        route(&method, path, query).map_err(|refused| refused.status.as_u16())
    }

    #[test]
    fn paths_are_found_and_others_are_not() {
        assert_eq!(asked("GET", "/"), Ok(Route::File(PageFile::Html)));
        assert_eq!(asked("GET", "/page.js?x=1"), Ok(Route::File(PageFile::Script)));
        assert_eq!(asked("GET", "/api/view"), Ok(Route::View(0)));
        assert_eq!(asked("GET", "/api/view?seen=7"), Ok(Route::View(7)));
        let id = ScheduleId::from_name("schedules/7").unwrap();
        assert_eq!(asked("GET", "/api/schedule?name=schedules/7"), Ok(Route::Schedule(id)));
        assert_eq!(asked("GET", "/api/map?pid=7&start=9"), Ok(Route::Map(RowKey::Process(7, 9))));
        for path in
            ["/index.html", "/api", "/api/", "/api/view/", "/../etc/passwd", "/%2e%2e", "//", ""]
        {
            assert_eq!(asked("GET", path), Err(404), "{path}");
        }
        for target in [
            "/api/view?seen=x",
            "/api/map",
            "/api/map?pid=x&start=1",
            "/api/job?name=x",
            "/api/schedule?name=jobs/1",
        ] {
            assert_eq!(asked("GET", target), Err(400), "{target}");
        }
    }

    #[test]
    fn what_changes_something_is_posted() {
        for path in ["/", "/page.css", "/api/view", "/api/advice"] {
            assert_eq!(asked("POST", path), Err(405), "{path}");
            assert_eq!(asked("DELETE", path), Err(405), "{path}");
        }
        for path in
            ["/api/plan", "/api/migrate", "/api/migration/cancel", "/api/job/cancel", "/api/watch"]
        {
            assert_eq!(asked("GET", path), Err(405), "{path}");
            assert!(asked("POST", path).is_ok(), "{path}");
        }
    }

    #[test]
    fn changes_take_a_confirmation() {
        let change =
            |kind, body: &str| change(kind, body.as_bytes()).map_err(|refused| refused.message);
        for (kind, body) in [
            (ChangeKind::Migrate, r#"{"plan": 3}"#),
            (ChangeKind::Migrate, r#"{"plan": 3, "confirmed": false}"#),
            (ChangeKind::CancelMigration, "{}"),
            (ChangeKind::CancelJob, r#"{"job": "jobs/7"}"#),
        ] {
            assert!(change(kind, body).expect_err(body).contains("not confirmed"), "{body}");
        }
        let body = r#"{"plan": 3, "confirmed": true}"#;
        assert_eq!(change(ChangeKind::Migrate, body), Ok(Change::Migrate(3, Profile::Balanced)));
        let body = r#"{"plan": 3, "profile": "gentle", "confirmed": true}"#;
        assert_eq!(change(ChangeKind::Migrate, body), Ok(Change::Migrate(3, Profile::Gentle)));
        let body = r#"{"plan": 3, "profile": "x", "confirmed": true}"#;
        assert!(change(ChangeKind::Migrate, body).is_err());
        let body = r#"{"job": "jobs/7", "confirmed": true}"#;
        assert_eq!(change(ChangeKind::CancelJob, body), Ok(Change::CancelJob(JobId::numbered(7))));
        // A plan moves nothing.
        let body = r#"{"cgroup": "/a b"}"#;
        assert_eq!(change(ChangeKind::Plan, body), Ok(Change::Plan(RowKey::Cgroup("/a b".into()))));
        assert_eq!(change(ChangeKind::Watch, "{}"), Ok(Change::Watch(None)));
        for body in [
            "",
            "[]",
            "{",
            r#"{"pid": 0, "start": 1}"#,
            r#"{"pid": 1}"#,
            r#"{"cgroup": "a"}"#,
            r#"{"x": 1}"#,
        ] {
            assert!(change(ChangeKind::Plan, body).is_err(), "{body}");
        }
    }
}
