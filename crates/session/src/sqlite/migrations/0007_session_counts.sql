-- The number of sessions of each user, so that a quota is checked without counting.

CREATE TABLE session_counts (
    user_id  TEXT    NOT NULL PRIMARY KEY,
    sessions INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The index holds the names; the rows of damaged sessions are not read.
INSERT INTO session_counts (user_id, sessions)
SELECT user_id, COUNT(*) FROM sessions INDEXED BY sqlite_autoindex_sessions_1 GROUP BY user_id;

CREATE TRIGGER session_created AFTER INSERT ON sessions BEGIN
    INSERT INTO session_counts (user_id, sessions) VALUES (NEW.user_id, 1)
    ON CONFLICT (user_id) DO UPDATE SET sessions = sessions + 1;
END;

CREATE TRIGGER session_deleted AFTER DELETE ON sessions BEGIN
    UPDATE session_counts SET sessions = sessions - 1 WHERE user_id = OLD.user_id;
    DELETE FROM session_counts WHERE user_id = OLD.user_id AND sessions <= 0;
END;
