-- update.sql: write a row if it is still as it was read.
--
-- $1  the name               $2  the version that was read        $3  the new version
-- $4 to $17  the columns
--
-- Affects one row, or none if somebody else has written it.

UPDATE {table}
SET version = $3, turn = $4, top = $5, evicted = $6, claim = $7, owner = $8, client = $9, fence = $10, fences = $11,
    tells = $12, since = {time of $13}, ends = {time of $14}, about = $15, next = $16, more = $17
WHERE name = $1 AND version = $2{and patience}
