-- Issuers of single sign-on. Rules and scopes are JSON; the secret is sealed by the master key.
CREATE TABLE sign_on_providers (
    id INTEGER PRIMARY KEY,
    org_id INTEGER NOT NULL REFERENCES organizations (id),
    slug TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    issuer TEXT NOT NULL,
    client_id TEXT NOT NULL,
    client_secret BLOB,
    scopes TEXT NOT NULL,
    groups_claim TEXT NOT NULL,
    rules TEXT NOT NULL,
    trusts_factor BOOLEAN NOT NULL DEFAULT FALSE,
    created_at INTEGER NOT NULL
);
-- Whether the user was made by this identity: role and projects then follow the rules.
ALTER TABLE identities ADD COLUMN made_user BOOLEAN NOT NULL DEFAULT FALSE;
-- The issuer that a session came by; without one it came by a password.
ALTER TABLE sessions ADD COLUMN provider_id INTEGER;
-- Whether a trusted issuer has seen a second factor.
ALTER TABLE sessions ADD COLUMN has_factor BOOLEAN NOT NULL DEFAULT FALSE;
