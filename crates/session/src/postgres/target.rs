//! The URL of a database: its parameters, and a form without secrets for logs and errors.

use crate::{Error, Result, error::BoxError};
use std::{fmt, path::PathBuf};
use tokio_postgres::{Config, config::SslMode};

/// A database URL: `postgres://user:password@host:port/database?sslmode=verify-full`. `Debug` and `Display` mask the password.
#[derive(Clone, PartialEq, Eq)]
pub struct PostgresUrl(String);

/// What is verified about the server's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verification {
    /// Nothing: the connection is encrypted, but its server may be any.
    None,
    /// The chain, but not the name of the host.
    Chain,
    Full,
}

/// The parameters of a URL, split into those of the driver and those of this crate.
pub(super) struct DatabaseTarget {
    pub(super) config: Config,
    pub(super) verification: Verification,
    pub(super) root_certificate: Option<PathBuf>,
}

const SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];
const MASK: &str = "****";
/// Parameters with secrets.
const SECRETS: [&str; 2] = ["password", "sslpassword"];

impl PostgresUrl {
    /// `None` if the text is not a database URL.
    pub fn parse(text: &str) -> Option<Self> {
        SCHEMES.iter().any(|scheme| text.starts_with(scheme)).then(|| Self(text.to_owned()))
    }

    /// The passwords as they are written and as they are sent, so that they can be masked elsewhere.
    pub fn passwords(&self) -> Vec<String> {
        let query = self.0.split_once('?').map_or("", |(_, query)| query);
        let parameters = query.split('&').filter_map(|parameter| parameter.split_once('='));
        let parameters = parameters.filter(|(name, _)| SECRETS.contains(name)).map(|(_, value)| value);
        let mut passwords = Vec::new();
        for written in self.password().into_iter().chain(parameters).filter(|password| !password.is_empty()) {
            passwords.push(written.to_owned());
            passwords.extend(Some(decoded(written)).filter(|sent| sent != written));
        }
        passwords
    }

    fn password(&self) -> Option<&str> {
        let (start, end) = self.password_range()?;
        self.0.get(start..end)
    }

    fn password_range(&self) -> Option<(usize, usize)> {
        let start = self.0.find("://")? + 3;
        let authority = &self.0[start..];
        let authority = &authority[..authority.find(['/', '?', '#']).unwrap_or(authority.len())];
        let at = authority.rfind('@')?;
        let colon = authority[..at].find(':')?;
        Some((start + colon + 1, start + at))
    }

    /// The URL with itself as the "path" of errors.
    pub(super) fn masked_path(&self) -> PathBuf {
        PathBuf::from(self.to_string())
    }

    pub(super) fn target(&self) -> Result<DatabaseTarget> {
        let (address, query) = self.0.split_once('?').unwrap_or((&self.0, ""));
        let mut parameters: Vec<&str> = Vec::new();
        let (mut mode, mut root_certificate) = ("prefer".to_owned(), None);
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            match parameter.split_once('=') {
                Some(("sslmode", value)) => value.clone_into(&mut mode),
                Some(("sslrootcert", value)) => root_certificate = Some(PathBuf::from(decoded(value))),
                _ => parameters.push(parameter),
            }
        }
        let (ssl_mode, verification) = match (mode.as_str(), &root_certificate) {
            ("disable", _) => (SslMode::Disable, Verification::None),
            ("prefer" | "allow", _) => (SslMode::Prefer, Verification::None),
            // As in libpq, a root certificate makes `require` verify the chain.
            ("require", None) => (SslMode::Require, Verification::None),
            ("require" | "verify-ca", _) => (SslMode::Require, Verification::Chain),
            ("verify-full", _) => (SslMode::Require, Verification::Full),
            (other, _) => {
                let expected = "disable, prefer, require, verify-ca or verify-full";
                return Err(self.refused(format!("sslmode is {other}, expected {expected}").into()));
            }
        };
        let url = format!("{address}?{}", parameters.join("&"));
        let mut config: Config = url.parse().map_err(|error: tokio_postgres::Error| {
            let cause =
                std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
            self.refused(self.without_password(&cause).into())
        })?;
        config.ssl_mode(ssl_mode);
        if config.get_hosts().is_empty() {
            return Err(self.refused("it names no host".into()));
        }
        Ok(DatabaseTarget { config, verification, root_certificate })
    }

    fn refused(&self, source: BoxError) -> Error {
        Error::Open { path: self.masked_path(), source }
    }

    /// Removes the password from a message of the parser.
    fn without_password(&self, text: &str) -> String {
        self.passwords().iter().fold(text.to_owned(), |text, password| text.replace(password, MASK))
    }
}

