-- Whom a step's call is for, as its caller names it. Tags are a JSON object of texts.
ALTER TABLE steps ADD COLUMN attr_user TEXT;
ALTER TABLE steps ADD COLUMN attr_session TEXT;
ALTER TABLE steps ADD COLUMN attr_tags TEXT;
