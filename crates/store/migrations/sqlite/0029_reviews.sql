-- Whether a person has judged the findings of a step that asks for a review.
ALTER TABLE steps ADD COLUMN judged BOOLEAN NOT NULL DEFAULT FALSE;
-- The queue of a project: exactly the steps that wait, in the order in which they ended.
CREATE INDEX steps_for_review ON steps (project_id, finished_at, id) WHERE review AND NOT judged;
-- The verdicts, with what was found then: advice needs no step for it. A verdict outlives its step for a while.
CREATE TABLE review_verdicts (
    step_id INTEGER PRIMARY KEY,
    project_id INTEGER NOT NULL,
    user_id INTEGER NOT NULL,
    verdict TEXT NOT NULL,
    note TEXT,
    findings TEXT NOT NULL,
    risk_score REAL NOT NULL,
    created_at INTEGER NOT NULL
);
CREATE INDEX review_verdicts_by_project ON review_verdicts (project_id, created_at, step_id);
