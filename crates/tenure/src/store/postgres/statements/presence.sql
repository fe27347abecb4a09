-- presence.sql: which clients are there.
--
-- $1  the keys of their advisory locks
--
-- Returns for each, in this order, whether it is connected.

SELECT NOT pg_try_advisory_xact_lock_shared(c.key)
       OR pg_postmaster_start_time() > statement_timestamp() - interval '10 seconds'
FROM unnest($1) WITH ORDINALITY AS c (key, place) ORDER BY c.place
