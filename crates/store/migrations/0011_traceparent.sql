-- The place of a step's request in the caller's own trace (W3C Trace Context), if the caller named one.
ALTER TABLE steps ADD COLUMN traceparent TEXT;
