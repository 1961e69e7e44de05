-- An index of millions of traces takes longer than a query of the gateway may.
SET LOCAL statement_timeout = 0;

-- Lead to the traces that cost or took more than most. A trace that is not over has no figure, and no entry.
CREATE INDEX traces_by_cost ON traces (project_id, total_cost, id) WHERE total_cost IS NOT NULL;
CREATE INDEX traces_by_latency ON traces (project_id, latency, id) WHERE latency IS NOT NULL;
