//! Where sessions are stored: a SQLite file, or a PostgreSQL database.

use super::{ConfigError, Env, Filled};
use session::postgres::PostgresUrl;
use std::{
    fmt,
    path::{Path, PathBuf},
};

/// The database of the sessions. `Debug` and `Display` mask the password of a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Database {
    File(PathBuf),
    Postgres(PostgresUrl),
}

impl Database {
    /// The variable comes before the file, whose relative paths start at `base`.
    pub(super) fn resolve(
        written: Option<&str>,
        env: &Env,
        (base, home, source): (&Path, &Path, &Path),
    ) -> Result<Self, ConfigError> {
        if let Some(path) = env.path("LANGO_DATABASE") {
            let url = path.to_str().and_then(PostgresUrl::parse);
            return Ok(url.map_or(Self::File(path), Self::Postgres));
        }
        let Some(written) = written else { return Ok(Self::File(home.join("lango.db"))) };
        let filled = Filled::new(written, env);
        let text = filled.get().map_err(|variable| ConfigError::Value {
            path: source.to_path_buf(),
            message: format!("database contains ${{{variable}}}, which is not set"),
        })?;
        Ok(PostgresUrl::parse(text).map_or_else(|| Self::File(base.join(text)), Self::Postgres))
    }

    /// The path of a file.
    pub(crate) fn file(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::Postgres(_) => None,
        }
    }

    /// The texts that must be masked in outputs.
    pub(super) fn secrets(&self) -> Vec<String> {
        match self {
            Self::File(_) => Vec::new(),
            Self::Postgres(url) => url.passwords(),
        }
    }
}

impl fmt::Display for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Postgres(url) => url.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn database(written: Option<&str>, env: &[(&str, &str)]) -> Result<Database, ConfigError> {
        let env = Env::of(env);
        let places = (Path::new("/base"), Path::new("/home"), Path::new("lango.toml"));
        Database::resolve(written, &env, places)
    }

    #[test]
    fn a_url_is_a_postgresql_database_and_anything_else_a_path() {
        assert_eq!(database(None, &[]).unwrap(), Database::File("/home/lango.db".into()));
        assert_eq!(database(Some("x.db"), &[]).unwrap(), Database::File("/base/x.db".into()));
        let url = "postgresql://ann@db/lango";
        assert!(matches!(database(Some(url), &[]).unwrap(), Database::Postgres(_)));
        assert!(matches!(database(Some("x.db"), &[("LANGO_DATABASE", url)]).unwrap(), Database::Postgres(_)));
    }

    #[test]
    fn variables_are_filled_in_and_their_secrets_are_masked() {
        let written = Some("postgres://ann:${PASSWORD}@db/lango");
        let found = database(written, &[("PASSWORD", "s3cr3t%2F")]).unwrap();
        assert_eq!(found.to_string(), "postgres://ann:****@db/lango");
        assert!(!format!("{found:?}").contains("s3cr3t"));
        assert_eq!(found.secrets(), ["s3cr3t%2F", "s3cr3t/"]);
        let whole = database(Some("${DATABASE_URL}"), &[("DATABASE_URL", "postgres://ann:s3cr3t@db/lango")]);
        assert_eq!(whole.unwrap().secrets(), ["s3cr3t"]);
        let missing = database(written, &[]).unwrap_err().to_string();
        assert_eq!(missing, "lango.toml: database contains ${PASSWORD}, which is not set");
    }
}
