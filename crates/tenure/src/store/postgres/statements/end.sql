-- end.sql: end connections that were abandoned.
--
-- $1  their process ids      $2  when they began, in microseconds
--
-- Returns a row for each that is not over yet, and tells it to end. Both numbers, since the server uses process ids again; and
-- only connections of ours, since a pooler may have given one to another program.

WITH abandoned AS MATERIALIZED (
  SELECT a.pid
  FROM pg_stat_activity AS a JOIN unnest($1, $2) AS c (pid, since)
    ON a.pid = c.pid AND (date_part('epoch', a.backend_start) * 1000000)::bigint = c.since
  WHERE a.usename = current_user AND a.application_name = 'tenure'
)
SELECT pg_terminate_backend(pid) FROM abandoned
