-- take.sql: grant a free name to a claim, in one statement.
--
-- In this order: how many fences to set aside, the same once more, claim, owner or NULL, client or NULL, whether
-- its client wants to know who else wants the name, the ttl in microseconds, who asks and why, the name.
--
-- Affects one row if it was granted, and the server says the fence with it (LAST_INSERT_ID); none otherwise.
--
-- Assignments are made from left to right, and each that reads a column stands before the one that writes it.

UPDATE {table}
SET version = version + 1,
    fence = LAST_INSERT_ID(GREATEST(top + 1, {now})),
    top = GREATEST(top + 1, {now}) + ? - 1, fences = ?,
    claim = ?, owner = ?, client = ?, tells = ?,
    since = UTC_TIMESTAMP(6), ends = UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND, about = ?
WHERE name = ? AND more IS NULL AND (claim IS NULL OR ends <= UTC_TIMESTAMP(6))
