-- Lead to the traces that cost or took more than most. A trace that is not over has no figure, and no entry.
CREATE INDEX traces_by_cost ON traces (project_id, total_cost, id) WHERE total_cost IS NOT NULL;
CREATE INDEX traces_by_latency ON traces (project_id, latency, id) WHERE latency IS NOT NULL;
