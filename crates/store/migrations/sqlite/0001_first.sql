-- Times are microseconds since 1970, money is nano-dollars, JSON is text that SQL never searches.

CREATE TABLE meta (
    name TEXT PRIMARY KEY,
    value BLOB NOT NULL
);

CREATE TABLE counters (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
);
INSERT INTO counters (name, value) VALUES ('step', 1), ('node', 0), ('registry', 1);

CREATE TABLE organizations (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    created_at INTEGER NOT NULL
);

CREATE TABLE users (
    id INTEGER PRIMARY KEY,
    email TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    password_hash TEXT NOT NULL,
    mfa_enabled BOOLEAN NOT NULL DEFAULT FALSE,
    created_at INTEGER NOT NULL
);

CREATE TABLE memberships (
    org_id INTEGER NOT NULL REFERENCES organizations (id),
    user_id INTEGER NOT NULL REFERENCES users (id),
    role TEXT NOT NULL,
    PRIMARY KEY (org_id, user_id)
);

CREATE TABLE sessions (
    token_hash BLOB PRIMARY KEY,
    user_id INTEGER NOT NULL REFERENCES users (id),
    created_at INTEGER NOT NULL,
    last_seen_at INTEGER NOT NULL
);
CREATE INDEX sessions_by_user ON sessions (user_id);

CREATE TABLE projects (
    id INTEGER PRIMARY KEY,
    org_id INTEGER NOT NULL REFERENCES organizations (id),
    name TEXT NOT NULL,
    description TEXT,
    status TEXT NOT NULL,
    settings TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    deleted_at INTEGER
);

CREATE TABLE project_members (
    project_id INTEGER NOT NULL REFERENCES projects (id),
    user_id INTEGER NOT NULL REFERENCES users (id),
    PRIMARY KEY (project_id, user_id)
);

-- Keys that seal a project's content and credentials, wrapped by the master key. Deleting them shreds the project.
CREATE TABLE data_keys (
    id INTEGER PRIMARY KEY,
    project_id INTEGER NOT NULL REFERENCES projects (id),
    wrapped BLOB NOT NULL,
    created_at INTEGER NOT NULL
);
CREATE INDEX data_keys_by_project ON data_keys (project_id);

CREATE TABLE models (
    id INTEGER PRIMARY KEY,
    project_id INTEGER NOT NULL REFERENCES projects (id),
    name TEXT NOT NULL,
    identifier TEXT NOT NULL,
    provider TEXT NOT NULL,
    base_url TEXT,
    api_key BLOB,
    is_public BOOLEAN NOT NULL,
    input_price INTEGER,
    output_price INTEGER,
    data_retention_days INTEGER NOT NULL,
    region TEXT NOT NULL,
    currency TEXT NOT NULL,
    config TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    -- A deleted model stays for its retention rule.
    deleted_at INTEGER
);
CREATE UNIQUE INDEX models_by_identifier ON models (project_id, identifier) WHERE deleted_at IS NULL;

CREATE TABLE api_keys (
    id INTEGER PRIMARY KEY,
    project_id INTEGER NOT NULL REFERENCES projects (id),
    name TEXT NOT NULL,
    secret_hash BLOB NOT NULL,
    masked TEXT NOT NULL,
    status TEXT NOT NULL,
    hourly_limit INTEGER,
    expires_at INTEGER,
    loop_interventions INTEGER NOT NULL DEFAULT 0,
    last_used INTEGER,
    reset_at INTEGER,
    created_at INTEGER NOT NULL,
    revoked_at INTEGER
);
CREATE INDEX api_keys_by_project ON api_keys (project_id);

-- Request times of keys, so that rate and loop windows survive a restart.
CREATE TABLE key_windows (
    key_id INTEGER PRIMARY KEY,
    windows BLOB NOT NULL,
    saved_at INTEGER NOT NULL
);

