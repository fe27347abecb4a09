-- give.sql: free a name whose only holder is a claim, in one statement.
--
-- $1  the name               $3  the client, or NULL
-- $2  the claim              $4  the fence that the lease must have, or NULL
--
-- Returns one row: 1 if it was freed, and otherwise NULL with what read.sql returns.
--
-- Need not survive a crash of the server, because then the lease ends by its ttl: so the commit does not
-- wait for the disk. A grant that follows waits for both.

WITH lazy AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true) AS set, statement_timestamp() AS now),
gave AS (
  UPDATE {table} AS l
  SET version = l.version + 1, claim = NULL, owner = NULL, client = NULL, fences = 0, tells = false,
      since = lazy.now, ends = lazy.now, about = NULL
  FROM lazy
  WHERE l.name = $1 AND l.more IS NULL AND l.claim = $2 AND l.client IS NOT DISTINCT FROM $3
    AND ($4 IS NULL OR l.fence = $4) AND l.ends > lazy.now{and patience}
  RETURNING 1 AS freed
)
SELECT gave.freed, {now},
       {is there: l.next},
       {columns}
FROM (SELECT) AS one LEFT JOIN gave ON true
     LEFT JOIN {table} AS l ON l.name = $1 AND gave.freed IS NULL
