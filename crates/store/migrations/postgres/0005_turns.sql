-- How many completed answers of the assistants endpoint a trace holds: the writer numbers them.
ALTER TABLE traces ADD COLUMN turns BIGINT NOT NULL DEFAULT 0;
UPDATE traces
SET turns = counted.turns
FROM (
    SELECT trace_id, count(*) AS turns
    FROM steps
    WHERE door = 'assistants'
        AND kind = 'run'
        AND status = 'completed'
    GROUP BY trace_id
) AS counted
WHERE traces.id = counted.trace_id;
