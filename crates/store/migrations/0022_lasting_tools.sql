-- The vendor's own tools that a stored response makes available to requests that continue it: a JSON array of
-- definitions, reduced to what their charges depend on; null if there are none.
ALTER TABLE kept_responses ADD COLUMN tools TEXT;
