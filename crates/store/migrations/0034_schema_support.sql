-- expand
-- The oldest schema version whose binaries work with this database, in one row. A migration that takes away what
-- they use raises it: UPDATE schema_support SET oldest = 36.
CREATE TABLE schema_support (oldest BIGINT NOT NULL);
INSERT INTO schema_support (oldest) VALUES (34);
