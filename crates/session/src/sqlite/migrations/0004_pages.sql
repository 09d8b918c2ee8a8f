-- Reduces the pages that a turn changes: each is written to the write-ahead log, synchronised and copied back.

-- Runs are clustered by session and need no second index.
CREATE TABLE runs_of_now (
    session_key     INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
    position        INTEGER NOT NULL,
    run_id          TEXT    NOT NULL,
    status          TEXT    NOT NULL,
    idempotency_key TEXT,
    owner           TEXT    NOT NULL,
    started_after   INTEGER NOT NULL,
    last_seq        INTEGER NOT NULL,
    error           TEXT,
    created_at      REAL    NOT NULL,
    updated_at      REAL    NOT NULL,
    PRIMARY KEY (session_key, position),
    UNIQUE (session_key, run_id)
) STRICT, WITHOUT ROWID;

INSERT INTO runs_of_now (session_key, position, run_id, status, idempotency_key, owner, started_after, last_seq, error, created_at, updated_at)
SELECT session_key, position, run_id, status, idempotency_key, owner, started_after, last_seq, error, created_at, updated_at
FROM runs;

DROP TABLE runs;
ALTER TABLE runs_of_now RENAME TO runs;

CREATE UNIQUE INDEX runs_by_idempotency_key ON runs (session_key, idempotency_key) WHERE idempotency_key IS NOT NULL;

-- Lists are ordered by the last change. Indexing only its minute is as fast to search, and most changes do not move the entry.
DROP INDEX sessions_by_change;
CREATE INDEX sessions_by_minute ON sessions (app_name, user_id, CAST(updated_at / 60 AS INTEGER));
