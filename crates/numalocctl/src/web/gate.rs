//! Whether a request is answered: it has to come from this machine's own page, and to have its token. Pure, but for
//! making tokens.

use super::route::Refusal;
use crate::{endpoint::is_loopback, exit::Failure};
use http::{HeaderMap, StatusCode, header, request::Parts, uri::Authority};
use std::{
    fmt::Write,
    fs::File,
    hint::black_box,
    io::Read,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

/// Bytes of a token.
const TOKEN: usize = 16;

/// The names and tokens that requests are checked against.
#[derive(Debug)]
pub struct Gate {
    /// The part of the printed address behind `#token=`: browsers do not send it. It opens the page once: a person who
    /// reads it later, in the scrollback of a terminal or in a browser's history, gets nothing.
    printed: String,
    is_used: AtomicBool,
    /// The token that the page has got for it. The page sends this in a header of its requests. A cookie would go to
    /// all ports of this machine, and so to servers of other users.
    session: String,
    is_read_only: bool,
}

/// Unpredictable bytes.
///
/// # Errors
/// The kernel gives no random bytes.
pub fn random<const N: usize>() -> Result<[u8; N], Failure> {
    let mut bytes = [0; N];
    let read = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(|error| Failure::Usage(format!("cannot read /dev/urandom: {error}")))?;
    Ok(bytes)
}

/// An unpredictable token.
///
/// # Errors
/// As [`random`].
pub fn secret() -> Result<String, Failure> {
    let bytes = random::<TOKEN>()?;
    Ok(bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    }))
}

impl Gate {
    /// A gate with new tokens. The tokens of a read-only page change nothing.
    ///
    /// # Errors
    /// As [`random`].
    pub fn new(is_read_only: bool) -> Result<Self, Failure> {
        let (printed, session) = (secret()?, secret()?);
        Ok(Self { printed, session, is_used: AtomicBool::new(false), is_read_only })
    }

    /// The token for the address.
    pub fn printed(&self) -> &str {
        &self.printed
    }

    /// The token of the page, for the one that was printed; once.
    ///
    /// # Errors
    /// The token that was printed is missing, wrong or used.
    pub fn enter(&self, headers: &HeaderMap) -> Result<&str, Refusal> {
        if !is_equal(bearer(headers)?.as_bytes(), self.printed.as_bytes()) {
            return Err(wrong_token());
        }
        match self.is_used.swap(true, Relaxed) {
            false => Ok(&self.session),
            true => Err(Refusal::new(
                StatusCode::UNAUTHORIZED,
                "this address has been opened already, and opens the page once: use the tab in which it is open, or start numalocctl web \
                 again for another address; if it was not you who opened it, end numalocctl web",
            )),
        }
    }

    /// Checks whether the page may change anything.
    ///
    /// # Errors
    /// It is read-only.
    pub fn check_change(&self) -> Result<(), Refusal> {
        match self.is_read_only {
            false => Ok(()),
            true => Err(Refusal::new(
                StatusCode::FORBIDDEN,
                "this page is read-only: it moves and cancels nothing; start numalocctl web without --read-only for that",
            )),
        }
    }

    /// Checks where a request comes from. A name that is not this machine's own belongs to a page which has had its
    /// name resolved to this machine (DNS rebinding), or to a proxy that was set up for another purpose.
    ///
    /// # Errors
    /// The request is not one of this machine, or is one of another page.
    pub fn check_place(parts: &Parts) -> Result<(), Refusal> {
        let foreign = |what: &str| {
            Err(Refusal::new(
                StatusCode::FORBIDDEN,
                format!("{what}: the page answers only itself, as localhost or a loopback address"),
            ))
        };
        let Some(host) = only(&parts.headers, header::HOST) else {
            return foreign("the request does not name its host once");
        };
        let is_own = host.parse::<Authority>().is_ok_and(|authority| {
            !authority.as_str().contains('@') && is_loopback(authority.host())
        });
        if !is_own || parts.uri.authority().is_some() {
            return foreign("the request names another host");
        }
        let is_same = |origin: &str| origin.strip_prefix("http://") == Some(host);
        if parts.headers.contains_key(header::ORIGIN)
            && !only(&parts.headers, header::ORIGIN).is_some_and(is_same)
        {
            return foreign("the request is one of another origin");
        }
        Ok(())
    }

    /// Checks who asks for what only the owner may see or do.
    ///
    /// # Errors
    /// The token of the page is missing or wrong, or another page asks.
    pub fn check_caller(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        match is_equal(bearer(headers)?.as_bytes(), self.session.as_bytes()) {
            true => Ok(()),
            false => Err(wrong_token()),
        }
    }
}

fn wrong_token() -> Refusal {
    Refusal::new(
        StatusCode::UNAUTHORIZED,
        "the token is missing or wrong: open the address that numalocctl web has printed",
    )
}

/// The token of a request; an empty one if it has none.
fn bearer(headers: &HeaderMap) -> Result<&str, Refusal> {
    // Browsers that know it say which page asks (Fetch Metadata).
    let site = headers.get("sec-fetch-site").map(|value| value.as_bytes());
    if site.is_some_and(|site| site != b"same-origin" && site != b"none") {
        let message = "the request is one of another page";
        return Err(Refusal::new(StatusCode::FORBIDDEN, message));
    }
    let given = only(headers, header::AUTHORIZATION);
    Ok(given.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default())
}

