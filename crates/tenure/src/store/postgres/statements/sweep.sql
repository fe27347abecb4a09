-- sweep.sql: delete rows that nobody has used for long, among the next few.
--
-- $1  behind which name      $2  how many to look at              $3  for how long, in microseconds
--
-- Returns the last name that was looked at if there may be more, else NULL. Looks again at each row as it
-- deletes it, and leaves alone those that somebody changes at this moment. Also those whose fences are ahead of
-- the clock: the next fence would be smaller.

WITH seen AS MATERIALIZED (SELECT name FROM {table} WHERE name > $1 ORDER BY name LIMIT $2),
idle AS (
  SELECT l.name FROM {table} AS l JOIN seen USING (name)
  WHERE l.ends < statement_timestamp() - $3 * interval '1 microsecond' AND l.top < {now}
  FOR UPDATE OF l SKIP LOCKED
),
swept AS (DELETE FROM {table} AS l USING idle WHERE l.name = idle.name)
SELECT CASE WHEN count(*) = $2 THEN max(name) END FROM seen
