-- People: second factors, sessions that are listed, links that are used once, sign-on by others.
ALTER TABLE organizations ADD COLUMN settings TEXT NOT NULL DEFAULT '{}';
-- A user without a password has the empty text for its hash: they sign in another way.
ALTER TABLE users ADD COLUMN email_verified_at BIGINT;
ALTER TABLE users ADD COLUMN totp_secret BYTEA;
ALTER TABLE users ADD COLUMN totp_step BIGINT NOT NULL DEFAULT 0;
CREATE TABLE recovery_codes (
    user_id BIGINT NOT NULL REFERENCES users (id),
    code_hash BYTEA NOT NULL,
    PRIMARY KEY (user_id, code_hash)
);
CREATE TABLE passkeys (
    credential_id BYTEA PRIMARY KEY,
    user_id BIGINT NOT NULL REFERENCES users (id),
    name TEXT NOT NULL,
    credential TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    last_used_at BIGINT
);
CREATE INDEX passkeys_by_user ON passkeys (user_id);
-- The account of a user at an issuer, by its subject there.
CREATE TABLE identities (
    issuer TEXT NOT NULL,
    subject TEXT NOT NULL,
    user_id BIGINT NOT NULL REFERENCES users (id),
    email TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (issuer, subject)
);
CREATE INDEX identities_by_user ON identities (user_id);
ALTER TABLE sessions ADD COLUMN awaits_factor BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE sessions ADD COLUMN address TEXT;
ALTER TABLE sessions ADD COLUMN user_agent TEXT;
-- Links for invitations, new passwords and addresses. Only the hash of a token is kept.
CREATE TABLE one_time_links (
    token_hash BYTEA PRIMARY KEY,
    org_id BIGINT NOT NULL REFERENCES organizations (id),
    purpose TEXT NOT NULL,
    email TEXT NOT NULL,
    user_id BIGINT,
    role TEXT,
    projects TEXT,
    created_by BIGINT,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX one_time_links_by_org ON one_time_links (org_id, purpose, created_at);
-- Lists of what a key may call are JSON; without one it may call all.
ALTER TABLE api_keys ADD COLUMN allowed_models TEXT;
ALTER TABLE api_keys ADD COLUMN allowed_endpoints TEXT;
ALTER TABLE api_keys ADD COLUMN owner_id BIGINT;
-- The secret before a rotation, until the overlap ends.
ALTER TABLE api_keys ADD COLUMN earlier_hash BYTEA;
ALTER TABLE api_keys ADD COLUMN earlier_until BIGINT;
CREATE TABLE service_tokens (
    id BIGINT PRIMARY KEY,
    org_id BIGINT NOT NULL REFERENCES organizations (id),
    name TEXT NOT NULL,
    secret_hash BYTEA NOT NULL,
    masked TEXT NOT NULL,
    role TEXT NOT NULL,
    projects TEXT NOT NULL,
    created_by BIGINT,
    created_at BIGINT NOT NULL,
    expires_at BIGINT,
    revoked_at BIGINT,
    last_used_at BIGINT
);
CREATE INDEX service_tokens_by_org ON service_tokens (org_id);
-- A chain for each node: the hash of an event covers the one before it.
ALTER TABLE audit_events ADD COLUMN node BIGINT;
ALTER TABLE audit_events ADD COLUMN link BIGINT;
ALTER TABLE audit_events ADD COLUMN hash BYTEA;
SET LOCAL statement_timeout = 0;
CREATE UNIQUE INDEX audit_events_by_link ON audit_events (node, link);
