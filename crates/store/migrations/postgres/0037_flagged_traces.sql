-- expand
-- The rule for every file that builds an index.
SET LOCAL statement_timeout = 0;
-- Lead to the few traces that are flagged, and hold why. The condition is that of the query, word for word.
CREATE INDEX traces_flagged ON traces (project_id, id, stall_probability, tool_fidelity)
    WHERE (stall_probability > 0.7 OR tool_fidelity < 0.8);
