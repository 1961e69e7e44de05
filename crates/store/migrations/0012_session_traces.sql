-- Traces that the calls of a session share. session: the session whose calls the trace takes, as a keyed hash in hex;
-- null for other traces, and once it takes no more. active_at: the last activity that is known; null for other traces,
-- and once it is completed.
ALTER TABLE traces ADD COLUMN session TEXT;
ALTER TABLE traces ADD COLUMN active_at BIGINT;
-- A session has one trace at a time, however many nodes open one.
CREATE UNIQUE INDEX traces_by_session ON traces (project_id, session) WHERE session IS NOT NULL;
CREATE INDEX traces_of_idle_sessions ON traces (project_id, active_at) WHERE active_at IS NOT NULL;
