-- Whether a sign-on has made the user: role and projects then follow the rules, whatever becomes of the identity
-- that they came by.
ALTER TABLE users ADD COLUMN made_by_sign_on BOOLEAN NOT NULL DEFAULT FALSE;
UPDATE users SET made_by_sign_on = TRUE WHERE id IN (SELECT user_id FROM identities WHERE made_user);
ALTER TABLE identities DROP COLUMN made_user;
-- The last user of an identity that is linked to nobody: they do not come back by it once they are removed.
CREATE TABLE unlinked_identities (
    issuer TEXT NOT NULL,
    subject TEXT NOT NULL,
    user_id BIGINT NOT NULL REFERENCES users (id),
    email TEXT NOT NULL,
    PRIMARY KEY (issuer, subject)
);
-- The service token that has judged; the user is 0 then.
ALTER TABLE review_verdicts ADD COLUMN token_id BIGINT;
