-- The number is taken by a change that is built at the same time.
SELECT 1;
