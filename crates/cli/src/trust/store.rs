//! The trusted folders, in `trust.json` of the data directory. The file is private to its owner and replaced atomically under a
//! lock. A file that cannot be read or verified trusts nothing.

use super::permission::{Permission, Permissions};
use ::tools::mcp::digest;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use server::auth::{private_file, unix_time};
use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

/// The name of the file in the data directory.
const FILE: &str = "trust.json";

#[derive(Clone, Debug)]
pub(crate) struct TrustStore {
    path: PathBuf,
}

/// A trusted folder with the permissions that a person has seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TrustRecord {
    /// A Unix timestamp.
    pub(crate) trusted_at: u64,
    /// The SHA-256 of the permissions.
    sha256: String,
    /// As JSON, so that permissions of a later version do not invalidate the file.
    permissions: Vec<Value>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TrustFile {
    /// By the canonical path of the folder.
    folders: BTreeMap<String, TrustRecord>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum TrustError {
    #[error("{} cannot be used: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("{} is damaged; remove it and trust your folders again", path.display())]
    Damaged { path: PathBuf },
    #[error("the path of {} is not valid UTF-8; rename the folder, or use --config", folder.display())]
    NotUtf8 { folder: PathBuf },
}

impl TrustRecord {
    fn new(permissions: &Permissions) -> Self {
        let permissions: Vec<Value> =
            permissions.iter().filter_map(|permission| serde_json::to_value(permission).ok()).collect();
        let sha256 = hash(&permissions);
        Self { trusted_at: unix_time(), sha256, permissions }
    }

    /// The permissions that this version knows. Others cannot be requested.
    pub(crate) fn permissions(&self) -> Permissions {
        let known = |value: &Value| serde_json::from_value::<Permission>(value.clone()).ok();
        self.permissions.iter().filter_map(known).collect()
    }
}

fn hash(permissions: &[Value]) -> String {
    let texts: Vec<String> = permissions.iter().map(Value::to_string).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    digest(&texts)
}

impl TrustStore {
    pub(crate) fn new(home: &Path) -> Self {
        Self { path: home.join(FILE) }
    }

    /// All trusted folders, by path.
    pub(crate) fn folders(&self) -> Result<BTreeMap<String, TrustRecord>, TrustError> {
        self.read().map(|file| file.folders)
    }

    /// The permissions that a folder was trusted with; `None` if it is not trusted.
    pub(crate) fn granted(&self, folder: &Path) -> Result<Option<Permissions>, TrustError> {
        let key = key(folder)?;
        Ok(self.read()?.folders.get(key).map(TrustRecord::permissions))
    }

    /// Trusts a folder with these permissions instead of earlier ones.
    pub(crate) fn set(&self, folder: &Path, permissions: &Permissions) -> Result<(), TrustError> {
        let key = key(folder)?.to_owned();
        self.change(|folders| drop(folders.insert(key, TrustRecord::new(permissions))))
    }

    /// Trusts a folder with these permissions beside earlier ones.
    pub(super) fn extend(&self, folder: &Path, permissions: &Permissions) -> Result<Permissions, TrustError> {
        let key = key(folder)?.to_owned();
        let mut all = permissions.clone();
        self.change(|folders| {
            all.extend(folders.get(&key).map(TrustRecord::permissions).unwrap_or_default());
            folders.insert(key, TrustRecord::new(&all));
        })?;
        Ok(all)
    }

    /// Returns `false` if the folder is not trusted.
    pub(crate) fn revoke(&self, folder: &str) -> Result<bool, TrustError> {
        let mut found = false;
        self.change(|folders| found = folders.remove(folder).is_some())?;
        Ok(found)
    }

    fn read(&self) -> Result<TrustFile, TrustError> {
        let text = private_file::read(&self.path).map_err(|source| self.file_error(source))?;
        let Some(text) = text else { return Ok(TrustFile::default()) };
        let file: Option<TrustFile> = serde_json::from_str(&text).ok();
        let is_valid =
            |file: &TrustFile| file.folders.values().all(|record| record.sha256 == hash(&record.permissions));
        file.filter(is_valid).ok_or_else(|| TrustError::Damaged { path: self.path.clone() })
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<String, TrustRecord>)) -> Result<(), TrustError> {
        let mut failed = None;
        let changed = private_file::with_lock(&self.path, || {
            let mut file = match self.read() {
                Ok(file) => file,
                Err(error) => {
                    failed = Some(error);
                    return Ok(());
                }
            };
            change(&mut file.folders);
            private_file::replace(&self.path, &serde_json::to_string_pretty(&file)?)
        });
        changed.map_err(|source| self.file_error(source))?;
        failed.map_or(Ok(()), Err)
    }

    fn file_error(&self, source: io::Error) -> TrustError {
        TrustError::File { path: self.path.clone(), source }
    }
}

