-- update.sql: write a row if it is still as it was read.
--
-- The new version, the columns, the name, and the version that was read.
--
-- Affects one row, or none if somebody else has written it.

UPDATE {table}
SET version = ?, turn = ?, top = ?, evicted = ?, claim = ?, owner = ?, client = ?, fence = ?, fences = ?, tells = ?,
    since = {time}, ends = {time}, about = ?, next = ?, more = ?
WHERE name = ? AND version = ?
