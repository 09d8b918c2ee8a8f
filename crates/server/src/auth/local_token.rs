//! The token of whoever sits at the machine: made at the first start, in a file that is its owner's alone.

use super::{AuthError, TokenSecret, private_file};
use std::{io, path::Path};

/// The file in the data directory.
pub const FILE: &str = "server-token";

/// The token, made if there is none.
pub fn token(home: &Path) -> Result<TokenSecret, AuthError> {
    let path = home.join(FILE);
    let read = || private_file::read(&path)?.map(|text| sound(&text)).transpose();
    let made = || {
        if let Some(token) = read()? {
            return Ok(token);
        }
        private_file::create(&path, &format!("{}\n", TokenSecret::fresh()?.reveal()))?;
        // Another process may have been first.
        read()?.ok_or_else(|| io::Error::other("it was removed as soon as it was made"))
    };
    made().map_err(|source| AuthError::Local { path: path.clone(), source })
}

/// The token, if one was made: for those who want to be let in.
pub fn known(home: &Path) -> Result<Option<TokenSecret>, AuthError> {
    let path = home.join(FILE);
    let read = private_file::read(&path).and_then(|text| text.map(|text| sound(&text)).transpose());
    read.map_err(|source| AuthError::Local { path, source })
}

/// A token that is short was not made here, and could be guessed.
fn sound(text: &str) -> io::Result<TokenSecret> {
    let text = text.trim();
    let is_sound = text.len() >= 32 && text.bytes().all(|byte| byte.is_ascii_graphic());
    let fix = "it holds no token of at least 32 characters; remove it, and the next start makes a new one";
    if is_sound { Ok(TokenSecret::known(text)) } else { Err(io::Error::other(fix)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::MetadataExt};

    #[test]
    fn it_is_made_once_and_its_owners_alone() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(known(home.path()).unwrap(), None);
        let made = token(home.path()).unwrap();
        assert_eq!(token(home.path()).unwrap(), made);
        assert_eq!(known(home.path()).unwrap(), Some(made));
        assert_eq!(fs::metadata(home.path().join(FILE)).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn an_empty_file_lets_nobody_in() {
        let home = tempfile::tempdir().unwrap();
        private_file::create(&home.path().join(FILE), "\n").unwrap();
        assert!(token(home.path()).unwrap_err().to_string().contains("remove it"));
    }
}
