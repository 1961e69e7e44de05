-- The sealed credentials of a model's endpoints, which are described in its config.
ALTER TABLE models ADD COLUMN endpoint_keys BYTEA;
