-- Addresses (IPv6: /64) from which an account was signed in to, the latest few of each. Failures to sign in
-- from elsewhere do not count against them.
CREATE TABLE known_networks (
    user_id BIGINT NOT NULL REFERENCES users (id),
    network TEXT NOT NULL,
    last_at BIGINT NOT NULL,
    PRIMARY KEY (user_id, network)
);
