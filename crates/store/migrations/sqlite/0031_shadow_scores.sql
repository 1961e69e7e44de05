-- Runs of a job that ended with their node and not at a stop.
ALTER TABLE jobs ADD COLUMN losses BIGINT NOT NULL DEFAULT 0;
-- Steps whose answer a shadow model has answered too: few, and their similarity is averaged over any period.
CREATE INDEX steps_compared ON steps (project_id, finished_at, similarity) WHERE similarity IS NOT NULL;
