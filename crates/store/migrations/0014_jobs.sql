-- Work that goes on after the request that has asked for it. request: the hash of what was asked for. payload and result:
-- JSON of the kind. done, total: the parts that are done, and all parts. node: the node that runs it; the job is queued
-- again when that is gone. runs: how often a node has begun to run it. expires_at: once it is over, the time until which it is found.
CREATE TABLE jobs (
    id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    project_id BIGINT NOT NULL,
    key_id BIGINT,
    request TEXT NOT NULL,
    payload TEXT NOT NULL,
    state TEXT NOT NULL,
    done BIGINT NOT NULL,
    total BIGINT NOT NULL,
    runs BIGINT NOT NULL,
    node BIGINT,
    result TEXT,
    error TEXT,
    created_at BIGINT NOT NULL,
    started_at BIGINT,
    finished_at BIGINT,
    expires_at BIGINT
);
-- The same request has one job at a time, however many nodes it is sent to.
CREATE UNIQUE INDEX jobs_by_request ON jobs (project_id, kind, request) WHERE state <> 'failed';
CREATE INDEX jobs_to_run ON jobs (kind, state, created_at) WHERE state IN ('queued', 'running');
CREATE INDEX jobs_by_expiry ON jobs (expires_at) WHERE expires_at IS NOT NULL;
-- The step of another trace that a step of a replay repeats.
ALTER TABLE steps ADD COLUMN source_step_id BIGINT;
