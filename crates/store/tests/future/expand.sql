-- What the next versions may do beside this one: columns and tables that it does not know, with defaults or none,
-- and indices.
ALTER TABLE steps ADD COLUMN of_a_newer_version BIGINT;
ALTER TABLE steps ADD COLUMN with_a_default TEXT NOT NULL DEFAULT 'none';
ALTER TABLE step_contents ADD COLUMN of_a_newer_version BIGINT;
ALTER TABLE traces ADD COLUMN of_a_newer_version TEXT;
ALTER TABLE projects ADD COLUMN with_a_default BIGINT NOT NULL DEFAULT 7;
ALTER TABLE api_keys ADD COLUMN of_a_newer_version TEXT;
ALTER TABLE models ADD COLUMN of_a_newer_version TEXT;
ALTER TABLE open_calls ADD COLUMN with_a_default BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage_ledger ADD COLUMN with_a_default BIGINT NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN of_a_newer_version TEXT;
ALTER TABLE users ADD COLUMN of_a_newer_version TEXT;
ALTER TABLE sessions ADD COLUMN of_a_newer_version TEXT;
ALTER TABLE audit_events ADD COLUMN of_a_newer_version TEXT;
CREATE TABLE of_a_newer_version (step_id BIGINT PRIMARY KEY, value TEXT);
CREATE INDEX steps_of_a_newer_version ON steps (of_a_newer_version);
INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
SELECT max(version) + 1, 'expand of a test', TRUE, checksum, 0
FROM (SELECT version, (SELECT checksum FROM _sqlx_migrations ORDER BY version LIMIT 1) AS checksum FROM _sqlx_migrations) applied
GROUP BY checksum;
