-- Sessions, their log, runs, state and artifacts. Text is compared by code point (collation "C"), as in the other backends.
--
-- Every write to a session locks its row in `sessions` first, so the tables of a session need no foreign keys.

-- Tickets, epochs and positions. No number is used twice.
CREATE SEQUENCE numbers;

-- `session_key` is a digest of the three names, so a statement finds the rows of a session without a lookup.
-- `recent_writes` has the ids of the last writes, to resolve a write whose acknowledgement was lost.
-- `updated_minute` changes once per minute at most, so that most updates change no index (HOT).
CREATE TABLE sessions (
    session_key    UUID             PRIMARY KEY,
    app_name       TEXT COLLATE "C" NOT NULL,
    user_id        TEXT COLLATE "C" NOT NULL,
    session_id     TEXT COLLATE "C" NOT NULL,
    last_seq       BIGINT           NOT NULL,
    total_tokens   BIGINT           NOT NULL DEFAULT 0,
    lease_epoch    BIGINT           NOT NULL,
    recent_writes  BIGINT[]         NOT NULL DEFAULT '{}',
    title          TEXT COLLATE "C",
    created_at     DOUBLE PRECISION NOT NULL,
    updated_at     DOUBLE PRECISION NOT NULL,
    updated_minute BIGINT           NOT NULL
) WITH (fillfactor = 70);

CREATE INDEX sessions_by_minute ON sessions (app_name, user_id, updated_minute);
CREATE INDEX sessions_by_minute_of_all ON sessions (updated_minute);

CREATE TABLE session_counts (
    user_id  TEXT COLLATE "C" PRIMARY KEY,
    sessions BIGINT           NOT NULL
) WITH (fillfactor = 70);

CREATE TABLE messages (
    session_key UUID             NOT NULL,
    seq         BIGINT           NOT NULL,
    tokens      BIGINT           NOT NULL,
    timestamp   DOUBLE PRECISION NOT NULL,
    run         BIGINT           NOT NULL,
    counted_by  TEXT COLLATE "C" NOT NULL,
    message_id  TEXT COLLATE "C" NOT NULL,
    role        TEXT COLLATE "C" NOT NULL,
    author      TEXT COLLATE "C" NOT NULL,
    tool_calls  TEXT COLLATE "C",
    meta        TEXT COLLATE "C",
    recipe      TEXT COLLATE "C",
    content     TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (session_key, seq),
    CONSTRAINT messages_by_id UNIQUE (session_key, message_id)
);

CREATE INDEX messages_with_recipe ON messages (session_key, seq) WHERE recipe IS NOT NULL;

-- One row per key: concurrent changes of different keys of a shared scope do not overwrite each other.
-- `position` and `ordinal` order the keys by first assignment.
CREATE TABLE app_state (
    app_name TEXT COLLATE "C" NOT NULL,
    key      TEXT COLLATE "C" NOT NULL,
    position BIGINT           NOT NULL,
    ordinal  BIGINT           NOT NULL,
    value    TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (app_name, key)
);

CREATE TABLE user_state (
    app_name TEXT COLLATE "C" NOT NULL,
    user_id  TEXT COLLATE "C" NOT NULL,
    key      TEXT COLLATE "C" NOT NULL,
    position BIGINT           NOT NULL,
    ordinal  BIGINT           NOT NULL,
    value    TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (app_name, user_id, key)
);

CREATE TABLE session_state (
    session_key UUID             NOT NULL,
    key         TEXT COLLATE "C" NOT NULL,
    position    BIGINT           NOT NULL,
    ordinal     BIGINT           NOT NULL,
    value       TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (session_key, key)
);

CREATE TABLE state_log (
    session_key UUID             NOT NULL,
    seq         BIGINT           NOT NULL,
    ordinal     BIGINT           NOT NULL,
    scope       TEXT COLLATE "C" NOT NULL,
    key         TEXT COLLATE "C" NOT NULL,
    value       TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (session_key, seq, ordinal)
);

