-- take.sql: grant a free name to a claim, in one statement.
--
-- $1  the name               $5  how many fences to set aside
-- $2  the claim              $6  whether its client wants to know who else wants the name
-- $3  the owner, or NULL     $7  the ttl in microseconds
-- $4  the client, or NULL    $8  who asks and why
--
-- Returns one row: the fence if it was granted, and otherwise what read.sql returns.
--
-- The update finds nothing unless the name is free, and then locks nothing; the insert finds nothing
-- if there is a row. Of two that find the name free, the second waits for the first and looks again.
-- The row that is returned is as it was when the statement began: whoever writes it compares its version.

WITH clock AS (SELECT statement_timestamp() AS now, {now} AS us),
took AS (
  UPDATE {table} AS l
  SET version = l.version + 1, claim = $2, owner = $3, client = $4, fences = $5, tells = $6,
      fence = GREATEST(l.top + 1, clock.us), top = GREATEST(l.top + 1, clock.us) + $5 - 1,
      since = clock.now, ends = clock.now + $7 * interval '1 microsecond', about = $8
  FROM clock
  WHERE l.name = $1 AND l.more IS NULL AND (l.claim IS NULL OR l.ends <= clock.now){and patience}
  RETURNING l.fence
),
made AS (
  INSERT INTO {table} (name, claim, owner, client, fences, tells, fence, top, since, ends, about, version)
  SELECT $1, $2, $3, $4, $5, $6, clock.us, clock.us + $5 - 1,
         clock.now, clock.now + $7 * interval '1 microsecond', $8, clock.us
  FROM clock
  WHERE NOT EXISTS (SELECT FROM {table} WHERE name = $1){and patience}
  ON CONFLICT (name) DO NOTHING
  RETURNING fence
),
granted AS (SELECT fence FROM took UNION ALL SELECT fence FROM made)
SELECT granted.fence, clock.us,
       {is there: l.next},
       {columns}
FROM clock LEFT JOIN granted ON true
     LEFT JOIN {table} AS l ON l.name = $1 AND granted.fence IS NULL
