-- sweep.sql: delete rows that nobody has used for long.
--
-- Behind which name, up to which, and for how long in microseconds. Not those whose fences are ahead of the
-- clock: the next fence would be smaller.

DELETE FROM {table}
WHERE name > ? AND name <= ? AND ends < UTC_TIMESTAMP(6) - INTERVAL ? MICROSECOND AND top < {now}