CREATE TABLE facts (
    session_key UUID             NOT NULL,
    kind        TEXT COLLATE "C" NOT NULL,
    id          TEXT COLLATE "C" NOT NULL,
    value       TEXT COLLATE "C" NOT NULL,
    carried     BOOLEAN          NOT NULL,
    PRIMARY KEY (session_key, kind, id)
);

CREATE INDEX facts_carried ON facts (session_key, kind, id) WHERE carried;

-- `is_cancelled` asks the owner of an open run to cancel it. `ticket` is 0 unless the run is queued. The payload of a queued run is its message, that of a running one its options.
CREATE TABLE runs (
    session_key   UUID             NOT NULL,
    position      BIGINT           NOT NULL,
    run_id        TEXT COLLATE "C" NOT NULL,
    status        TEXT COLLATE "C" NOT NULL,
    owner         TEXT COLLATE "C" NOT NULL,
    ticket        BIGINT           NOT NULL DEFAULT 0,
    payload       TEXT COLLATE "C",
    started_after BIGINT           NOT NULL,
    last_seq      BIGINT           NOT NULL,
    error         TEXT COLLATE "C",
    is_cancelled  BOOLEAN          NOT NULL DEFAULT FALSE,
    created_at    DOUBLE PRECISION NOT NULL,
    updated_at    DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (session_key, position),
    CONSTRAINT runs_by_id UNIQUE (session_key, run_id)
) WITH (fillfactor = 80);

-- At most one running run (ticket 0) in a session; the queue of a session in the order of its tickets.
CREATE UNIQUE INDEX runs_open ON runs (session_key, ticket) WHERE status IN ('queued', 'running');

CREATE INDEX runs_to_cancel ON runs (session_key) WHERE is_cancelled;

-- Idempotency keys are unique per user.
CREATE TABLE request_keys (
    user_id     TEXT COLLATE "C" NOT NULL,
    key         TEXT COLLATE "C" NOT NULL,
    session_key UUID             NOT NULL,
    run         BIGINT           NOT NULL,
    fingerprint TEXT COLLATE "C",
    PRIMARY KEY (user_id, key)
);

CREATE INDEX request_keys_by_session ON request_keys (session_key);

-- Streamed text that is not in the log yet. `write_id` identifies the write of a chunk.
CREATE TABLE drafts (
    session_key UUID             NOT NULL,
    number      BIGINT           NOT NULL,
    run         BIGINT           NOT NULL,
    write_id    BIGINT           NOT NULL,
    piece       TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (session_key, number)
);


-- Texts that recipes refer to by hash. A text is deleted with the last session that uses it.
CREATE TABLE recipe_texts (
    hash    TEXT COLLATE "C" PRIMARY KEY,
    content TEXT COLLATE "C" NOT NULL
);

CREATE TABLE recipe_uses (
    session_key UUID             NOT NULL,
    hash        TEXT COLLATE "C" NOT NULL REFERENCES recipe_texts,
    PRIMARY KEY (session_key, hash)
);

CREATE INDEX recipe_uses_by_hash ON recipe_uses (hash);

-- An artifact may exist before its session. An artifact with the prefix `user:` has the empty session id.
CREATE TABLE artifacts (
    app_name        TEXT COLLATE "C" NOT NULL,
    user_id         TEXT COLLATE "C" NOT NULL,
    session_id      TEXT COLLATE "C" NOT NULL,
    name            TEXT COLLATE "C" NOT NULL,
    version         BIGINT           NOT NULL,
    write_id        BIGINT           NOT NULL,
    mime_type       TEXT COLLATE "C",
    created_at      DOUBLE PRECISION NOT NULL,
    custom_metadata TEXT COLLATE "C" NOT NULL,
    part            TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (app_name, user_id, session_id, name, version)
);

-- Processes that own runs, with their leases. All times are of the clock of this database. `leased_since` is the beginning of the
-- lease without a gap.
CREATE TABLE owners (
    process      TEXT COLLATE "C" PRIMARY KEY,
    beats        BIGINT           NOT NULL,
    displaced    BIGINT           NOT NULL,
    leased_since TIMESTAMPTZ      NOT NULL,
    expires_at   TIMESTAMPTZ      NOT NULL
) WITH (fillfactor = 50);
