-- The files of exports in pieces, sealed. run: the run of the job that wrote it; those of other runs are left over.
CREATE TABLE export_pieces (
    job_id TEXT NOT NULL,
    run BIGINT NOT NULL,
    number BIGINT NOT NULL,
    sealed BYTEA NOT NULL,
    PRIMARY KEY (job_id, run, number)
);
-- One row a file, so that files without a job are found at once. The first piece is deleted last.
CREATE INDEX export_first_pieces ON export_pieces (job_id, run) WHERE number = 0;
-- They are compressed before they are sealed.
ALTER TABLE export_pieces ALTER COLUMN sealed SET STORAGE EXTERNAL;
