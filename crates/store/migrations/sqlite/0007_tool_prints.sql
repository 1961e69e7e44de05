-- A fingerprint for each call of a tool, as a JSON list, in the place of one for all of an answer's.
ALTER TABLE steps ADD COLUMN tool_prints TEXT;
UPDATE steps SET tool_prints = '[' || tool_print || ']' WHERE tool_print IS NOT NULL;
ALTER TABLE steps DROP COLUMN tool_print;
