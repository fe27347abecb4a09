-- give.sql: free a name whose only holder is a claim, in one statement.
--
-- In this order: name, claim, client or NULL, the fence that the lease must have or NULL, the same once more.
--
-- Affects one row if it was freed, none otherwise.

UPDATE {table}
SET version = version + 1, claim = NULL, owner = NULL, client = NULL, fences = 0, tells = FALSE,
    since = UTC_TIMESTAMP(6), ends = UTC_TIMESTAMP(6), about = NULL
WHERE name = ? AND more IS NULL AND claim = ? AND client <=> ? AND (? IS NULL OR fence = ?)
  AND ends > UTC_TIMESTAMP(6)
