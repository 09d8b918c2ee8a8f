-- Sessions, their log and their state.

CREATE TABLE sessions (
    session_key  INTEGER PRIMARY KEY,
    app_name     TEXT    NOT NULL,
    user_id      TEXT    NOT NULL,
    session_id   TEXT    NOT NULL,
    last_seq     INTEGER NOT NULL DEFAULT 0,
    total_tokens INTEGER NOT NULL DEFAULT 0,
    lease_owner  TEXT,
    lease_epoch  INTEGER NOT NULL DEFAULT 0,
    lease_until  REAL    NOT NULL DEFAULT 0,
    title        TEXT,
    created_at   REAL    NOT NULL,
    updated_at   REAL    NOT NULL,
    UNIQUE (app_name, user_id, session_id)
) STRICT;

CREATE INDEX sessions_by_change ON sessions (app_name, user_id, updated_at, session_id);

-- Small columns precede large ones, so that the budget of a tail is checked without reading overflow pages.
CREATE TABLE messages (
    session_key INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
    seq         INTEGER NOT NULL,
    tokens      INTEGER NOT NULL,
    timestamp   REAL    NOT NULL,
    counted_by  TEXT    NOT NULL,
    message_id  TEXT    NOT NULL,
    role        TEXT    NOT NULL,
    author      TEXT    NOT NULL,
    tool_calls  TEXT,
    meta        TEXT,
    content     TEXT    NOT NULL,
    PRIMARY KEY (session_key, seq),
    UNIQUE (session_key, message_id)
) STRICT;

-- One row per key: concurrent changes of different keys of a shared scope do not overwrite each other.
-- `position` orders the keys by first assignment.
CREATE TABLE app_state (
    position INTEGER PRIMARY KEY,
    app_name TEXT NOT NULL,
    key      TEXT NOT NULL,
    value    TEXT NOT NULL,
    UNIQUE (app_name, key)
) STRICT;

CREATE TABLE user_state (
    position INTEGER PRIMARY KEY,
    app_name TEXT NOT NULL,
    user_id  TEXT NOT NULL,
    key      TEXT NOT NULL,
    value    TEXT NOT NULL,
    UNIQUE (app_name, user_id, key)
) STRICT;

CREATE TABLE session_state (
    position    INTEGER PRIMARY KEY,
    session_key INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
    key         TEXT    NOT NULL,
    value       TEXT    NOT NULL,
    UNIQUE (session_key, key)
) STRICT;

CREATE TABLE state_log (
    position    INTEGER PRIMARY KEY,
    session_key INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
    seq         INTEGER NOT NULL,
    scope       TEXT    NOT NULL,
    key         TEXT    NOT NULL,
    value       TEXT    NOT NULL
) STRICT;

CREATE INDEX state_log_by_session ON state_log (session_key, seq);

CREATE TABLE facts (
    session_key INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
    kind        TEXT    NOT NULL,
    id          TEXT    NOT NULL,
    value       TEXT    NOT NULL,
    carried     INTEGER NOT NULL,
    PRIMARY KEY (session_key, kind, id)
) STRICT;

CREATE INDEX facts_carried ON facts (session_key, kind, id) WHERE carried = 1;

-- One row: the counter of epochs and tickets. No number is used twice.
CREATE TABLE numbers (last INTEGER NOT NULL) STRICT;

INSERT INTO numbers (last) VALUES (0);
