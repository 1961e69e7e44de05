-- What a trace remembers of the steps that went when their retention was over, written when they go: what they had
-- cost (null while none has gone), the longest rule they went by, what was found in them.
ALTER TABLE traces ADD COLUMN purged_cost INTEGER;
ALTER TABLE traces ADD COLUMN purged_days INTEGER NOT NULL DEFAULT 0;
ALTER TABLE traces ADD COLUMN purged_pii BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE traces ADD COLUMN purged_injection BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE traces ADD COLUMN purged_secret BOOLEAN NOT NULL DEFAULT FALSE;
CREATE INDEX traces_purged ON traces (project_id, id) WHERE purged_cost IS NOT NULL;
