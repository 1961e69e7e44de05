-- Tokens that were written to a provider's cache for an hour, a part of cache_write_tokens, and the price of
-- 1,000 of them. Steps of before have none.
ALTER TABLE steps ADD COLUMN cache_write_1h_tokens BIGINT;
ALTER TABLE steps ADD COLUMN cache_write_1h_price BIGINT;
