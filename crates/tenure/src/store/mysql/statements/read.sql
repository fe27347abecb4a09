-- read.sql: a row, the time, and where the first client in line is.
--
-- The name.
--
-- Returns one row: the time, the connection of the first in line (NULL if it has none, or nobody waits), and
-- the columns of the row, which are NULL if there is none.
--
-- A client in line has a named lock on the connection on which it listens.

SELECT {now}, IF(l.next IS NULL, NULL, IS_USED_LOCK(CONCAT('tenure:', l.next))), {columns}
FROM (SELECT 1) AS one LEFT JOIN {table} AS l ON l.name = ?
