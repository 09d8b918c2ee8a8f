-- The lifecycle of a run in one row: the payload of a queued run is its message, and the running run is the lease.

ALTER TABLE runs ADD COLUMN ticket INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN payload TEXT;

-- Tickets whose run was never recorded.
INSERT INTO runs (session_key, position, run_id, status, owner, started_after, last_seq, created_at, updated_at)
SELECT inbox.session_key,
       (SELECT COALESCE(MAX(position), 0) FROM runs WHERE runs.session_key = inbox.session_key)
           + ROW_NUMBER() OVER (PARTITION BY inbox.session_key ORDER BY inbox.number),
       inbox.ticket_id, 'queued', inbox.owner, sessions.last_seq, sessions.last_seq, sessions.updated_at, sessions.updated_at
FROM inbox JOIN sessions USING (session_key)
WHERE NOT EXISTS (SELECT 1 FROM runs WHERE runs.session_key = inbox.session_key AND runs.run_id = inbox.ticket_id);

UPDATE runs SET ticket = inbox.number, payload = inbox.payload, owner = inbox.owner, status = 'queued', error = NULL
FROM inbox WHERE inbox.session_key = runs.session_key AND inbox.ticket_id = runs.run_id;

-- Idempotency keys are unique per user: the same key for another session is another request.
CREATE TABLE request_keys (
    user_id     TEXT    NOT NULL,
    key         TEXT    NOT NULL,
    session_key INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
    run         INTEGER NOT NULL,
    fingerprint TEXT,
    PRIMARY KEY (user_id, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX request_keys_by_session ON request_keys (session_key);

-- Keys were unique per session: of equal keys the newest request keeps its key. A request whose message was not stored does
-- not keep its key.
INSERT OR IGNORE INTO request_keys (user_id, key, session_key, run)
SELECT user_id, idempotency_key, session_key, position FROM runs JOIN sessions USING (session_key)
WHERE idempotency_key IS NOT NULL
  AND NOT (status IN ('queued', 'failed') AND payload IS NULL AND started_after = runs.last_seq)
ORDER BY runs.created_at DESC;

-- Repairs states that a crash of an earlier version could leave. The lease belongs to the running run of the lease owner, or
-- else to the last started run; every other running run was abandoned.
UPDATE runs SET status = 'interrupted'
WHERE status = 'running'
  AND position IS NOT (
      SELECT other.position FROM runs AS other JOIN sessions USING (session_key)
      WHERE other.session_key = runs.session_key AND other.status = 'running' AND lease_owner IS NOT NULL
        AND (other.owner = lease_owner
             OR other.position = (SELECT MAX(started.position) FROM runs AS started
                                  WHERE started.session_key = runs.session_key
                                    AND started.last_seq > started.started_after))
      ORDER BY other.owner = lease_owner DESC, other.position DESC LIMIT 1);
UPDATE runs SET last_seq = (SELECT last_seq FROM sessions WHERE sessions.session_key = runs.session_key)
WHERE status = 'running';
UPDATE runs SET status = 'failed', error = 'the message was not stored' WHERE status = 'queued' AND payload IS NULL;

-- An answer used to be a run of its own, and the asking run stayed `waiting`. Now a question has the id of its run, and a run
-- is `waiting` only while its question is open.
UPDATE facts SET value = json_set(value, '$.run', run_id)
FROM runs
WHERE kind = 'question' AND json_valid(value)
  AND runs.session_key = facts.session_key AND status = 'waiting'
  AND json_extract(value, '$.at[0]') >= started_after AND json_extract(value, '$.at[0]') < last_seq;
UPDATE runs SET status = 'done'
WHERE status = 'waiting'
  AND NOT EXISTS (SELECT 1 FROM facts
                  WHERE facts.session_key = runs.session_key AND kind = 'question'
                    AND json_valid(value) AND json_extract(value, '$.run') = run_id);

-- At most one running run (ticket 0) in a session; the queue of a session in the order of its tickets.
CREATE UNIQUE INDEX runs_open ON runs (session_key, ticket) WHERE status IN ('queued', 'running');

DROP INDEX runs_by_idempotency_key;
ALTER TABLE runs DROP COLUMN idempotency_key;

-- The run of a row.
ALTER TABLE messages ADD COLUMN run INTEGER;

-- Streamed text that is not in the log yet.
CREATE TABLE drafts (
    session_key INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
    number      INTEGER NOT NULL,
    run         INTEGER NOT NULL,
    piece       TEXT    NOT NULL,
    PRIMARY KEY (session_key, number)
) STRICT, WITHOUT ROWID;

-- Processes that own runs.
CREATE TABLE owners (
    process   TEXT PRIMARY KEY,
    beats     INTEGER NOT NULL,
    displaced INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

DROP TABLE inbox;
ALTER TABLE sessions DROP COLUMN lease_owner;
ALTER TABLE sessions DROP COLUMN lease_until;
