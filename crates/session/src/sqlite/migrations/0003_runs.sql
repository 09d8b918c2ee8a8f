-- Makes the index of idempotency keys partial: few runs have a key, and each commit writes every changed index page.

CREATE TABLE runs_of_now (
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
    UNIQUE (session_key, run_id)
) STRICT;

INSERT INTO runs_of_now
SELECT position, session_key, run_id, status, idempotency_key, owner, started_after, last_seq, error, created_at, updated_at
FROM runs;

DROP TABLE runs;
ALTER TABLE runs_of_now RENAME TO runs;

CREATE INDEX runs_by_session ON runs (session_key, position);
CREATE UNIQUE INDEX runs_by_idempotency_key ON runs (session_key, idempotency_key) WHERE idempotency_key IS NOT NULL;
