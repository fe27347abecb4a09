-- extend.sql: extend the leases of lone holders.
--
-- $1  the names              $4  the fence that each lease must have, or NULL
-- $2  the claims             $5  the ttls in microseconds
-- $3  the clients, or NULL
--
-- Returns for each lease that was extended its place in the arrays, from 1 up, and its fence. The others are
-- over, or have company: those are decided one by one.

UPDATE {table} AS l
SET version = l.version + 1, ends = statement_timestamp() + e.ttl * interval '1 microsecond'
FROM unnest($1, $2, $3, $4, $5) WITH ORDINALITY AS e (name, claim, client, fence, ttl, place)
WHERE l.name = e.name AND l.more IS NULL AND l.claim = e.claim AND l.client IS NOT DISTINCT FROM e.client
  AND (e.fence IS NULL OR l.fence = e.fence) AND l.ends > statement_timestamp(){and patience}
RETURNING e.place, l.fence
