//! Who may come in. A principal comes from a token and from nothing else.
//!
//! | read | for |
//! |---|---|
//! | [`token`], [`store`] | secrets, and what is kept of them |
//! | [`local`] | the token of whoever sits at the machine |
//! | [`codes`], [`login`], [`cookie`] | the link that lets a browser in, and what it becomes |
//! | [`jwt`] | tokens of a team's own issuer |
//!
//! **Invariant.** What cannot be checked is refused. No secret is in a log, an error or an address; the code of a link is good
//! once.

pub mod codes;
pub mod cookie;
mod file;
pub mod jwt;
pub mod local;
pub mod login;
pub mod store;
pub mod token;

pub use jwt::{Jwt, JwtConfig};
pub use store::{Store, StoreError, Token};
pub use token::Secret;

use crate::principal::Principal;
use axum::http::{HeaderMap, header};
use std::{
    io,
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};
use token::Digest;

/// The files of the data directory.
pub const TOKENS: &str = "tokens.json";
const LOGINS: &str = "logins.json";

#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    #[error("{}: {source}", path.display())]
    Local { path: std::path::PathBuf, source: io::Error },
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("[server.jwt] jwks: {0}")]
    Jwt(#[from] jwt::SourceError),
}

#[derive(Debug)]
pub struct Auth {
    local: Digest,
    tokens: Store,
    /// Browsers that are in.
    logins: Store,
    codes: codes::Codes,
    jwt: Option<Jwt>,
}

/// Somebody who has been let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    pub principal: Principal,
    /// Under which name requests are counted; whoever sits at the machine is not counted.
    pub counted: Option<String>,
}

impl Caller {
    /// Whoever sits at the machine.
    pub fn local() -> Self {
        Self { principal: Principal::administrator(), counted: None }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stranger {
    /// Nothing was shown.
    NoToken,
    /// What was shown is not good.
    BadToken,
}

impl Auth {
    /// Opens the data directory's tokens; the first time, makes the one for this machine.
    pub fn open(home: &Path, jwt: Option<JwtConfig>) -> Result<Self, AuthError> {
        let tokens = Store::new(home.join(TOKENS));
        tokens.tokens()?;
        let logins = Store::new(home.join(LOGINS));
        logins.sweep(now())?;
        let local = local::token(home)?.digest();
        let jwt = jwt.map(Jwt::open).transpose()?;
        Ok(Self { local, tokens, logins, codes: codes::Codes::default(), jwt })
    }

    /// Who sends a request: by its token, or else by its cookie.
    pub async fn caller(&self, headers: &HeaderMap, cookie: &str) -> Result<Caller, Stranger> {
        let mut shown = headers.get_all(header::AUTHORIZATION).iter();
        match (shown.next(), shown.next()) {
            (Some(value), None) => {
                let token = value.to_str().ok().and_then(bearer).ok_or(Stranger::BadToken)?;
                self.by_token(token).await.ok_or(Stranger::BadToken)
            }
            (Some(_), Some(_)) => Err(Stranger::BadToken),
            (None, _) => self.by_cookie(headers, cookie),
        }
    }

    async fn by_token(&self, token: &str) -> Option<Caller> {
        let digest = Digest::of(token);
        if digest == self.local {
            return Some(Caller::local());
        }
        // Ours have no dots.
        if let (true, Some(jwt)) = (token.contains('.'), &self.jwt) {
            let user = jwt.user(token, now()).await.ok()?;
            let counted = Some(format!("user {user}"));
            return Some(Caller { principal: Principal { user: Some(user), admin: false }, counted });
        }
        let token = self.tokens.find(digest, now())?;
        Some(Caller { principal: token.principal(), counted: Some(format!("token {}", token.name)) })
    }

    fn by_cookie(&self, headers: &HeaderMap, cookie: &str) -> Result<Caller, Stranger> {
        let mut shown = cookie::values(headers, cookie).peekable();
        if shown.peek().is_none() {
            return Err(Stranger::NoToken);
        }
        let found = shown.find_map(|value| self.logins.find(Digest::of(value), now()));
        found.map(|_| Caller::local()).ok_or(Stranger::BadToken)
    }

    /// The code for a link that lets one browser in.
    pub fn login_code(&self) -> io::Result<Secret> {
        self.codes.issue()
    }

    /// Makes a code the value of a cookie; `None` if it is not good.
    pub fn log_in(&self, code: &str) -> Result<Option<Secret>, StoreError> {
        if !self.codes.redeem(code) {
            return Ok(None);
        }
        let (now, name) = (now(), uuid::Uuid::new_v4().to_string());
        let made = store::fresh(&name, Principal::administrator(), now, Some(now + cookie::LIFE));
        let (login, value) = made.map_err(|source| StoreError::File { path: LOGINS.into(), source })?;
        self.logins.sweep(now)?;
        self.logins.add(login)?;
        Ok(Some(value))
    }
}

/// The token of an `Authorization` header.
fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// Seconds since 1970.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn auth() -> (tempfile::TempDir, Auth) {
        let home = tempfile::tempdir().unwrap();
        let auth = Auth::open(home.path(), None).unwrap();
        (home, auth)
    }

