-- expand
-- Partitions of steps (PostgreSQL, src/partitions/) whose steps are gone: their tables are detached, and are dropped
-- once traces have what they keep of the steps. name: of the table that was a partition of steps. newest: the end of
-- its last step. gathered: the last step whose data its trace has; the largest number if nothing is left to gather and
-- the empty table cannot be dropped, and then newest is the smallest. number: of all that are detached, one after
-- the other, counted in counters.
CREATE TABLE detached_partitions (
    name TEXT PRIMARY KEY,
    newest BIGINT NOT NULL,
    gathered BIGINT NOT NULL,
    number BIGINT NOT NULL
);
-- The number of the last partition that was detached before total_cost was set: that has what was gathered of it and
-- of those before it, and gets the cost of what is gathered later. The steps of later ones are in it already.
ALTER TABLE traces ADD COLUMN total_after BIGINT;
