-- Deleted sessions whose rows still exist. Their rows are deleted in small transactions, and foreign keys are off, so that deleting
-- the row of a session does not delete them all at once.
CREATE TABLE deleted_sessions (
    session_key   INTEGER PRIMARY KEY,
    app_name      TEXT    NOT NULL,
    user_id       TEXT    NOT NULL,
    session_id    TEXT    NOT NULL,
    -- Artifacts belong to the name of a session. Until they are deleted, nobody sees them.
    has_artifacts INTEGER NOT NULL,
    -- The next slice does not try a session whose rows cannot be read.
    is_damaged    INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE INDEX deleted_artifacts ON deleted_sessions (app_name, user_id, session_id) WHERE has_artifacts = 1;

-- The sessions of a user in the order of creation: the row number is the last column of every index.
CREATE INDEX sessions_by_creation ON sessions (app_name, user_id);

-- The usage of the newest day: a JSON array of [day, agent, model, counts …]. It is in the row of the session, which every commit
-- writes, so that counting writes no other page.
ALTER TABLE sessions ADD COLUMN usage TEXT;

-- The usage of earlier days. The usage of deleted sessions has the empty session id.
CREATE TABLE usage_days (
    user_id      TEXT    NOT NULL,
    app_name     TEXT    NOT NULL,
    session_id   TEXT    NOT NULL,
    day          INTEGER NOT NULL,
    agent        TEXT    NOT NULL,
    model        TEXT    NOT NULL,
    calls        INTEGER NOT NULL,
    fresh        INTEGER NOT NULL,
    cache_reads  INTEGER NOT NULL,
    cache_writes INTEGER NOT NULL,
    output       INTEGER NOT NULL,
    reasoning    INTEGER NOT NULL,
    PRIMARY KEY (user_id, app_name, session_id, day, agent, model)
) STRICT, WITHOUT ROWID;

-- The messages of earlier versions that are not counted yet: those with a row number from `next` to `last`. The numbers are read
-- from an index, so that a damaged table does not prevent the migration.
CREATE TABLE usage_backlog (next INTEGER NOT NULL, last INTEGER NOT NULL) STRICT;

INSERT INTO usage_backlog (next, last)
SELECT MIN(rowid), MAX(rowid) FROM messages INDEXED BY sqlite_autoindex_messages_1 HAVING COUNT(*) > 0;
