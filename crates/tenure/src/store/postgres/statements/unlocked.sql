-- unlocked.sql: which of some rows nobody else has locked at the moment.
--
-- $1  the names

SELECT l.name FROM {table} AS l WHERE l.name = ANY ($1) FOR UPDATE SKIP LOCKED
