-- The rows of millions of steps take longer than a query of the gateway may.
SET LOCAL statement_timeout = 0;

-- The terms that traces are found by: one row for each trace and term (src/search.rs), written once.
CREATE TABLE trace_terms (
    project_id BIGINT NOT NULL,
    term TEXT COLLATE "C" NOT NULL,
    trace_id UUID NOT NULL,
    PRIMARY KEY (project_id, term, trace_id)
);
INSERT INTO trace_terms (project_id, term, trace_id)
SELECT DISTINCT project_id, 'model=' || model, trace_id
FROM steps
WHERE kind = 'run' AND model IS NOT NULL AND COALESCE(shadow, FALSE) = FALSE;
INSERT INTO trace_terms (project_id, term, trace_id)
SELECT DISTINCT project_id, 'error', trace_id FROM steps WHERE status = 'failed';
INSERT INTO trace_terms (project_id, term, trace_id)
SELECT DISTINCT project_id, 'finding=pii', trace_id FROM steps WHERE pii;
INSERT INTO trace_terms (project_id, term, trace_id)
SELECT DISTINCT project_id, 'finding=injection', trace_id FROM steps WHERE injection;
INSERT INTO trace_terms (project_id, term, trace_id)
SELECT DISTINCT project_id, 'finding=secret', trace_id FROM steps WHERE secret;

-- The figures of a trace that is over. They are written with its end, and null until then.
ALTER TABLE traces ADD COLUMN total_cost BIGINT;
ALTER TABLE traces ADD COLUMN latency BIGINT;
ALTER TABLE traces ADD COLUMN grade TEXT;
UPDATE traces
SET total_cost = COALESCE(
        CAST(round(CAST(CAST(assessment AS JSON) ->> 'total_cost' AS NUMERIC) * 1000000000) AS BIGINT),
        COALESCE(purged_cost, 0) + (SELECT COALESCE(sum(cost), 0) FROM steps WHERE trace_id = traces.id)),
    latency = COALESCE((SELECT max(finished_at) FROM steps WHERE trace_id = traces.id) - created_at, 0),
    grade = CAST(assessment AS JSON) -> 'grades' ->> 'overall'
WHERE status <> 'pending';

-- Holds what a page of traces is filtered by, so that filtering reads nothing else. It begins like the
-- index that it replaces.
CREATE INDEX traces_searched ON traces (project_id, id, status, key_id, grade, total_cost, latency);
DROP INDEX traces_by_project;
