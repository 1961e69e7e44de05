-- expand
-- Partitions of steps (PostgreSQL, src/partitions/) whose steps are gone: their tables are detached, and are dropped
-- once traces have what they keep of the steps. name: of the table that was a partition of steps. newest: the end of
-- its last step. gathered: the last step whose data its trace has; the largest number if nothing is left to gather and
-- the empty table cannot be dropped, and then newest is the smallest. detached: the time at which it was detached.
CREATE TABLE detached_partitions (
    name TEXT PRIMARY KEY,
    newest BIGINT NOT NULL,
    gathered BIGINT NOT NULL,
    detached BIGINT NOT NULL
);
