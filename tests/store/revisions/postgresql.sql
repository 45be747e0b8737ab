-- What the migrations of Trivium did up to each schema.
-- 0001
CREATE TABLE alembic_version (
    version_num VARCHAR(32) NOT NULL, CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
CREATE TABLE runs (
    number BIGSERIAL NOT NULL, id VARCHAR(64) NOT NULL, suite_name TEXT NOT NULL, suite VARCHAR(64) NOT NULL,
    kind VARCHAR(16) NOT NULL, state VARCHAR(16) NOT NULL, created FLOAT NOT NULL, touched FLOAT NOT NULL,
    finished FLOAT, owner TEXT, attempts_from BIGINT, due INTEGER, settings TEXT NOT NULL,
    provenance TEXT NOT NULL, summary TEXT, PRIMARY KEY (number), UNIQUE (id)
);
CREATE INDEX ix_runs_suite ON runs (suite);
CREATE TABLE cases (
    suite VARCHAR(64) NOT NULL, position INTEGER NOT NULL, id TEXT NOT NULL, body TEXT NOT NULL,
    PRIMARY KEY (suite, position)
);
CREATE TABLE attempts (
    run BIGINT NOT NULL, position INTEGER NOT NULL, repeat INTEGER NOT NULL, case_body TEXT,
    body TEXT NOT NULL, PRIMARY KEY (run, position, repeat)
);
CREATE TABLE evaluations (
    run BIGINT NOT NULL, position INTEGER NOT NULL, repeat INTEGER NOT NULL, composite FLOAT, passed BOOLEAN,
    body TEXT NOT NULL, PRIMARY KEY (run, position, repeat)
);
CREATE TABLE case_scores (
    run BIGINT NOT NULL, position INTEGER NOT NULL, body TEXT NOT NULL, PRIMARY KEY (run, position)
);
INSERT INTO alembic_version (version_num) VALUES ('0001');
-- 0002
CREATE TABLE answers (
    key VARCHAR(64) NOT NULL, run BIGINT NOT NULL, created FLOAT NOT NULL, body BYTEA NOT NULL,
    PRIMARY KEY (key, run)
);
CREATE INDEX ix_answers_run ON answers (run);
CREATE TABLE spending (
    run BIGINT NOT NULL, model TEXT NOT NULL, about TEXT NOT NULL, requests BIGINT NOT NULL,
    answered BIGINT NOT NULL, from_cache BIGINT NOT NULL, input_tokens BIGINT NOT NULL,
    output_tokens BIGINT NOT NULL, unpriced BIGINT NOT NULL, unknown BIGINT NOT NULL,
    unknown_tokens BIGINT NOT NULL, cost_usd DOUBLE PRECISION NOT NULL, unknown_usd DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (run, model, about)
);
CREATE TABLE advances (
    run BIGINT NOT NULL, usd DOUBLE PRECISION NOT NULL, tokens BIGINT NOT NULL, PRIMARY KEY (run)
);
UPDATE alembic_version SET version_num='0002';
-- 0003
ALTER TABLE answers ADD COLUMN used DOUBLE PRECISION DEFAULT '0' NOT NULL;
ALTER TABLE answers ADD COLUMN size INTEGER DEFAULT '0' NOT NULL;
CREATE INDEX ix_answers_use ON answers (used, size, run);
UPDATE alembic_version SET version_num='0003';
-- 0004
CREATE TABLE live_resources (
    id VARCHAR(32) NOT NULL, body BYTEA NOT NULL, PRIMARY KEY (id)
);
CREATE TABLE live_spans (
    number BIGINT NOT NULL, span VARCHAR(32) NOT NULL, digest VARCHAR(32) NOT NULL,
    resource VARCHAR(32) NOT NULL, received DOUBLE PRECISION NOT NULL, body BYTEA NOT NULL,
    PRIMARY KEY (number, span, digest)
);
CREATE TABLE live_traces (
    number BIGSERIAL NOT NULL, trace VARCHAR(64) NOT NULL, state VARCHAR(12) NOT NULL,
    version INTEGER NOT NULL, first DOUBLE PRECISION NOT NULL, last DOUBLE PRECISION NOT NULL,
    opened DOUBLE PRECISION NOT NULL, due DOUBLE PRECISION NOT NULL, root BOOLEAN NOT NULL,
    spans INTEGER NOT NULL, size BIGINT NOT NULL, service TEXT, late BOOLEAN NOT NULL, body BYTEA,
    PRIMARY KEY (number), UNIQUE (trace)
);
CREATE INDEX ix_live_traces_due ON live_traces (state, due);
CREATE INDEX ix_live_traces_last ON live_traces (last);
CREATE TABLE live_jobs (
    number BIGSERIAL NOT NULL, monitor TEXT NOT NULL, trace VARCHAR(64) NOT NULL, version INTEGER NOT NULL,
    probability DOUBLE PRECISION NOT NULL, weight DOUBLE PRECISION NOT NULL, rule TEXT NOT NULL,
    state VARCHAR(12) NOT NULL, created DOUBLE PRECISION NOT NULL, due DOUBLE PRECISION NOT NULL, owner TEXT,
    tries INTEGER NOT NULL, reason TEXT, PRIMARY KEY (number)
);
CREATE INDEX ix_live_jobs_due ON live_jobs (state, due);
CREATE UNIQUE INDEX ux_live_jobs ON live_jobs (trace, monitor, version);
CREATE TABLE live_samples (
    number BIGSERIAL NOT NULL, monitor TEXT NOT NULL, trace VARCHAR(64) NOT NULL, version INTEGER NOT NULL,
    run BIGINT NOT NULL, position INTEGER NOT NULL, time DOUBLE PRECISION NOT NULL,
    scored DOUBLE PRECISION NOT NULL, probability DOUBLE PRECISION NOT NULL, weight DOUBLE PRECISION NOT NULL,
    rule TEXT NOT NULL, score DOUBLE PRECISION, passed BOOLEAN, confidence DOUBLE PRECISION,
    failed BOOLEAN NOT NULL, seconds DOUBLE PRECISION, query TEXT NOT NULL, output TEXT NOT NULL,
    session TEXT, facets TEXT NOT NULL, PRIMARY KEY (number)
);
CREATE INDEX ix_live_samples_run ON live_samples (run, position);
CREATE INDEX ix_live_samples_time ON live_samples (monitor, time);
CREATE UNIQUE INDEX ux_live_samples ON live_samples (trace, monitor, version);
CREATE TABLE live_scores (
    monitor TEXT NOT NULL, trace VARCHAR(64) NOT NULL, version INTEGER NOT NULL, metric VARCHAR(200) NOT NULL,
    fingerprint VARCHAR(32) NOT NULL, trial INTEGER NOT NULL, status VARCHAR(12) NOT NULL,
    value DOUBLE PRECISION, PRIMARY KEY (monitor, trace, version, metric, fingerprint, trial)
);
CREATE TABLE live_counts (
    monitor VARCHAR(200) NOT NULL, hour INTEGER NOT NULL, event VARCHAR(40) NOT NULL,
    reason VARCHAR(200) NOT NULL, number BIGINT NOT NULL, PRIMARY KEY (monitor, hour, event, reason)
);
CREATE TABLE live_marks (
    number BIGSERIAL NOT NULL, monitor TEXT NOT NULL, time DOUBLE PRECISION NOT NULL,
    kind VARCHAR(12) NOT NULL, version TEXT, note TEXT, PRIMARY KEY (number)
);
CREATE TABLE live_states (
    monitor VARCHAR(200) NOT NULL, name VARCHAR(200) NOT NULL, touched DOUBLE PRECISION NOT NULL,
    body TEXT NOT NULL, PRIMARY KEY (monitor, name)
);
CREATE TABLE live_alerts (
    number BIGSERIAL NOT NULL, monitor TEXT NOT NULL, cause TEXT NOT NULL, state VARCHAR(12) NOT NULL,
    status VARCHAR(20) NOT NULL, opened DOUBLE PRECISION NOT NULL, changed DOUBLE PRECISION NOT NULL,
    resolved DOUBLE PRECISION, body TEXT NOT NULL, PRIMARY KEY (number)
);
CREATE INDEX ix_live_alerts_state ON live_alerts (monitor, state);
CREATE TABLE live_deliveries (
    number BIGSERIAL NOT NULL, alert BIGINT NOT NULL, channel INTEGER NOT NULL, key VARCHAR(64) NOT NULL,
    state VARCHAR(12) NOT NULL, tries INTEGER NOT NULL, due DOUBLE PRECISION NOT NULL, body TEXT NOT NULL,
    reason TEXT, PRIMARY KEY (number), UNIQUE (key)
);
CREATE INDEX ix_live_deliveries_due ON live_deliveries (state, due);
CREATE TABLE tokens (
    id VARCHAR(32) NOT NULL, name TEXT NOT NULL, hash VARCHAR(128) NOT NULL, scopes TEXT NOT NULL,
    created DOUBLE PRECISION NOT NULL, expires DOUBLE PRECISION, revoked DOUBLE PRECISION,
    used DOUBLE PRECISION, PRIMARY KEY (id)
);
CREATE TABLE audit (
    number BIGSERIAL NOT NULL, time DOUBLE PRECISION NOT NULL, actor TEXT NOT NULL, action TEXT NOT NULL,
    body TEXT NOT NULL, PRIMARY KEY (number)
);
UPDATE alembic_version SET version_num='0004';
-- 0005
ALTER TABLE runs ADD COLUMN attempts INTEGER;
ALTER TABLE runs ADD COLUMN pass_rate DOUBLE PRECISION;
ALTER TABLE runs ADD COLUMN composite DOUBLE PRECISION;
CREATE INDEX ix_runs_pass_rate ON runs (pass_rate, number);
CREATE INDEX ix_runs_composite ON runs (composite, number);
CREATE INDEX ix_runs_suite_name ON runs (suite_name, number);
CREATE INDEX ix_cases_id ON cases (suite, id);
CREATE INDEX ix_evaluations_worst ON evaluations (run, passed, composite, position, repeat);
CREATE TABLE sessions (
    hash VARCHAR(64) NOT NULL, token VARCHAR(32) NOT NULL, expires DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (hash)
);
CREATE TABLE label_queues (
    number BIGSERIAL NOT NULL, id VARCHAR(64) NOT NULL, run VARCHAR(64), monitor TEXT,
    dimension TEXT NOT NULL, seed BIGINT NOT NULL, population INTEGER NOT NULL,
    created DOUBLE PRECISION NOT NULL, closed DOUBLE PRECISION, settings TEXT NOT NULL, packed BYTEA NOT NULL,
    PRIMARY KEY (number), UNIQUE (id)
);
CREATE INDEX ix_label_queues_run ON label_queues (run, dimension);
CREATE TABLE label_tasks (
    queue BIGINT NOT NULL, place INTEGER NOT NULL, item INTEGER NOT NULL,
    probability DOUBLE PRECISION NOT NULL, how VARCHAR(12) NOT NULL, wanted INTEGER NOT NULL,
    missing INTEGER NOT NULL, drawn DOUBLE PRECISION NOT NULL, PRIMARY KEY (queue, place)
);
CREATE INDEX ix_label_tasks_missing ON label_tasks (queue, missing, place);
CREATE TABLE label_leases (
    queue BIGINT NOT NULL, by VARCHAR(200) NOT NULL, place INTEGER NOT NULL, slot INTEGER NOT NULL,
    until DOUBLE PRECISION NOT NULL, PRIMARY KEY (queue, by)
);
CREATE UNIQUE INDEX ux_label_leases ON label_leases (queue, place, slot);
CREATE TABLE labels (
    number BIGSERIAL NOT NULL, run VARCHAR(64) NOT NULL, "case" TEXT NOT NULL, repeat INTEGER NOT NULL,
    dimension TEXT NOT NULL, answer VARCHAR(12) NOT NULL, value DOUBLE PRECISION, by VARCHAR(200) NOT NULL,
    at DOUBLE PRECISION NOT NULL, how VARCHAR(12) NOT NULL, probability DOUBLE PRECISION, queue BIGINT,
    place INTEGER, undone DOUBLE PRECISION, key VARCHAR(64) NOT NULL, note TEXT, PRIMARY KEY (number),
    UNIQUE (key)
);
CREATE INDEX ix_labels_run ON labels (run, dimension, number);
CREATE INDEX ix_labels_queue ON labels (queue, number);
CREATE INDEX ix_labels_by ON labels (queue, by, number);
CREATE TABLE search_runs (
    run BIGINT NOT NULL, id VARCHAR(64) NOT NULL, touched FLOAT NOT NULL, position INTEGER NOT NULL,
    repeat INTEGER NOT NULL, documents INTEGER NOT NULL, complete BOOLEAN NOT NULL, PRIMARY KEY (run)
);
UPDATE alembic_version SET version_num='0005';
-- 0006
CREATE INDEX ix_live_samples_latest ON live_samples (monitor, number);
UPDATE alembic_version SET version_num='0006';
-- 0007
CREATE TABLE partitions (
    run BIGINT NOT NULL, number INTEGER NOT NULL, url TEXT NOT NULL, rows INTEGER NOT NULL,
    bytes BIGINT NOT NULL, digest VARCHAR(32) NOT NULL, PRIMARY KEY (run, number)
);
UPDATE alembic_version SET version_num='0007';
-- 0008
ALTER TABLE live_traces ADD COLUMN cut INTEGER DEFAULT '0' NOT NULL;
UPDATE alembic_version SET version_num='0008';
-- 0009
CREATE TABLE label_grants (
    queue BIGINT NOT NULL, place INTEGER NOT NULL, by VARCHAR(200) NOT NULL, given DOUBLE PRECISION NOT NULL,
    until DOUBLE PRECISION NOT NULL, PRIMARY KEY (queue, place, by)
);
UPDATE alembic_version SET version_num='0009';
-- 0010
ALTER TABLE runs ADD COLUMN agent TEXT;
ALTER TABLE runs ADD COLUMN version TEXT;
ALTER TABLE runs ADD COLUMN git_commit TEXT;
ALTER TABLE runs ADD COLUMN git_subject TEXT;
ALTER TABLE runs ADD COLUMN pass_rate_low DOUBLE PRECISION;
ALTER TABLE runs ADD COLUMN pass_rate_high DOUBLE PRECISION;
CREATE INDEX ix_runs_version ON runs (version, number);
CREATE INDEX ix_runs_commit ON runs (git_commit, number);
CREATE TABLE suite_tags (
    tag VARCHAR(200) NOT NULL, suite VARCHAR(64) NOT NULL, PRIMARY KEY (tag, suite)
);
UPDATE alembic_version SET version_num='0010';
-- 0011
CREATE TABLE answers_before (
    run BIGINT NOT NULL, id VARCHAR(64) NOT NULL, touched FLOAT NOT NULL, base VARCHAR(64) NOT NULL,
    base_touched FLOAT NOT NULL, body TEXT NOT NULL, PRIMARY KEY (run)
);
UPDATE alembic_version SET version_num='0011';
-- 0012
ALTER TABLE live_samples ADD COLUMN cost_usd DOUBLE PRECISION;
UPDATE alembic_version SET version_num='0012';
-- 0013
UPDATE alembic_version SET version_num='0013';
