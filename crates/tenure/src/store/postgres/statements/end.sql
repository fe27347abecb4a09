-- end.sql: end connections that were abandoned.
--
-- $1  their process ids      $2  the application_name of each
--
-- Returns a row for each that is not over yet, and tells it to end. Both, since the server uses process ids again, and a pooler
-- may have given the process to another client, or to this connection. The user is the one that logged in: a role that it
-- switches to is not listed.

WITH abandoned AS MATERIALIZED (
  SELECT a.pid
  FROM pg_stat_activity AS a JOIN unnest($1, $2) AS c (pid, name)
    ON a.pid = c.pid AND a.application_name = c.name
  WHERE a.usename = session_user AND a.pid <> pg_backend_pid()
)
SELECT pg_terminate_backend(pid) FROM abandoned