fn key(folder: &Path) -> Result<&str, TrustError> {
    folder.to_str().ok_or_else(|| TrustError::NotUtf8 { folder: folder.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        fs,
        os::unix::fs::{MetadataExt, PermissionsExt},
    };

    fn permissions(names: &[&str]) -> Permissions {
        let variable =
            |name: &&str| Permission::Variable { name: (*name).to_owned(), setting: String::new() };
        names.iter().map(variable).collect()
    }

    #[test]
    fn trust_is_stored_for_the_owner_until_it_is_revoked() {
        let home = tempfile::tempdir().unwrap();
        let store = TrustStore::new(&home.path().join("data"));
        let folder = Path::new("/a/b");
        assert_eq!(store.granted(folder).unwrap(), None);
        store.set(folder, &permissions(&["ONE"])).unwrap();
        assert_eq!(store.granted(folder).unwrap(), Some(permissions(&["ONE"])));
        assert_eq!(store.granted(Path::new("/a")).unwrap(), None);
        assert_eq!(store.granted(Path::new("/a/b/c")).unwrap(), None);
        store.extend(folder, &permissions(&["TWO"])).unwrap();
        assert_eq!(store.granted(folder).unwrap(), Some(permissions(&["ONE", "TWO"])));
        assert_eq!(fs::metadata(home.path().join("data/trust.json")).unwrap().mode() & 0o777, 0o600);
        assert!(store.revoke("/a/b").unwrap() && !store.revoke("/a/b").unwrap());
        assert_eq!(store.granted(folder).unwrap(), None);
    }

    #[test]
    fn damaged_or_shared_file_trusts_nothing_and_is_not_overwritten() {
        let home = tempfile::tempdir().unwrap();
        let store = TrustStore::new(home.path());
        let (folder, file) = (Path::new("/a"), home.path().join("trust.json"));
        store.set(folder, &permissions(&["ONE"])).unwrap();
        let valid = fs::read_to_string(&file).unwrap();
        for damaged in ["", "{", "{\"folders\": 1}", &valid.replace("ONE", "TWO"), "\u{0}"] {
            fs::write(&file, damaged).unwrap();
            assert!(matches!(store.granted(folder), Err(TrustError::Damaged { .. })), "{damaged}");
            assert!(store.set(folder, &permissions(&[])).is_err());
            assert_eq!(fs::read_to_string(&file).unwrap(), damaged);
        }
        fs::write(&file, &valid).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
        assert!(store.granted(folder).unwrap_err().to_string().contains("chmod 600"));
    }

    #[test]
    fn permissions_of_a_later_version_are_kept_and_grant_nothing_here() {
        let home = tempfile::tempdir().unwrap();
        let store = TrustStore::new(home.path());
        let later = vec![serde_json::json!({"permission": "later", "x": 1})];
        let record = TrustRecord { trusted_at: 0, sha256: hash(&later), permissions: later };
        store.change(|folders| drop(folders.insert("/a".to_owned(), record))).unwrap();
        assert_eq!(store.granted(Path::new("/a")).unwrap(), Some(permissions(&[])));
    }
}
