-- sweep_range.sql: how far the next sweep goes.
--
-- Behind which name, and how many rows to look at. Returns how many there are, and the last of them.

SELECT COUNT(*), MAX(seen.name)
FROM (SELECT name FROM {table} WHERE name > ? ORDER BY name LIMIT ?) AS seen
