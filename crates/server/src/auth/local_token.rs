//! The local token, of the local administrator: generated at the first start, in a file that only the owner can read.

use super::{AuthError, TokenSecret, private_file};
use std::{io, path::Path};

/// The name of the file in the data directory.
pub const FILE: &str = "server-token";

/// Reads the token; generates it if there is none.
pub fn load_or_create(home: &Path) -> Result<TokenSecret, AuthError> {
    let path = home.join(FILE);
    let read = || private_file::read(&path)?.map(|text| parse(&text)).transpose();
    let load = || {
        if let Some(token) = read()? {
            return Ok(token);
        }
        private_file::create(&path, &format!("{}\n", TokenSecret::generate()?.reveal()))?;
        // Another process may have created the file first.
        read()?.ok_or_else(|| io::Error::other("the file was removed while it was created"))
    };
    load().map_err(|source| AuthError::LocalToken { path: path.clone(), source })
}

/// Reads the token, if it was generated.
pub fn load(home: &Path) -> Result<Option<TokenSecret>, AuthError> {
    let path = home.join(FILE);
    let read = private_file::read(&path).and_then(|text| text.map(|text| parse(&text)).transpose());
    read.map_err(|source| AuthError::LocalToken { path, source })
}

/// A shorter token was not generated here and could be guessed.
fn parse(text: &str) -> io::Result<TokenSecret> {
    let text = text.trim();
    let is_valid = text.len() >= 32 && text.bytes().all(|byte| byte.is_ascii_graphic());
    let fix = "contains no token of at least 32 characters; remove the file, and the next start generates a new one";
    if is_valid { Ok(TokenSecret::from_text(text)) } else { Err(io::Error::other(fix)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::MetadataExt};

    #[test]
    fn the_token_is_generated_once_in_a_private_file() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(load(home.path()).unwrap(), None);
        let created = load_or_create(home.path()).unwrap();
        assert_eq!(load_or_create(home.path()).unwrap(), created);
        assert_eq!(load(home.path()).unwrap(), Some(created));
        assert_eq!(fs::metadata(home.path().join(FILE)).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn an_empty_file_is_refused() {
        let home = tempfile::tempdir().unwrap();
        private_file::create(&home.path().join(FILE), "\n").unwrap();
        assert!(load_or_create(home.path()).unwrap_err().to_string().contains("remove the file"));
    }
}