/// The value of a header that is given once.
fn only(headers: &HeaderMap, name: header::HeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

/// Takes the same time wherever the two differ.
fn is_equal(left: &[u8], right: &[u8]) -> bool {
    let differing =
        left.iter().zip(right).fold(0, |sum, (left, right)| black_box(sum | (left ^ right)));
    left.len() == right.len() && differing == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    fn parts(uri: &str, headers: &[(&str, &str)]) -> Parts {
        let request = headers
            .iter()
            .fold(Request::get(uri), |request, (name, value)| request.header(*name, *value));
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn only_this_machine_is_answered() {
        for host in ["localhost", "localhost:8080", "127.0.0.1:1", "127.9.9.9", "[::1]:8080"] {
            assert!(Gate::check_place(&parts("/", &[("host", host)])).is_ok(), "{host}");
            let own = [("host", host), ("origin", &format!("http://{host}"))];
            assert!(Gate::check_place(&parts("/", &own)).is_ok(), "{host}");
        }
        let foreign = [
            "evil.example:8080",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "evil@localhost",
            "192.168.0.1:8080",
            "0.0.0.0:8080",
            "",
        ];
        for host in foreign {
            let refused = Gate::check_place(&parts("/", &[("host", host)])).expect_err(host);
            assert_eq!(refused.status, StatusCode::FORBIDDEN);
        }
        assert!(Gate::check_place(&parts("/", &[])).is_err(), "HTTP/1.0 without a host");
        let twice = [("host", "localhost"), ("host", "localhost")];
        assert!(Gate::check_place(&parts("/", &twice)).is_err());
        let proxied = parts("http://localhost/", &[("host", "localhost")]);
        assert!(Gate::check_place(&proxied).is_err(), "an absolute address is for proxies");
    }

    #[test]
    fn other_origins_are_refused() {
        for origin in [
            "http://evil.example",
            "http://localhost:9999",
            "https://localhost:8080",
            "http://localhost",
            "http://127.0.0.1:8080",
            "null",
            "",
        ] {
            let headers = [("host", "localhost:8080"), ("origin", origin)];
            let refused = Gate::check_place(&parts("/", &headers)).expect_err(origin);
            assert_eq!(refused.status, StatusCode::FORBIDDEN);
        }
    }

    #[test]
    fn the_token_is_asked_for() {
        let gate = Gate { session: "0123456789abcdef".into(), ..Gate::new(false).unwrap() };
        let caller = |headers: &[(&str, &str)]| {
            gate.check_caller(&parts("/", headers).headers)
                .map_err(|refused| refused.status.as_u16())
        };
        let right = ("authorization", "Bearer 0123456789abcdef");
        assert_eq!(caller(&[right]), Ok(()));
        assert_eq!(caller(&[right, ("sec-fetch-site", "same-origin")]), Ok(()));
        assert_eq!(caller(&[right, ("sec-fetch-site", "cross-site")]), Err(403));
        assert_eq!(caller(&[right, ("sec-fetch-site", "same-site")]), Err(403));
        assert_eq!(caller(&[]), Err(401));
        assert_eq!(caller(&[right, right]), Err(401));
        for wrong in [
            "0123456789abcdef",
            "Bearer ",
            "Bearer 0123456789abcdeF",
            "Bearer 0123456789abcdef0",
            "Basic x",
        ] {
            assert_eq!(caller(&[("authorization", wrong)]), Err(401), "{wrong}");
        }
    }

    #[test]
    fn what_was_printed_opens_the_page_once_and_does_nothing_else() {
        let gate = Gate::new(false).unwrap();
        let with = |token: &str| {
            let bearer = format!("Bearer {token}");
            parts("/", &[("authorization", &bearer)]).headers
        };
        let printed = with(gate.printed());
        assert!(gate.check_caller(&printed).is_err());
        for wrong in [with("x"), with(""), parts("/", &[]).headers, with(&gate.session)] {
            assert!(gate.enter(&wrong).is_err(), "and the right one can still be used");
        }
        let session = gate.enter(&printed).unwrap();
        assert!(gate.check_caller(&with(session)).is_ok());
        let again = gate.enter(&printed).unwrap_err();
        assert_eq!(again.status, StatusCode::UNAUTHORIZED);
        assert!(again.message.starts_with("this address has been opened already"), "{again:?}");
        assert!(gate.check_caller(&printed).is_err());
    }

    #[test]
    fn a_page_that_is_read_only_changes_nothing() {
        assert!(Gate::new(false).unwrap().check_change().is_ok());
        let refused = Gate::new(true).unwrap().check_change().unwrap_err();
        assert_eq!(refused.status, StatusCode::FORBIDDEN);
        assert!(refused.message.starts_with("this page is read-only"), "{refused:?}");
    }

    #[test]
    fn tokens_are_long_and_differ() {
        let [one, other] = [(); 2].map(|()| Gate::new(false).unwrap());
        let all = [&one.printed, &one.session, &other.printed, &other.session];
        assert!(all.iter().all(|token| token.len() == 2 * TOKEN));
        assert_eq!(std::collections::BTreeSet::from(all).len(), 4);
    }
}
