-- How many tools a model call asked for, and how well those calls fit what was declared.
ALTER TABLE steps ADD COLUMN tool_calls INTEGER;
ALTER TABLE steps ADD COLUMN tool_fidelity REAL;
