-- Each page that a commit changes is written to the log, synchronised and copied back, so a turn's rows touch fewer of them.

-- A message's place is one number made of its session and its number in it: the rows of a session lie together, and no
-- second index says where each of them is.
CREATE TABLE messages_of_now (
    place       INTEGER PRIMARY KEY,
    session_key INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
    seq         INTEGER NOT NULL GENERATED ALWAYS AS (place & 4294967295) VIRTUAL,
    tokens      INTEGER NOT NULL,
    timestamp   REAL    NOT NULL,
    counted_by  TEXT    NOT NULL,
    message_id  TEXT    NOT NULL,
    role        TEXT    NOT NULL,
    author      TEXT    NOT NULL,
    tool_calls  TEXT,
    meta        TEXT,
    content     TEXT    NOT NULL,
    UNIQUE (session_key, message_id),
    CHECK (place >> 32 = session_key)
) STRICT;

INSERT INTO messages_of_now (place, session_key, tokens, timestamp, counted_by, message_id, role, author, tool_calls, meta, content)
SELECT session_key << 32 | seq, session_key, tokens, timestamp, counted_by, message_id, role, author, tool_calls, meta, content
FROM messages ORDER BY session_key, seq;

DROP TABLE messages;
ALTER TABLE messages_of_now RENAME TO messages;

-- The same for runs, whose order is that of their session.
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
