//! Authentication. The principal of a request follows from its token or cookie and from nothing else.
//!
//! | module | contents |
//! |---|---|
//! | [`secret`], [`token_store`] | secrets and digests; the file of tokens |
//! | [`local_token`] | the local token, of the local administrator |
//! | [`login_codes`], [`login`], [`cookie`] | login links for browsers, and the cookie that they set |
//! | [`jwt`] | JWTs of an external issuer |
//!
//! **Invariant.** Credentials that cannot be verified are refused. No secret appears in a log, an error or a URL, except the code of a
//! login link, which is valid once.

pub mod cookie;
pub mod jwt;
pub mod local_token;
pub mod login;
pub mod login_codes;
pub mod private_file;
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

/// The file of tokens in the data directory.
pub const TOKENS_FILE: &str = "tokens.json";
/// The file of cookies in the data directory.
const LOGINS_FILE: &str = "logins.json";

/// Why the authenticator cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    #[error("{}: {source}", path.display())]
    LocalToken { path: std::path::PathBuf, source: io::Error },
    #[error(transparent)]
    TokenStore(#[from] TokenStoreError),
    #[error("[server.jwt] jwks: {0}")]
    Jwks(#[from] jwt::JwksError),
}

/// Verifies tokens, cookies and JWTs.
#[derive(Debug)]
pub struct Authenticator {
    local_token: TokenDigest,
    tokens: TokenStore,
    /// The cookies of browsers that are logged in.
    logins: TokenStore,
    login_codes: login_codes::LoginCodes,
    jwt: Option<JwtVerifier>,
}

/// Receives problems of the keys of a JWT issuer.
pub type KeyReport = fn(&str);

/// An authenticated client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    pub principal: Principal,
    /// The key of its rate limit. `None` for the local administrator, who is not limited.
    pub rate_limit_key: Option<String>,
}

