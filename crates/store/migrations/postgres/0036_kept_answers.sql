-- expand
-- The rule for every file that builds an index.
SET LOCAL statement_timeout = 0;
-- What a project keeps is summed up over the claims with an answer alone.
CREATE INDEX idempotency_claims_kept ON idempotency_claims (project_id, key_id) WHERE answer IS NOT NULL;
