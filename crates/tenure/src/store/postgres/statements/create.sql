-- create.sql: the table of locks, one row for each name.
--
-- Made on first use by a user who may; otherwise `tenure doctor` prints this for one who may.
-- No second index and half of each page free, so that updates stay within their page.

CREATE TABLE IF NOT EXISTS {table} (
  name    text COLLATE "C" PRIMARY KEY,
  claim   text COLLATE "C",                 -- the first holder; NULL if nobody holds the name
  owner   text COLLATE "C",                 -- whose claims hold together; NULL if each is its own
  client  text COLLATE "C",                 -- the process that renews it; NULL for a lease by hand
  fence   bigint NOT NULL DEFAULT 0,        -- the number of its grant
  since   timestamptz NOT NULL,
  ends    timestamptz NOT NULL,             -- when the last lease ends; since when the name is free
  about   text,                             -- pid@host and the reason
  next    text COLLATE "C",                 -- the client that is first in line
  more    text,                             -- all holders and waiters, if there are more than one exclusive holder
  top     bigint NOT NULL,                  -- the largest fence that was given out or set aside
  fences  integer NOT NULL DEFAULT 0,       -- how many were set aside for the first holder
  evicted bigint NOT NULL DEFAULT 0,        -- the largest fence that was taken away by an operator
  tells   boolean NOT NULL DEFAULT false,   -- whether the holder wants to know who else wants the name
  turn    bigint NOT NULL DEFAULT 0,        -- counts changes that somebody in line is told of
  version bigint NOT NULL                   -- changes with every write
) WITH (fillfactor = 50);
COMMENT ON TABLE {table} IS 'tenure 1';
