-- Hold all that a trace is filtered by beside its terms, so that no trace is read of the many that cost or
-- took enough and do not fit otherwise; and lead to those that have no figure yet. Those of before are dropped
-- last: until then traces can be read.
CREATE INDEX traces_costing ON traces (project_id, total_cost, id, latency, grade, status, key_id);
CREATE INDEX traces_lasting ON traces (project_id, latency, id, total_cost, grade, status, key_id);
DROP INDEX traces_by_cost;
DROP INDEX traces_by_latency;
