-- create.sql: the table of locks, one row for each name.
--
-- Made on first use by a user who may; otherwise `tenure doctor` prints this for one who may.
-- {collation} tells names apart byte by byte, also those that end in spaces.

CREATE TABLE IF NOT EXISTS {table} (
  name    VARCHAR(255) COLLATE {collation} NOT NULL PRIMARY KEY,
  claim   VARCHAR(255) COLLATE {collation} NULL COMMENT 'the first holder; NULL if nobody holds the name',
  owner   VARCHAR(255) COLLATE {collation} NULL COMMENT 'whose claims hold together; NULL if each is its own',
  client  CHAR(32) CHARACTER SET ascii COLLATE ascii_bin NULL COMMENT 'the process that renews it; NULL for a lease by hand',
  fence   BIGINT NOT NULL DEFAULT 0 COMMENT 'the number of its grant',
  since   DATETIME(6) NOT NULL COMMENT 'in UTC',
  ends    DATETIME(6) NOT NULL COMMENT 'in UTC: when the last lease ends; since when the name is free',
  about   TEXT NULL COMMENT 'pid@host and the reason',
  next    CHAR(32) CHARACTER SET ascii COLLATE ascii_bin NULL COMMENT 'the client that is first in line',
  more    MEDIUMTEXT NULL COMMENT 'all holders and waiters, if there are more than one exclusive holder',
  top     BIGINT NOT NULL COMMENT 'the largest fence that was given out or set aside',
  fences  INT NOT NULL DEFAULT 0 COMMENT 'how many were set aside for the first holder',
  evicted BIGINT NOT NULL DEFAULT 0 COMMENT 'the largest fence that was taken away by an operator',
  tells   BOOLEAN NOT NULL DEFAULT FALSE COMMENT 'whether the holder wants to know who else wants the name',
  turn    BIGINT NOT NULL DEFAULT 0 COMMENT 'counts changes that somebody in line is told of',
  version BIGINT NOT NULL COMMENT 'changes with every write'
) ENGINE = InnoDB DEFAULT CHARACTER SET = utf8mb4 COMMENT = 'tenure 1'
