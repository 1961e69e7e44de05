-- Usage by one dimension at a time (src/groups.rs), of whole hours and whole days. Rows are written when
-- their hour or day is over, and never change.
CREATE TABLE usage_groups (
    project_id INTEGER NOT NULL,
    dimension TEXT NOT NULL,
    -- 1 or 24 hours, from `start` on: hours since 1970.
    span INTEGER NOT NULL,
    start INTEGER NOT NULL,
    -- Empty for calls without one.
    value TEXT NOT NULL,
    requests INTEGER NOT NULL,
    blocked INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    cached_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    cost INTEGER NOT NULL,
    PRIMARY KEY (project_id, dimension, span, start, value)
) WITHOUT ROWID;

-- The hour up to which a project's steps are in `usage_groups`.
CREATE TABLE usage_grouped (
    project_id INTEGER PRIMARY KEY,
    until INTEGER NOT NULL
);
