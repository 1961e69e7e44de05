-- What vendors keep of answers: a row for each response and for each item of its output. id: the vendor's;
-- response: that of the response. step_id: the call that was answered, with which the row goes. account: the
-- fingerprint of the vendor's account that keeps it. tokens: those of the response, its prompt included, or of
-- all items of its output; null if they are not known. session: that of the call, as a keyed hash in hex.
CREATE TABLE kept_responses (
    project_id BIGINT NOT NULL,
    id TEXT NOT NULL,
    response TEXT NOT NULL,
    step_id BIGINT NOT NULL,
    model TEXT NOT NULL,
    account BIGINT NOT NULL,
    tokens BIGINT,
    session TEXT NOT NULL,
    PRIMARY KEY (project_id, id)
);
CREATE INDEX kept_responses_by_step ON kept_responses (step_id);
