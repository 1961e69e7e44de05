-- The last link of each node's chain of audit events, and the hash that its first link continues.
-- The row of a node orders its writers. Node 0 has no chain: its row orders chains that begin.
CREATE TABLE audit_heads (
    node BIGINT PRIMARY KEY,
    link BIGINT NOT NULL,
    hash BYTEA NOT NULL,
    start_hash BYTEA NOT NULL
);
INSERT INTO audit_heads (node, link, hash, start_hash) VALUES (0, 0, '', '');
-- An index of millions of events takes longer than a query of the gateway may.
SET LOCAL statement_timeout = 0;
CREATE INDEX audit_events_by_time ON audit_events (org_id, occurred_at, id);
CREATE INDEX audit_events_by_actor ON audit_events (org_id, actor, id);
CREATE INDEX audit_events_by_target ON audit_events (org_id, target_type, target_id, id);
