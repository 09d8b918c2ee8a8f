//! A file of named tokens, stored as digests. It is reloaded when it changes, so that revocation takes effect at once.

use super::{
    private_file,
    secret::{TokenDigest, TokenSecret},
};
use crate::principal::Principal;
use file_stamp::FileStamp;
use lock::LockExt;
use serde::{Deserialize, Serialize};
use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

/// A stored token: everything but its secret. Times are Unix timestamps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TokenRecord {
    pub name: String,
    /// The only user that the token may act as; `None` with `admin` for all users.
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
    pub fn is_expired(&self, now: u64) -> bool {
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
    #[error("the token {0:?} exists already; revoke it first, or choose another name")]
    NameTaken(String),
    #[error("no token is named {0:?}; lango token list shows them")]
    UnknownName(String),
}

#[derive(Debug)]
pub struct TokenStore {
    path: PathBuf,
    cache: Mutex<CachedTokens>,
}

#[derive(Debug, Default)]
struct CachedTokens {
    stamp: Option<FileStamp>,
    tokens: Arc<Vec<TokenRecord>>,
}

#[derive(Default, Serialize, Deserialize)]
struct TokenFile {
    tokens: Vec<TokenRecord>,
}

impl TokenStore {
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), cache: Mutex::default() }
    }

    /// All tokens, including expired ones.
    pub fn tokens(&self) -> Result<Arc<Vec<TokenRecord>>, TokenStoreError> {
        self.load().map_err(|source| self.file_error(source))
    }

    /// The token with a digest, if it is valid at `now`. `None` if the file cannot be read.
    pub fn find(&self, digest: TokenDigest, now: u64) -> Option<TokenRecord> {
        let tokens = self.load().ok()?;
        // Compares with every token, so that the time does not depend on the position of a match.
        let found =
            tokens.iter().fold(None, |found, token| if token.sha256 == digest { Some(token) } else { found });
        found.filter(|token| !token.is_expired(now)).cloned()
    }

    /// Stores a token under its name.
    pub fn add(&self, token: TokenRecord) -> Result<(), TokenStoreError> {
        let mut taken = None;
        self.change(|tokens| match tokens.iter().find(|other| other.name == token.name) {
            Some(other) => taken = Some(other.name.clone()),
            None => tokens.push(token),
        })?;
        taken.map_or(Ok(()), |name| Err(TokenStoreError::NameTaken(name)))
    }

    pub fn revoke(&self, name: &str) -> Result<(), TokenStoreError> {
        let mut found = false;
        self.change(|tokens| {
            found = tokens.iter().any(|token| token.name == name);
            tokens.retain(|token| token.name != name);
        })?;
        if found { Ok(()) } else { Err(TokenStoreError::UnknownName(name.to_owned())) }
    }

    /// Removes expired tokens.
    pub fn remove_expired(&self, now: u64) -> Result<(), TokenStoreError> {
        if self.tokens()?.iter().any(|token| token.is_expired(now)) {
            self.change(|tokens| tokens.retain(|token| !token.is_expired(now)))?;
        }
        Ok(())
    }

    fn change(&self, change: impl FnOnce(&mut Vec<TokenRecord>)) -> Result<(), TokenStoreError> {
        let changed = private_file::with_lock(&self.path, || {
            let mut file = read(&self.path)?;
            change(&mut file.tokens);
            private_file::replace(&self.path, &serde_json::to_string_pretty(&file)?)
        });
        changed.map_err(|source| self.file_error(source))
    }

    fn load(&self) -> io::Result<Arc<Vec<TokenRecord>>> {
        let stamp = private_file::stamp(&self.path)?;
        let mut cache = self.cache.locked();
        if cache.stamp != stamp {
            *cache = CachedTokens { tokens: Arc::new(read(&self.path)?.tokens), stamp };
        }
        Ok(Arc::clone(&cache.tokens))
    }

    fn file_error(&self, source: io::Error) -> TokenStoreError {
        TokenStoreError::File { path: self.path.clone(), source }
    }
}

fn read(path: &Path) -> io::Result<TokenFile> {
    let Some(text) = private_file::read(path)? else { return Ok(TokenFile::default()) };
    Ok(serde_json::from_str(&text)?)
}

/// Generates a token. The secret is not stored anywhere.
pub fn generate(
    name: &str,
    principal: Principal,
    now: u64,
    expires_at: Option<u64>,
) -> io::Result<(TokenRecord, TokenSecret)> {
    let secret = TokenSecret::generate()?;
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

    fn add(store: &TokenStore, name: &str, expires_at: Option<u64>) -> TokenDigest {
        let (token, secret) = generate(name, user("ann"), 1000, expires_at).unwrap();
        store.add(token).unwrap();
        secret.digest()
    }

    #[test]
    fn a_token_is_found_until_it_expires() {
        let (_home, store) = store();
        let digest = add(&store, "laptop", Some(2000));
        assert_eq!(store.find(digest, 1999).unwrap().principal(), user("ann"));
        assert_eq!(store.find(digest, 2000), None);
        assert_eq!(store.find(TokenDigest::new("guess"), 1999), None);
    }

    #[test]
    fn a_revoked_token_is_refused_by_a_store_that_has_cached_it() {
        let (home, store) = store();
        let digest = add(&store, "laptop", None);
        assert!(store.find(digest, 0).is_some());
        let other_process = TokenStore::new(home.path().join("tokens.json"));
        other_process.revoke("laptop").unwrap();
        assert_eq!(store.find(digest, 0), None);
        assert!(matches!(other_process.revoke("laptop"), Err(TokenStoreError::UnknownName(_))));
    }

    #[test]
    fn a_name_can_be_used_once() {
        let (_home, store) = store();
        add(&store, "laptop", None);
        let (token, _) = generate("laptop", user("bob"), 0, None).unwrap();
        assert!(matches!(store.add(token), Err(TokenStoreError::NameTaken(_))));
        assert_eq!(store.tokens().unwrap().len(), 1);
    }

    #[test]
    fn the_secret_is_not_in_the_file() {
        let (home, store) = store();
        let (token, secret) = generate("laptop", user("ann"), 0, None).unwrap();
        store.add(token).unwrap();
        let text = fs::read_to_string(home.path().join("tokens.json")).unwrap();
        assert!(text.contains("laptop") && !text.contains(secret.reveal()), "{text}");
    }

    #[test]
    fn an_invalid_file_matches_no_token_and_is_named_in_the_error() {
        let (home, store) = store();
        let digest = add(&store, "laptop", None);
        fs::write(home.path().join("tokens.json"), "{").unwrap();
        assert_eq!(store.find(digest, 0), None);
        assert!(store.tokens().unwrap_err().to_string().contains("tokens.json"));
    }

    #[test]
    fn only_expired_tokens_are_removed() {
        let (_home, store) = store();
        add(&store, "old", Some(2000));
        let digest = add(&store, "new", Some(4000));
        store.remove_expired(3000).unwrap();
        assert_eq!(store.tokens().unwrap().len(), 1);
        assert!(store.find(digest, 3000).is_some());
    }

    #[test]
    fn concurrent_additions_are_all_stored() {
        let (home, store) = store();
        std::thread::scope(|scope| {
            for name in 0..8 {
                let path = home.path().join("tokens.json");
                scope.spawn(move || add(&TokenStore::new(path), &name.to_string(), None));
            }
        });
        assert_eq!(store.tokens().unwrap().len(), 8);
    }
}
