-- An index of millions of steps takes longer than a query of the gateway may.
SET LOCAL statement_timeout = 0;

-- The ledger and the traces summed by quarters of an hour and by days (src/stats/spans.rs), for figures over long
-- periods.
-- Rows are written when their time is over, and never change.
CREATE TABLE usage_spans (
    project_id BIGINT NOT NULL,
    -- 15 or 1440 minutes, from `start` on: minutes since 1970.
    span BIGINT NOT NULL,
    start BIGINT NOT NULL,
    requests BIGINT NOT NULL,
    blocked BIGINT NOT NULL,
    failures BIGINT NOT NULL,
    prompt_tokens BIGINT NOT NULL,
    completion_tokens BIGINT NOT NULL,
    cost BIGINT NOT NULL,
    latency_sum BIGINT NOT NULL,
    latency_sketch BYTEA NOT NULL,
    -- Traces that were opened in it or have steps in it, and those with findings in it. A day has the sums of its
    -- quarters.
    traces BIGINT NOT NULL,
    found BIGINT NOT NULL,
    pii BIGINT NOT NULL,
    injection BIGINT NOT NULL,
    secret BIGINT NOT NULL,
    -- The revenue of the traces that were opened in it.
    revenue BIGINT NOT NULL,
    PRIMARY KEY (project_id, span, start)
);

-- Of the traces of the quarter `start`, the number of those that counted in an earlier one, by the quarter `before`
-- in which they did last: a period with both would count them twice.
CREATE TABLE traces_again (
    project_id BIGINT NOT NULL,
    start BIGINT NOT NULL,
    before BIGINT NOT NULL,
    traces BIGINT NOT NULL,
    found BIGINT NOT NULL,
    pii BIGINT NOT NULL,
    injection BIGINT NOT NULL,
    secret BIGINT NOT NULL,
    PRIMARY KEY (project_id, start, before)
);

-- The minute up to which a project's ledger is in `usage_spans`.
CREATE TABLE usage_spanned (
    project_id BIGINT PRIMARY KEY,
    until BIGINT NOT NULL
);

-- Lead to steps with findings and to revenue without the rows of all others.
CREATE INDEX steps_with_findings ON steps (project_id, finished_at, trace_id, pii, injection, secret)
    WHERE pii OR injection OR secret;
CREATE INDEX traces_earning ON traces (project_id, id, revenue) WHERE revenue IS NOT NULL;
