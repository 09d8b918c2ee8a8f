-- The full-text index of the log. It can be emptied and rebuilt at any time.

-- Documents are numbered per app and user: `scope << 32 | n`. So a search reads the postings of its own scope only.
CREATE TABLE search_scopes (
    scope    INTEGER PRIMARY KEY,
    app_name TEXT    NOT NULL,
    user_id  TEXT    NOT NULL,
    -- The number of the newest document, and the sum of the documents' lengths.
    last     INTEGER NOT NULL DEFAULT 0,
    terms    INTEGER NOT NULL DEFAULT 0,
    UNIQUE (app_name, user_id)
) STRICT;

-- The last row of each session that is indexed.
CREATE TABLE search_marks (
    session_key INTEGER PRIMARY KEY,
    seq         INTEGER NOT NULL
) STRICT;

-- A long message has several documents.
CREATE TABLE search_documents (
    document    INTEGER PRIMARY KEY,
    session_key INTEGER NOT NULL,
    seq         INTEGER NOT NULL,
    part        INTEGER NOT NULL,
    len         INTEGER NOT NULL
) STRICT;

CREATE INDEX search_documents_by_session ON search_documents (session_key);

-- Texts are segmented before they are indexed: a term consists of letters and digits, and terms are separated by spaces.
CREATE VIRTUAL TABLE search_index USING fts5 (
    terms, content = '', contentless_delete = 1, detail = none, tokenize = 'ascii'
);

-- The sessions that were added to the memory of their user, each up to a row.
CREATE TABLE memory_sessions (
    session_key INTEGER PRIMARY KEY,
    until       INTEGER NOT NULL
) STRICT;

-- One row: how the texts were segmented. Another version rebuilds the index.
CREATE TABLE search_segmentation (version INTEGER NOT NULL) STRICT;

INSERT INTO search_segmentation (version) VALUES (1);
