-- What the records of a project suggest to its people. subject: what an insight is about; a project has one of
-- each kind and subject. The data of a dismissed one is that of its dismissal. created_at: when it became active.
CREATE TABLE insights (
    id INTEGER PRIMARY KEY,
    project_id INTEGER NOT NULL REFERENCES projects (id),
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    status TEXT NOT NULL,
    data TEXT NOT NULL,
    estimated_savings INTEGER NOT NULL,
    created_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX insights_by_subject ON insights (project_id, kind, subject);
