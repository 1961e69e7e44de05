-- How alike the answers of a shadow call and of the call beside it are, 0 to 1; null for other steps.
ALTER TABLE steps ADD COLUMN similarity REAL;
