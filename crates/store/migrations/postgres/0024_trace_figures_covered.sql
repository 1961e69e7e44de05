-- An index of millions of traces takes longer than a query of the gateway may.
SET LOCAL statement_timeout = 0;

-- Hold all that a trace is filtered by beside its terms, so that no trace is read of the many that cost or
-- took enough and do not fit otherwise. Those of before are dropped last: until then traces can be read.
CREATE INDEX traces_costing ON traces (project_id, total_cost, id, latency, grade, status, key_id)
    WHERE total_cost IS NOT NULL;
CREATE INDEX traces_lasting ON traces (project_id, latency, id, total_cost, grade, status, key_id)
    WHERE latency IS NOT NULL;
-- Lead to the traces that have no figure yet: those that are not over, and replays.
CREATE INDEX traces_without_cost ON traces (project_id, id) WHERE total_cost IS NULL;
CREATE INDEX traces_without_latency ON traces (project_id, id) WHERE latency IS NULL;
DROP INDEX traces_by_cost;
DROP INDEX traces_by_latency;
