//! Maps errors of the driver and the pool to [`Error`], and says which of them a new attempt may cure.

use crate::{Error, error::BoxError};
use deadpool_postgres::PoolError;
use std::path::Path;
use tokio_postgres::error::SqlState;

pub(super) type JobResult<T> = Result<T, JobError>;

/// Why an attempt failed.
#[derive(Debug)]
pub(super) enum JobError {
    /// The call is refused. A new attempt would be refused as well.
    Refused(Error),
    Sql(tokio_postgres::Error),
    /// No connection could be made.
    Connect(BoxError),
    /// The connection did not answer in time.
    Silent,
    /// Another transaction changed what this one relies on.
    Contended,
    /// All connections of the pool were in use for too long.
    PoolExhausted,
}

/// What a new attempt needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cure {
    /// The transaction was rolled back; the same connection can be used.
    Repeat,
    /// Another connection. The outcome is unknown if COMMIT was sent.
    Reconnect,
    /// Another connection, but the error is returned: an operator or a failover has to act.
    Later,
    None,
}

impl From<Error> for JobError {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl From<tokio_postgres::Error> for JobError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<PoolError> for JobError {
    fn from(error: PoolError) -> Self {
        match error {
            PoolError::Timeout(deadpool_postgres::TimeoutType::Wait) => Self::PoolExhausted,
            PoolError::Timeout(_) => Self::Silent,
            PoolError::Backend(error) => Self::of_connect(error),
            PoolError::PostCreateHook(deadpool_postgres::HookError::Backend(error)) => {
                Self::of_connect(error)
            }
            PoolError::Closed => Self::Refused(Error::Closed),
            PoolError::NoRuntimeSpecified | PoolError::PostCreateHook(_) => Self::Connect(error.into()),
        }
    }
}

impl JobError {
    /// An error of the server keeps its code; everything else means that there is no connection.
    fn of_connect(error: tokio_postgres::Error) -> Self {
        if error.code().is_some() { Self::Sql(error) } else { Self::Connect(error.into()) }
    }

    pub(super) fn cure(&self) -> Cure {
        match self {
            Self::Refused(_) | Self::PoolExhausted => Cure::None,
            Self::Contended => Cure::Repeat,
            Self::Connect(_) | Self::Silent => Cure::Reconnect,
            Self::Sql(error) => match error.code() {
                Some(code) => cure_of(code),
                None if error.is_closed() || is_io(error) => Cure::Reconnect,
                None => Cure::None,
            },
        }
    }

    /// Whether the statement violates this constraint.
    pub(super) fn violates(&self, constraint: &str) -> bool {
        let Self::Sql(error) = self else { return false };
        error.as_db_error().is_some_and(|error| error.constraint() == Some(constraint))
    }

    /// The error for the caller. `database` is the masked URL.
    pub(super) fn at(self, database: &Path) -> Error {
        let path = database.to_path_buf();
        match self {
            Self::Refused(error) => error,
            Self::PoolExhausted => Error::PoolExhausted { path },
            Self::Contended => {
                Error::Locked { path, source: "other transactions change the same rows".into() }
            }
            Self::Connect(source) => Error::Unreachable { path, source },
            Self::Silent => Error::Unreachable { path, source: "it does not answer".into() },
            Self::Sql(error) => of_sql(path, error),
        }
    }
}

fn is_io(error: &tokio_postgres::Error) -> bool {
    std::error::Error::source(error).is_some_and(|source| source.is::<std::io::Error>())
}

fn cure_of(code: &SqlState) -> Cure {
    const REPEAT: [&SqlState; 2] = [&SqlState::T_R_SERIALIZATION_FAILURE, &SqlState::T_R_DEADLOCK_DETECTED];
    const LATER: [&SqlState; 3] =
        [&SqlState::READ_ONLY_SQL_TRANSACTION, &SqlState::DISK_FULL, &SqlState::LOCK_NOT_AVAILABLE];
    // A plan that was prepared before a migration, or by a pooler on another connection.
    const PREPARED: [&SqlState; 2] =
        [&SqlState::FEATURE_NOT_SUPPORTED, &SqlState::INVALID_SQL_STATEMENT_NAME];
    const ENDED: [&SqlState; 6] = [
        &SqlState::ADMIN_SHUTDOWN,
        &SqlState::CRASH_SHUTDOWN,
        &SqlState::CANNOT_CONNECT_NOW,
        &SqlState::TOO_MANY_CONNECTIONS,
        &SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
        &SqlState::QUERY_CANCELED,
    ];
    if REPEAT.contains(&code) {
        Cure::Repeat
    } else if LATER.contains(&code) {
        Cure::Later
    } else if PREPARED.contains(&code) || ENDED.contains(&code) || code.code().starts_with("08") {
        Cure::Reconnect
    } else {
        Cure::None
    }
}

fn of_sql(path: std::path::PathBuf, error: tokio_postgres::Error) -> Error {
    let Some(code) = error.code().cloned() else {
        let is_lost = error.is_closed() || is_io(&error);
        return if is_lost {
            Error::Unreachable { path, source: error.into() }
        } else {
            Error::Backend(error.into())
        };
    };
    let source = match error.as_db_error() {
        Some(error) => BoxError::from(format!("{} ({})", error.message(), code.code())),
        None => error.into(),
    };
    match &code {
        code if *code == SqlState::READ_ONLY_SQL_TRANSACTION => Error::ReadOnly { path, source },
        code if *code == SqlState::DISK_FULL => Error::DiskFull { path, source },
        code if *code == SqlState::LOCK_NOT_AVAILABLE => Error::Locked { path, source },
        code if *code == SqlState::DATA_CORRUPTED || *code == SqlState::INDEX_CORRUPTED => {
            Error::Damaged { path, source }
        }
        code if code.code().starts_with("28") || *code == SqlState::INVALID_CATALOG_NAME => {
            Error::Open { path, source }
        }
        code if cure_of(code) == Cure::Reconnect => Error::Unreachable { path, source },
        _ => Error::Backend(source),
    }
}
