-- insert.sql: write a row of a name that had none when it was read.
--
-- $1  the name               $2  the version                      $3 to $16  the columns
--
-- Affects one row, or none if somebody else has made it.

INSERT INTO {table} (name, version, turn, top, evicted, claim, owner, client, fence, fences, tells, since, ends, about, next, more)
SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, {time of $12}, {time of $13}, $14, $15, $16
WHERE true{and patience}
ON CONFLICT (name) DO NOTHING