impl Caller {
    /// The local administrator.
    pub fn local() -> Self {
        Self { principal: Principal::administrator(), rate_limit_key: None }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CredentialError {
    /// The request has neither a token nor a cookie.
    Missing,
    Invalid,
}

impl Authenticator {
    /// Opens the token files of the data directory, and generates the local token at the first start.
    pub fn open(home: &Path, jwt: Option<(JwtConfig, KeyReport)>) -> Result<Self, AuthError> {
        let tokens = TokenStore::new(home.join(TOKENS_FILE));
        tokens.tokens()?;
        let logins = TokenStore::new(home.join(LOGINS_FILE));
        logins.remove_expired(unix_time())?;
        let local_token = local_token::load_or_create(home)?.digest();
        let jwt = jwt.map(|(config, report)| JwtVerifier::open(config, report)).transpose()?;
        Ok(Self { local_token, tokens, logins, login_codes: login_codes::LoginCodes::default(), jwt })
    }

    /// Authenticates a request by its token or, without one, by the cookie named `cookie`.
    pub async fn authenticate(&self, headers: &HeaderMap, cookie: &str) -> Result<Caller, CredentialError> {
        let mut values = headers.get_all(header::AUTHORIZATION).iter();
        match (values.next(), values.next()) {
            (Some(value), None) => {
                let token = value.to_str().ok().and_then(parse_bearer).ok_or(CredentialError::Invalid)?;
                self.find_token(token).await.ok_or(CredentialError::Invalid)
            }
            (Some(_), Some(_)) => Err(CredentialError::Invalid),
            (None, _) => self.find_cookie(headers, cookie),
        }
    }

    async fn find_token(&self, token: &str) -> Option<Caller> {
        let digest = TokenDigest::new(token);
        if digest == self.local_token {
            return Some(Caller::local());
        }
        // Tokens of this server contain no dots.
        if let (true, Some(jwt)) = (token.contains('.'), &self.jwt) {
            let user = jwt.verify(token, unix_time()).await.ok()?;
            let rate_limit_key = Some(format!("user {user}"));
            return Some(Caller { principal: Principal { user: Some(user), admin: false }, rate_limit_key });
        }
        let token = self.tokens.find(digest, unix_time())?;
        Some(Caller { principal: token.principal(), rate_limit_key: Some(format!("token {}", token.name)) })
    }

    fn find_cookie(&self, headers: &HeaderMap, cookie: &str) -> Result<Caller, CredentialError> {
        let mut values = cookie::values(headers, cookie).peekable();
        if values.peek().is_none() {
            return Err(CredentialError::Missing);
        }
        let found = values.find_map(|value| self.logins.find(TokenDigest::new(value), unix_time()));
        found.map(|_| Caller::local()).ok_or(CredentialError::Invalid)
    }

    /// Issues the code of a login link.
    pub fn issue_login_code(&self) -> io::Result<TokenSecret> {
        self.login_codes.issue()
    }

    /// Exchanges a login code for the value of a cookie. `None` if the code is invalid.
    pub fn redeem_login_code(&self, code: &str) -> Result<Option<TokenSecret>, TokenStoreError> {
        if !self.login_codes.redeem(code) {
            return Ok(None);
        }
        let (now, name) = (unix_time(), uuid::Uuid::new_v4().to_string());
        let expires_at = Some(now + cookie::LIFETIME);
        let generated = token_store::generate(&name, Principal::administrator(), now, expires_at);
        let file_error = |source| TokenStoreError::File { path: LOGINS_FILE.into(), source };
        let (login, value) = generated.map_err(file_error)?;
        self.logins.remove_expired(now)?;
        self.logins.add(login)?;
        Ok(Some(value))
    }
}

/// The token of an `Authorization: Bearer` header.
fn parse_bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// Seconds since the Unix epoch.
pub fn unix_time() -> u64 {
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

    async fn authenticate(
        auth: &Authenticator,
        all: &[(header::HeaderName, &str)],
    ) -> Result<Principal, CredentialError> {
        auth.authenticate(&headers(all), "lango-1").await.map(|caller| caller.principal)
    }

    #[tokio::test]
    async fn missing_and_invalid_credentials_are_refused() {
        let (_home, auth) = auth();
        assert_eq!(authenticate(&auth, &[]).await, Err(CredentialError::Missing));
        for invalid in ["", "Bearer", "Bearer ", "Bearer guess", "Basic dXNlcg==", "guess", "Bearer a.b.c"] {
            assert_eq!(
                authenticate(&auth, &[(header::AUTHORIZATION, invalid)]).await,
                Err(CredentialError::Invalid),
                "{invalid}"
            );
        }
        assert_eq!(
            authenticate(&auth, &[(header::COOKIE, "lango-1=guess")]).await,
            Err(CredentialError::Invalid)
        );
    }

    #[tokio::test]
    async fn the_local_token_is_an_administrators_and_survives_a_restart() {
        let (home, auth) = auth();
        let local = format!("bearer {}", local_token::load_or_create(home.path()).unwrap().reveal());
        assert_eq!(
            authenticate(&auth, &[(header::AUTHORIZATION, &local)]).await,
            Ok(Principal::administrator())
        );
        let again = Authenticator::open(home.path(), None).unwrap();
        assert_eq!(
            authenticate(&again, &[(header::AUTHORIZATION, &local)]).await,
            Ok(Principal::administrator())
        );
    }

    #[tokio::test]
    async fn a_token_authenticates_its_user() {
        let (home, auth) = auth();
        let ann = Principal { user: Some("ann".to_owned()), admin: false };
        let (token, secret) = token_store::generate("laptop", ann.clone(), unix_time(), None).unwrap();
        TokenStore::new(home.path().join(TOKENS_FILE)).add(token).unwrap();
        let bearer = format!("Bearer {}", secret.reveal());
        assert_eq!(authenticate(&auth, &[(header::AUTHORIZATION, &bearer)]).await, Ok(ann));
        let twice = [(header::AUTHORIZATION, &*bearer), (header::AUTHORIZATION, &*bearer)];
        assert_eq!(authenticate(&auth, &twice).await, Err(CredentialError::Invalid));
    }

    #[tokio::test]
    async fn a_login_code_is_redeemed_once_and_its_cookie_survives_a_restart() {
        let (home, auth) = auth();
        let code = auth.issue_login_code().unwrap();
        let value = auth.redeem_login_code(code.reveal()).unwrap().unwrap();
        assert_eq!(auth.redeem_login_code(code.reveal()).unwrap(), None);
        let cookie = format!("theme=dark; lango-1={}", value.reveal());
        let cookie = [(header::COOKIE, &*cookie)];
        assert_eq!(authenticate(&auth, &cookie).await, Ok(Principal::administrator()));
        let again = Authenticator::open(home.path(), None).unwrap();
        assert_eq!(authenticate(&again, &cookie).await, Ok(Principal::administrator()));
        assert_eq!(
            again.authenticate(&headers(&cookie), "lango-2").await,
            Err(CredentialError::Missing),
            "the cookie of another port"
        );
    }

    #[tokio::test]
    async fn an_invalid_token_is_refused_despite_a_valid_cookie() {
        let (_home, auth) = auth();
        let code = auth.issue_login_code().unwrap();
        let value = auth.redeem_login_code(code.reveal()).unwrap().unwrap();
        let cookie = format!("lango-1={}", value.reveal());
        let both = [(header::AUTHORIZATION, "Bearer guess"), (header::COOKIE, &*cookie)];
        assert_eq!(authenticate(&auth, &both).await, Err(CredentialError::Invalid));
    }
}
