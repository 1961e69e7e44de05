-- expand
-- What a project keeps is summed up over the claims with an answer alone.
CREATE INDEX idempotency_claims_kept ON idempotency_claims (project_id, key_id) WHERE answer IS NOT NULL;
