-- page.sql: the next rows that somebody may hold or wait for, by name.
--
-- Behind which name, and how many at most.

SELECT {now}, NULL, {columns}, l.name
FROM {table} AS l
WHERE l.name > ? AND (l.claim IS NOT NULL OR l.more IS NOT NULL)
ORDER BY l.name LIMIT ?