    fn headers(all: &[(header::HeaderName, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in all {
            headers.append(name, HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    async fn shown(auth: &Auth, all: &[(header::HeaderName, &str)]) -> Result<Principal, Stranger> {
        auth.caller(&headers(all), "lango-1").await.map(|caller| caller.principal)
    }

    #[tokio::test]
    async fn whoever_shows_nothing_or_nonsense_is_a_stranger() {
        let (_home, auth) = auth();
        assert_eq!(shown(&auth, &[]).await, Err(Stranger::NoToken));
        for bad in ["", "Bearer", "Bearer ", "Bearer guess", "Basic dXNlcg==", "guess", "Bearer a.b.c"] {
            assert_eq!(shown(&auth, &[(header::AUTHORIZATION, bad)]).await, Err(Stranger::BadToken), "{bad}");
        }
        assert_eq!(shown(&auth, &[(header::COOKIE, "lango-1=guess")]).await, Err(Stranger::BadToken));
    }

    #[tokio::test]
    async fn the_token_of_the_machine_is_an_administrators_and_stays_the_same() {
        let (home, auth) = auth();
        let local = format!("bearer {}", local::token(home.path()).unwrap().reveal());
        assert_eq!(shown(&auth, &[(header::AUTHORIZATION, &local)]).await, Ok(Principal::administrator()));
        let again = Auth::open(home.path(), None).unwrap();
        assert_eq!(shown(&again, &[(header::AUTHORIZATION, &local)]).await, Ok(Principal::administrator()));
    }

    #[tokio::test]
    async fn a_token_is_its_users_alone() {
        let (home, auth) = auth();
        let ann = Principal { user: Some("ann".to_owned()), admin: false };
        let (token, secret) = store::fresh("laptop", ann.clone(), now(), None).unwrap();
        Store::new(home.path().join(TOKENS)).add(token).unwrap();
        let shown_by_ann = format!("Bearer {}", secret.reveal());
        assert_eq!(shown(&auth, &[(header::AUTHORIZATION, &shown_by_ann)]).await, Ok(ann));
        let twice = [(header::AUTHORIZATION, &*shown_by_ann), (header::AUTHORIZATION, &*shown_by_ann)];
        assert_eq!(shown(&auth, &twice).await, Err(Stranger::BadToken));
    }

    #[tokio::test]
    async fn a_code_becomes_a_cookie_once_and_the_cookie_outlives_the_server() {
        let (home, auth) = auth();
        let code = auth.login_code().unwrap();
        let value = auth.log_in(code.reveal()).unwrap().unwrap();
        assert_eq!(auth.log_in(code.reveal()).unwrap(), None);
        let cookie = format!("theme=dark; lango-1={}", value.reveal());
        let cookie = [(header::COOKIE, &*cookie)];
        assert_eq!(shown(&auth, &cookie).await, Ok(Principal::administrator()));
        let again = Auth::open(home.path(), None).unwrap();
        assert_eq!(shown(&again, &cookie).await, Ok(Principal::administrator()));
        assert_eq!(
            again.caller(&headers(&cookie), "lango-2").await,
            Err(Stranger::NoToken),
            "another port's"
        );
    }

    #[tokio::test]
    async fn a_bad_token_is_not_mended_by_a_good_cookie() {
        let (_home, auth) = auth();
        let code = auth.login_code().unwrap();
        let value = auth.log_in(code.reveal()).unwrap().unwrap();
        let cookie = format!("lango-1={}", value.reveal());
        let both = [(header::AUTHORIZATION, "Bearer guess"), (header::COOKIE, &*cookie)];
        assert_eq!(shown(&auth, &both).await, Err(Stranger::BadToken));
    }
}
