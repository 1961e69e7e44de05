-- A fingerprint for each call of a tool, as a JSON list. tool_print, one for all of an answer's, is not read any
-- more; a node of the version before may still write it.
ALTER TABLE steps ADD COLUMN tool_prints TEXT;
