-- Hold all that a trace is filtered by beside its terms, so that no trace is read of the many that cost or
-- took enough and do not fit otherwise.
DROP INDEX traces_by_cost;
DROP INDEX traces_by_latency;
CREATE INDEX traces_by_cost ON traces (project_id, total_cost, id, latency, grade, status, key_id)
    WHERE total_cost IS NOT NULL;
CREATE INDEX traces_by_latency ON traces (project_id, latency, id, total_cost, grade, status, key_id)
    WHERE latency IS NOT NULL;
