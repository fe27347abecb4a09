-- page.sql: the next rows that somebody may hold or wait for, by name.
--
-- $1  behind which name      $2  how many at most

SELECT {now}, NULL::boolean, {columns}, l.name
FROM {table} AS l
WHERE l.name > $1 AND (l.claim IS NOT NULL OR l.more IS NOT NULL)
ORDER BY l.name LIMIT $2