/// Decodes `%2F` and other escapes of a parameter. A wrong escape is kept.
fn decoded(value: &str) -> String {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let escape = (*first == b'%').then(|| tail.get(..2)).flatten();
        let escape = escape.and_then(|digits| std::str::from_utf8(digits).ok());
        match escape.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

impl fmt::Display for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = self.0.clone();
        if let Some((start, end)) = self.password_range() {
            text.replace_range(start..end, MASK);
        }
        // The password may also be a parameter.
        let (address, query) = text.split_once('?').map_or((text.as_str(), None), |(a, q)| (a, Some(q)));
        f.write_str(address)?;
        let Some(query) = query else { return Ok(()) };
        let masked = query.split('&').map(|parameter| match parameter.split_once('=') {
            Some((name, _)) if SECRETS.contains(&name) => format!("{name}={MASK}"),
            _ => parameter.to_owned(),
        });
        write!(f, "?{}", masked.collect::<Vec<_>>().join("&"))
    }
}

impl fmt::Debug for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PostgresUrl({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> PostgresUrl {
        PostgresUrl::parse(text).unwrap()
    }

    #[test]
    fn the_password_is_masked_wherever_it_stands() {
        for (text, shown) in [
            ("postgres://u:s3cr3t@h/db", "postgres://u:****@h/db"),
            (
                "postgresql://u:a%40b@h:5433/db?sslmode=require",
                "postgresql://u:****@h:5433/db?sslmode=require",
            ),
            ("postgres://u:p@ss@h/db", "postgres://u:****@h/db"),
            ("postgres://u@h/db?password=s3cr3t&x=1", "postgres://u@h/db?password=****&x=1"),
            ("postgres://u@h/db", "postgres://u@h/db"),
            ("postgres:///db?host=/run/postgresql", "postgres:///db?host=/run/postgresql"),
        ] {
            assert_eq!(url(text).to_string(), shown);
            assert!(!format!("{:?}", url(text)).contains("s3cr3t"));
        }
        assert_eq!(PostgresUrl::parse("lango.db"), None);
    }

    #[test]
    fn an_error_does_not_contain_the_password() {
        for text in [
            "postgres://u:s3cr3t@h/db?sslmode=on",
            "postgres://u:s3cr3t@h:port/db",
            "postgres://u:s3cr3t@h/db?unknown=1",
        ] {
            let error = url(text).target().map(drop).unwrap_err().with_causes();
            assert!(!error.contains("s3cr3t"), "{error}");
        }
    }

    #[test]
    fn sslmode_decides_what_is_verified() {
        for (query, mode, verification) in [
            ("", SslMode::Prefer, Verification::None),
            ("?sslmode=disable", SslMode::Disable, Verification::None),
            ("?sslmode=require", SslMode::Require, Verification::None),
            ("?sslmode=require&sslrootcert=%2Fca.pem", SslMode::Require, Verification::Chain),
            ("?sslmode=verify-ca", SslMode::Require, Verification::Chain),
            ("?sslrootcert=/ca.pem&sslmode=verify-full", SslMode::Require, Verification::Full),
        ] {
            let target = url(&format!("postgres://u@h/db{query}")).target().unwrap();
            assert_eq!((target.config.get_ssl_mode(), target.verification), (mode, verification), "{query}");
            if query.contains("sslrootcert") {
                assert_eq!(target.root_certificate, Some("/ca.pem".into()));
            }
        }
    }
}
