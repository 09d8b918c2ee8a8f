//! Who may come in. A principal comes from a token and from nothing else.
//!
//! | read | for |
//! |---|---|
//! | [`secret`], [`token_store`] | secrets, and what is kept of them |
//! | [`local_token`] | the token of whoever sits at the machine |
//! | [`login_codes`], [`login`], [`cookie`] | the link that lets a browser in, and what it becomes |
//! | [`jwt`] | tokens of a team's own issuer |
//!
//! **Invariant.** What cannot be checked is refused. No secret is in a log, an error or an address; the code of a link is good
//! once.

pub mod cookie;
pub mod jwt;
pub mod local_token;
pub mod login;
pub mod login_codes;
mod private_file;
pub mod secret;
pub mod token_store;

pub use jwt::{JwtConfig, JwtVerifier};
pub use secret::TokenSecret;
pub use token_store::{TokenRecord, TokenStore, TokenStoreError};

use crate::principal::Principal;
use axum::http::{HeaderMap, header};
use secret::TokenDigest;
use std::{
    io,
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

/// The files of the data directory.
pub const TOKENS: &str = "tokens.json";
const LOGINS: &str = "logins.json";

#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    #[error("{}: {source}", path.display())]
    Local { path: std::path::PathBuf, source: io::Error },
    #[error(transparent)]
    Store(#[from] TokenStoreError),
    #[error("[server.jwt] jwks: {0}")]
    Jwt(#[from] jwt::JwksError),
}

#[derive(Debug)]
pub struct Authenticator {
    local: TokenDigest,
    tokens: TokenStore,
    /// Browsers that are in.
    logins: TokenStore,
    codes: login_codes::LoginCodes,
    jwt: Option<JwtVerifier>,
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
pub enum CredentialError {
    /// Nothing was shown.
    Missing,
    /// What was shown is not good.
    Invalid,
}

impl Authenticator {
    /// Opens the data directory's tokens; the first time, makes the one for this machine.
    pub fn open(home: &Path, jwt: Option<JwtConfig>) -> Result<Self, AuthError> {
        let tokens = TokenStore::new(home.join(TOKENS));
        tokens.tokens()?;
        let logins = TokenStore::new(home.join(LOGINS));
        logins.sweep(now())?;
        let local = local_token::token(home)?.digest();
        let jwt = jwt.map(JwtVerifier::open).transpose()?;
        Ok(Self { local, tokens, logins, codes: login_codes::LoginCodes::default(), jwt })
    }

    /// Who sends a request: by its token, or else by its cookie.
    pub async fn caller(&self, headers: &HeaderMap, cookie: &str) -> Result<Caller, CredentialError> {
        let mut shown = headers.get_all(header::AUTHORIZATION).iter();
        match (shown.next(), shown.next()) {
            (Some(value), None) => {
                let token = value.to_str().ok().and_then(bearer).ok_or(CredentialError::Invalid)?;
                self.by_token(token).await.ok_or(CredentialError::Invalid)
            }
            (Some(_), Some(_)) => Err(CredentialError::Invalid),
            (None, _) => self.by_cookie(headers, cookie),
        }
    }

    async fn by_token(&self, token: &str) -> Option<Caller> {
        let digest = TokenDigest::of(token);
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

    fn by_cookie(&self, headers: &HeaderMap, cookie: &str) -> Result<Caller, CredentialError> {
        let mut shown = cookie::values(headers, cookie).peekable();
        if shown.peek().is_none() {
            return Err(CredentialError::Missing);
        }
        let found = shown.find_map(|value| self.logins.find(TokenDigest::of(value), now()));
        found.map(|_| Caller::local()).ok_or(CredentialError::Invalid)
    }

    /// The code for a link that lets one browser in.
    pub fn login_code(&self) -> io::Result<TokenSecret> {
        self.codes.issue()
    }

    /// Makes a code the value of a cookie; `None` if it is not good.
    pub fn log_in(&self, code: &str) -> Result<Option<TokenSecret>, TokenStoreError> {
        if !self.codes.redeem(code) {
            return Ok(None);
        }
        let (now, name) = (now(), uuid::Uuid::new_v4().to_string());
        let made = token_store::fresh(&name, Principal::administrator(), now, Some(now + cookie::LIFE));
        let (login, value) = made.map_err(|source| TokenStoreError::File { path: LOGINS.into(), source })?;
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

    fn auth() -> (tempfile::TempDir, Authenticator) {
        let home = tempfile::tempdir().unwrap();
        let auth = Authenticator::open(home.path(), None).unwrap();
        (home, auth)
    }

    fn headers(all: &[(header::HeaderName, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in all {
            headers.append(name, HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    async fn shown(
        auth: &Authenticator,
        all: &[(header::HeaderName, &str)],
    ) -> Result<Principal, CredentialError> {
        auth.caller(&headers(all), "lango-1").await.map(|caller| caller.principal)
    }

    #[tokio::test]
    async fn whoever_shows_nothing_or_nonsense_is_a_stranger() {
        let (_home, auth) = auth();
        assert_eq!(shown(&auth, &[]).await, Err(CredentialError::Missing));
        for bad in ["", "Bearer", "Bearer ", "Bearer guess", "Basic dXNlcg==", "guess", "Bearer a.b.c"] {
            assert_eq!(
                shown(&auth, &[(header::AUTHORIZATION, bad)]).await,
                Err(CredentialError::Invalid),
                "{bad}"
            );
        }
        assert_eq!(shown(&auth, &[(header::COOKIE, "lango-1=guess")]).await, Err(CredentialError::Invalid));
    }

    #[tokio::test]
    async fn the_token_of_the_machine_is_an_administrators_and_stays_the_same() {
        let (home, auth) = auth();
        let local = format!("bearer {}", local_token::token(home.path()).unwrap().reveal());
        assert_eq!(shown(&auth, &[(header::AUTHORIZATION, &local)]).await, Ok(Principal::administrator()));
        let again = Authenticator::open(home.path(), None).unwrap();
        assert_eq!(shown(&again, &[(header::AUTHORIZATION, &local)]).await, Ok(Principal::administrator()));
    }

    #[tokio::test]
    async fn a_token_is_its_users_alone() {
        let (home, auth) = auth();
        let ann = Principal { user: Some("ann".to_owned()), admin: false };
        let (token, secret) = token_store::fresh("laptop", ann.clone(), now(), None).unwrap();
        TokenStore::new(home.path().join(TOKENS)).add(token).unwrap();
        let shown_by_ann = format!("Bearer {}", secret.reveal());
        assert_eq!(shown(&auth, &[(header::AUTHORIZATION, &shown_by_ann)]).await, Ok(ann));
        let twice = [(header::AUTHORIZATION, &*shown_by_ann), (header::AUTHORIZATION, &*shown_by_ann)];
        assert_eq!(shown(&auth, &twice).await, Err(CredentialError::Invalid));
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
        let again = Authenticator::open(home.path(), None).unwrap();
        assert_eq!(shown(&again, &cookie).await, Ok(Principal::administrator()));
        assert_eq!(
            again.caller(&headers(&cookie), "lango-2").await,
            Err(CredentialError::Missing),
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
        assert_eq!(shown(&auth, &both).await, Err(CredentialError::Invalid));
    }
}
