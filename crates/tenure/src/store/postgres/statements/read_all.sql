-- read_all.sql: some rows.
--
-- $1  the names

SELECT {now}, NULL::boolean, {columns}, l.name
FROM {table} AS l
WHERE l.name = ANY ($1)
