-- The ledger and the traces summed by quarters of an hour and by days (src/stats/spans.rs), for figures over long
-- periods.
-- Rows are written when their time is over, and never change.
CREATE TABLE usage_spans (
    project_id INTEGER NOT NULL,
    -- 15 or 1440 minutes, from `start` on: minutes since 1970.
    span INTEGER NOT NULL,
    start INTEGER NOT NULL,
    requests INTEGER NOT NULL,
    blocked INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    cost INTEGER NOT NULL,
    latency_sum INTEGER NOT NULL,
    latency_sketch BLOB NOT NULL,
    -- Traces that were opened in it or have steps in it, and those with findings in it. A day has the sums of its
    -- quarters.
    traces INTEGER NOT NULL,
    found INTEGER NOT NULL,
    pii INTEGER NOT NULL,
    injection INTEGER NOT NULL,
    secret INTEGER NOT NULL,
    -- The revenue of the traces that were opened in it.
    revenue INTEGER NOT NULL,
    PRIMARY KEY (project_id, span, start)
) WITHOUT ROWID;

-- Of the traces of the quarter `start`, the number of those that counted in an earlier one, by the quarter `before`
-- in which they did last: a period with both would count them twice.
CREATE TABLE traces_again (
    project_id INTEGER NOT NULL,
    start INTEGER NOT NULL,
    before INTEGER NOT NULL,
    traces INTEGER NOT NULL,
    found INTEGER NOT NULL,
    pii INTEGER NOT NULL,
    injection INTEGER NOT NULL,
    secret INTEGER NOT NULL,
    PRIMARY KEY (project_id, start, before)
) WITHOUT ROWID;

-- The minute up to which a project's ledger is in `usage_spans`.
CREATE TABLE usage_spanned (
    project_id INTEGER PRIMARY KEY,
    until INTEGER NOT NULL
);

-- Lead to steps with findings and to revenue without the rows of all others.
CREATE INDEX steps_with_findings ON steps (project_id, finished_at, trace_id, pii, injection, secret)
    WHERE pii OR injection OR secret;
CREATE INDEX traces_earning ON traces (project_id, id, revenue) WHERE revenue IS NOT NULL;
