-- How the request of a model call was built, as the caller's JSON, in the row of the answer: no other page is written.
ALTER TABLE messages ADD COLUMN recipe TEXT;

-- Texts that recipes refer to by hash, such as tool declarations. Most calls of an app share them.
CREATE TABLE recipe_texts (
    hash    TEXT PRIMARY KEY,
    content TEXT NOT NULL
) STRICT;

CREATE TABLE recipe_uses (
    session_key INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
    hash        TEXT    NOT NULL REFERENCES recipe_texts,
    PRIMARY KEY (session_key, hash)
) STRICT, WITHOUT ROWID;

CREATE INDEX recipe_uses_by_hash ON recipe_uses (hash);

-- A text is deleted with the last session that uses it.
CREATE TRIGGER recipe_texts_unused AFTER DELETE ON recipe_uses
WHEN NOT EXISTS (SELECT 1 FROM recipe_uses WHERE hash = OLD.hash)
BEGIN
    DELETE FROM recipe_texts WHERE hash = OLD.hash;
END;
