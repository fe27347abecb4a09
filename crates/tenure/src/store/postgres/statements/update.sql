-- update.sql: write a row if it is still as it was read.
--
-- $1  the name               $2  the version that was read        $3  the new version
-- $4 to $17  the columns
--
-- Affects one row, or none if somebody else has written it.
--
-- If the name may have several holders, the statement first takes the advisory lock that they share in their transactions
-- (`hold_in`). PostgreSQL lets every new `FOR SHARE` pass an update that waits for the row, so readers that follow each other
-- without a gap would starve renewals. Advisory locks are granted in the order of the requests.

UPDATE {table}
SET version = $3, turn = $4, top = $5, evicted = $6, claim = $7, owner = $8, client = $9, fence = $10, fences = $11,
    tells = $12, since = {time of $13}, ends = {time of $14}, about = $15, next = $16, more = $17
WHERE name = $1 AND version = $2{and patience}{and turn}
