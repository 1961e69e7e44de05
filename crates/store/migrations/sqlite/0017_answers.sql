-- The look of the text of a call's answer; null for answers without a text, and for steps of before.
ALTER TABLE steps ADD COLUMN answer_characters INTEGER;
ALTER TABLE steps ADD COLUMN answer_language TEXT;
ALTER TABLE steps ADD COLUMN answer_refuses BOOLEAN;
