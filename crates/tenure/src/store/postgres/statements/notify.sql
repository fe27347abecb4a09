-- notify.sql: tell clients what was decided for them.
--
-- $1  the name               $3  the channels
-- $2  the version            $4  the letters
--
-- Returns a row for each letter; none if the row does not have this version, because it was not written, or
-- is already written again.
--
-- In a transaction of its own that does not wait for the disk: a commit that notifies keeps all others of the
-- cluster waiting. Sent right behind the write, without waiting for its answer, so it must not speak of what
-- was not written: no two writes have the same version.

SELECT set_config('synchronous_commit', 'off', true), pg_notify(letter.channel, letter.text)
FROM unnest($3, $4) AS letter (channel, text)
WHERE $2 IS NULL OR EXISTS (SELECT FROM {table} WHERE name = $1 AND version = $2)