CREATE TABLE traces (
    id BLOB PRIMARY KEY,
    project_id INTEGER NOT NULL,
    key_id INTEGER,
    status TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    completed_at INTEGER,
    metadata TEXT,
    revenue INTEGER,
    assessment TEXT,
    chain_depth INTEGER,
    stall_probability REAL,
    tool_fidelity REAL
);
-- Ids begin with the time, so this is the order of the list as well.
CREATE INDEX traces_by_project ON traces (project_id, id);
CREATE INDEX traces_by_status ON traces (project_id, status, id);

-- One row a step: metrics only. Content lies in step_contents.
CREATE TABLE steps (
    id INTEGER PRIMARY KEY,
    trace_id BLOB NOT NULL,
    project_id INTEGER NOT NULL,
    key_id INTEGER,
    kind TEXT NOT NULL,
    parent_step_id INTEGER,
    door TEXT NOT NULL,
    status TEXT NOT NULL,
    reason TEXT,
    error TEXT,
    started_at INTEGER NOT NULL,
    finished_at INTEGER NOT NULL,
    tier TEXT,
    classified_tier TEXT,
    complexity REAL,
    intent TEXT,
    routing_reasons TEXT,
    pii BOOLEAN NOT NULL,
    injection BOOLEAN NOT NULL,
    secret BOOLEAN NOT NULL,
    review BOOLEAN NOT NULL,
    risk_score REAL NOT NULL,
    findings TEXT,
    model TEXT,
    provider TEXT,
    upstream_model TEXT,
    infrastructure TEXT,
    is_public BOOLEAN,
    attempts INTEGER,
    prompt_tokens INTEGER,
    cached_tokens INTEGER,
    cache_write_tokens INTEGER,
    completion_tokens INTEGER,
    reasoning_tokens INTEGER,
    input_price INTEGER,
    output_price INTEGER,
    cached_price INTEGER,
    cache_write_price INTEGER,
    cost INTEGER,
    cost_estimated BOOLEAN,
    first_token INTEGER,
    finish_reason TEXT,
    input_print INTEGER,
    output_print INTEGER,
    tool_print INTEGER,
    shadow BOOLEAN,
    user_rating REAL
);
CREATE INDEX steps_by_trace ON steps (trace_id, started_at, id);
-- Holds what the rolling hour of a key is counted from, so that counting reads nothing else.
CREATE INDEX steps_by_project ON steps (project_id, finished_at, key_id, cost);

-- Compressed, then sealed with the project's data key.
CREATE TABLE step_contents (
    step_id INTEGER PRIMARY KEY,
    project_id INTEGER NOT NULL,
    sealed BLOB NOT NULL
);

-- Provider calls that have begun and are not recorded yet. What a crash leaves here is settled at the next start.
CREATE TABLE open_calls (
    step_id INTEGER PRIMARY KEY,
    node INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    call TEXT NOT NULL
);

-- The ledger. Each node writes rows of its own, so no row is hot; rows of all nodes merge by adding.
CREATE TABLE usage_ledger (
    node INTEGER NOT NULL,
    minute INTEGER NOT NULL,
    project_id INTEGER NOT NULL,
    key_id INTEGER NOT NULL,
    model TEXT NOT NULL,
    infrastructure TEXT NOT NULL,
    tier TEXT NOT NULL,
    requests INTEGER NOT NULL,
    blocked INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    cached_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    cost INTEGER NOT NULL,
    latency_sum INTEGER NOT NULL,
    latency_sketch BLOB NOT NULL,
    PRIMARY KEY (project_id, minute, key_id, model, infrastructure, tier, node)
);

CREATE TABLE audit_events (
    id INTEGER PRIMARY KEY,
    org_id INTEGER NOT NULL,
    event TEXT NOT NULL,
    actor_id INTEGER,
    actor TEXT,
    target_type TEXT,
    target_id TEXT,
    ip TEXT NOT NULL,
    user_agent TEXT NOT NULL,
    metadata TEXT NOT NULL,
    occurred_at INTEGER NOT NULL
);
CREATE INDEX audit_events_by_org ON audit_events (org_id, id);
CREATE INDEX audit_events_by_event ON audit_events (org_id, event, id);
