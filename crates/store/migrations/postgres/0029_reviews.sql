-- An index of millions of steps takes longer than a query of the gateway may.
SET LOCAL statement_timeout = 0;

-- Whether a person has judged the findings of a step that asks for a review.
ALTER TABLE steps ADD COLUMN judged BOOLEAN NOT NULL DEFAULT FALSE;
-- The queue of a project: exactly the steps that wait, in the order in which they ended.
CREATE INDEX steps_for_review ON steps (project_id, finished_at, id) WHERE review AND NOT judged;
-- The verdicts, with what was found then: advice needs no step for it. A verdict outlives its step for a while.
CREATE TABLE review_verdicts (
    step_id BIGINT PRIMARY KEY,
    project_id BIGINT NOT NULL,
    user_id BIGINT NOT NULL,
    verdict TEXT NOT NULL,
    note TEXT,
    findings TEXT NOT NULL,
    risk_score DOUBLE PRECISION NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX review_verdicts_by_project ON review_verdicts (project_id, created_at, step_id);
