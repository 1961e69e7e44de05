-- Usage by one dimension at a time (src/groups.rs), of whole hours and whole days. Rows are written when
-- their hour or day is over, and never change.
CREATE TABLE usage_groups (
    project_id BIGINT NOT NULL,
    dimension TEXT NOT NULL,
    -- 1 or 24 hours, from `start` on: hours since 1970.
    span BIGINT NOT NULL,
    start BIGINT NOT NULL,
    -- Empty for calls without one.
    value TEXT NOT NULL,
    requests BIGINT NOT NULL,
    blocked BIGINT NOT NULL,
    failures BIGINT NOT NULL,
    prompt_tokens BIGINT NOT NULL,
    cached_tokens BIGINT NOT NULL,
    completion_tokens BIGINT NOT NULL,
    cost BIGINT NOT NULL,
    PRIMARY KEY (project_id, dimension, span, start, value)
);

-- The hour up to which a project's steps are in `usage_groups`.
CREATE TABLE usage_grouped (
    project_id BIGINT PRIMARY KEY,
    until BIGINT NOT NULL
);
