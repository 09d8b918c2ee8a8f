//! Tokens by name, hashed, in a file. Who may come in is what the file says now: it is read again when it has changed.

use super::{
    private_file::{self, FileRevision},
    secret::{TokenDigest, TokenSecret},
};
use crate::principal::Principal;
use serde::{Deserialize, Serialize};
use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

/// A token as it is kept: everything but itself. Times are seconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TokenRecord {
    pub name: String,
    /// The only user that it is good for; without one, any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    #[serde(default)]
    pub admin: bool,
    pub sha256: TokenDigest,
    pub created_at: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
}

impl TokenRecord {
    pub fn is_over(&self, now: u64) -> bool {
        self.expires_at.is_some_and(|end| end <= now)
    }

    pub fn principal(&self) -> Principal {
        Principal { user: self.user.clone(), admin: self.admin }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum TokenStoreError {
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("there is already a token {0:?}; revoke it first, or choose another name")]
    Taken(String),
    #[error("there is no token {0:?}; lango token list shows them")]
    Unknown(String),
}

#[derive(Debug)]
pub struct TokenStore {
    path: PathBuf,
    seen: Mutex<CachedTokens>,
}

#[derive(Debug, Default)]
struct CachedTokens {
    stamp: Option<FileRevision>,
    tokens: Arc<Vec<TokenRecord>>,
}

#[derive(Default, Serialize, Deserialize)]
struct TokenFile {
    tokens: Vec<TokenRecord>,
}

impl TokenStore {
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), seen: Mutex::default() }
    }

    /// All of them, also those that are over.
    pub fn tokens(&self) -> Result<Arc<Vec<TokenRecord>>, TokenStoreError> {
        self.newest().map_err(|source| self.failed(source))
    }

    /// The token of a digest, if it is good now. Nobody gets in by a file that cannot be read.
    pub fn find(&self, digest: TokenDigest, now: u64) -> Option<TokenRecord> {
        let tokens = self.newest().ok()?;
        // All are looked at, so that the time says nothing.
        let found =
            tokens.iter().fold(None, |found, token| if token.sha256 == digest { Some(token) } else { found });
        found.filter(|token| !token.is_over(now)).cloned()
    }

    /// Keeps a token under its name.
    pub fn add(&self, token: TokenRecord) -> Result<(), TokenStoreError> {
        let mut taken = None;
        self.change(|tokens| match tokens.iter().find(|other| other.name == token.name) {
            Some(other) => taken = Some(other.name.clone()),
            None => tokens.push(token),
        })?;
        taken.map_or(Ok(()), |name| Err(TokenStoreError::Taken(name)))
    }

    pub fn revoke(&self, name: &str) -> Result<(), TokenStoreError> {
        let mut found = false;
        self.change(|tokens| {
            found = tokens.iter().any(|token| token.name == name);
            tokens.retain(|token| token.name != name);
        })?;
        if found { Ok(()) } else { Err(TokenStoreError::Unknown(name.to_owned())) }
    }

    /// Forgets what is over.
    pub fn sweep(&self, now: u64) -> Result<(), TokenStoreError> {
        if self.tokens()?.iter().any(|token| token.is_over(now)) {
            self.change(|tokens| tokens.retain(|token| !token.is_over(now)))?;
        }
        Ok(())
    }

    fn change(&self, change: impl FnOnce(&mut Vec<TokenRecord>)) -> Result<(), TokenStoreError> {
        let changed = private_file::alone(&self.path, || {
            let mut content = read(&self.path)?;
            change(&mut content.tokens);
            private_file::replace(&self.path, &serde_json::to_string_pretty(&content)?)
        });
        changed.map_err(|source| self.failed(source))
    }

    fn newest(&self) -> io::Result<Arc<Vec<TokenRecord>>> {
        let stamp = private_file::stamp(&self.path)?;
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.stamp != stamp {
            *seen = CachedTokens { tokens: Arc::new(read(&self.path)?.tokens), stamp };
        }
        Ok(Arc::clone(&seen.tokens))
    }

    fn failed(&self, source: io::Error) -> TokenStoreError {
        TokenStoreError::File { path: self.path.clone(), source }
    }
}

