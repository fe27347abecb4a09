-- read.sql: a row, the time, and whether the first client in line is there.
--
-- $1  the name
--
-- Returns one row: the time, whether the first in line is connected (NULL if nobody waits), and the
-- columns of the row, which are NULL if there is none.
--
-- A client in line holds an advisory lock on the connection on which it listens, so that whoever can
-- have that lock knows that it is gone. The lock ends with this statement.

SELECT {now}, {is there: l.next},
       {columns}
FROM (SELECT) AS one LEFT JOIN {table} AS l ON l.name = $1
