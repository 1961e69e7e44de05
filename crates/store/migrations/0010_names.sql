-- The columns of steps have the names that the code and the documents use.
ALTER TABLE steps RENAME COLUMN door TO api_endpoint;
ALTER TABLE steps RENAME COLUMN input_print TO input_fingerprint;
ALTER TABLE steps RENAME COLUMN output_print TO output_fingerprint;
ALTER TABLE steps RENAME COLUMN tool_prints TO tool_fingerprints;
ALTER TABLE steps DROP COLUMN tool_print;