fn read(path: &Path) -> io::Result<TokenFile> {
    let Some(text) = private_file::read(path)? else { return Ok(TokenFile::default()) };
    Ok(serde_json::from_str(&text)?)
}

/// A token and its secret, which is nowhere else.
pub fn fresh(
    name: &str,
    principal: Principal,
    now: u64,
    expires_at: Option<u64>,
) -> io::Result<(TokenRecord, TokenSecret)> {
    let secret = TokenSecret::fresh()?;
    let token = TokenRecord {
        name: name.to_owned(),
        user: principal.user,
        admin: principal.admin,
        sha256: secret.digest(),
        created_at: now,
        expires_at,
    };
    Ok((token, secret))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn user(name: &str) -> Principal {
        Principal { user: Some(name.to_owned()), admin: false }
    }

    fn store() -> (tempfile::TempDir, TokenStore) {
        let home = tempfile::tempdir().unwrap();
        let store = TokenStore::new(home.path().join("tokens.json"));
        (home, store)
    }

    fn added(store: &TokenStore, name: &str, expires_at: Option<u64>) -> TokenDigest {
        let (token, secret) = fresh(name, user("ann"), 1000, expires_at).unwrap();
        store.add(token).unwrap();
        secret.digest()
    }

    #[test]
    fn a_token_is_found_until_it_is_over() {
        let (_home, store) = store();
        let digest = added(&store, "laptop", Some(2000));
        assert_eq!(store.find(digest, 1999).unwrap().principal(), user("ann"));
        assert_eq!(store.find(digest, 2000), None);
        assert_eq!(store.find(TokenDigest::of("guess"), 1999), None);
    }

    #[test]
    fn a_revoked_token_is_gone_for_a_server_that_has_seen_it() {
        let (home, store) = store();
        let digest = added(&store, "laptop", None);
        assert!(store.find(digest, 0).is_some());
        let elsewhere = TokenStore::new(home.path().join("tokens.json"));
        elsewhere.revoke("laptop").unwrap();
        assert_eq!(store.find(digest, 0), None);
        assert!(matches!(elsewhere.revoke("laptop"), Err(TokenStoreError::Unknown(_))));
    }

    #[test]
    fn a_name_is_given_once() {
        let (_home, store) = store();
        added(&store, "laptop", None);
        let (token, _) = fresh("laptop", user("bob"), 0, None).unwrap();
        assert!(matches!(store.add(token), Err(TokenStoreError::Taken(_))));
        assert_eq!(store.tokens().unwrap().len(), 1);
    }

    #[test]
    fn the_secret_is_not_in_the_file() {
        let (home, store) = store();
        let (token, secret) = fresh("laptop", user("ann"), 0, None).unwrap();
        store.add(token).unwrap();
        let text = fs::read_to_string(home.path().join("tokens.json")).unwrap();
        assert!(text.contains("laptop") && !text.contains(secret.reveal()), "{text}");
    }

    #[test]
    fn a_file_that_is_spoilt_lets_nobody_in_and_says_where_it_is() {
        let (home, store) = store();
        let digest = added(&store, "laptop", None);
        fs::write(home.path().join("tokens.json"), "{").unwrap();
        assert_eq!(store.find(digest, 0), None);
        assert!(store.tokens().unwrap_err().to_string().contains("tokens.json"));
    }

    #[test]
    fn what_is_over_is_swept_and_the_rest_stays() {
        let (_home, store) = store();
        added(&store, "old", Some(2000));
        let digest = added(&store, "new", Some(4000));
        store.sweep(3000).unwrap();
        assert_eq!(store.tokens().unwrap().len(), 1);
        assert!(store.find(digest, 3000).is_some());
    }

    #[test]
    fn names_that_are_added_at_the_same_time_are_all_kept() {
        let (home, store) = store();
        std::thread::scope(|scope| {
            for name in 0..8 {
                let path = home.path().join("tokens.json");
                scope.spawn(move || added(&TokenStore::new(path), &name.to_string(), None));
            }
        });
        assert_eq!(store.tokens().unwrap().len(), 8);
    }
}
