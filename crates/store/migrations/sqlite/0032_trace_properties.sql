-- Lead to the traces of a grade, key or status, in order, and hold all that a trace is filtered by beside its
-- terms: a filter that few or no traces fit reads only them. That of before is dropped last: until then traces
-- can be read.
CREATE INDEX traces_graded ON traces (project_id, grade, id, status, key_id, total_cost, latency) WHERE grade IS NOT NULL;
CREATE INDEX traces_of_key ON traces (project_id, key_id, id, status, grade, total_cost, latency) WHERE key_id IS NOT NULL;
CREATE INDEX traces_in_status ON traces (project_id, status, id, key_id, grade, total_cost, latency);
DROP INDEX traces_by_status;
