-- insert.sql: write a row of a name that had none when it was read.
--
-- The version, the columns, and the name. Fails (1062) if somebody else has made it.

INSERT INTO {table} (version, turn, top, evicted, claim, owner, client, fence, fences, tells, since, ends, about, next, more, name)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, {time}, {time}, ?, ?, ?, ?)
