-- Requests with an Idempotency-Key, and the answers that are kept for them. name: keyed hash of path and key; request:
-- keyed hash of body and query. state: 'running' on its node; 'answered', with the answer compressed and sealed; 'lost',
-- a model may have been called and the answer is not known; 'unkept', the answer was too large. begun: a model may have
-- been called.
CREATE TABLE idempotency_claims (
    project_id INTEGER NOT NULL,
    key_id INTEGER NOT NULL,
    name BLOB NOT NULL,
    request BLOB NOT NULL,
    state TEXT NOT NULL,
    node INTEGER NOT NULL,
    begun BOOLEAN NOT NULL,
    created_at INTEGER NOT NULL,
    answer BLOB,
    PRIMARY KEY (project_id, key_id, name)
);
CREATE INDEX idempotency_claims_by_age ON idempotency_claims (created_at);
CREATE INDEX idempotency_claims_running ON idempotency_claims (node) WHERE state = 'running';
