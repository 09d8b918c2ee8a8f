-- The queue, the runs and the artifacts.

CREATE TABLE inbox (
    number      INTEGER PRIMARY KEY,
    session_key INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
    ticket_id   TEXT    NOT NULL,
    owner       TEXT    NOT NULL,
    payload     TEXT    NOT NULL,
    UNIQUE (session_key, ticket_id)
) STRICT;

CREATE INDEX inbox_by_session ON inbox (session_key, number);

CREATE TABLE runs (
    position        INTEGER PRIMARY KEY,
    session_key     INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
    run_id          TEXT    NOT NULL,
    status          TEXT    NOT NULL,
    idempotency_key TEXT,
    owner           TEXT    NOT NULL,
    started_after   INTEGER NOT NULL,
    last_seq        INTEGER NOT NULL,
    error           TEXT,
    created_at      REAL    NOT NULL,
    updated_at      REAL    NOT NULL,
    UNIQUE (session_key, run_id),
    UNIQUE (session_key, idempotency_key)
) STRICT;

CREATE INDEX runs_by_session ON runs (session_key, position);

-- An artifact may exist before its session. An artifact with the prefix `user:` has the empty session id.
CREATE TABLE artifacts (
    app_name        TEXT    NOT NULL,
    user_id         TEXT    NOT NULL,
    session_id      TEXT    NOT NULL,
    name            TEXT    NOT NULL,
    version         INTEGER NOT NULL,
    mime_type       TEXT,
    created_at      REAL    NOT NULL,
    custom_metadata TEXT    NOT NULL,
    part            TEXT    NOT NULL,
    PRIMARY KEY (app_name, user_id, session_id, name, version)
) STRICT;
