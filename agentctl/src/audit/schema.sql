-- The audit database, version 1. Times are RFC 3339 in UTC with milliseconds, ids of ours are UUIDs as text.
-- Rows never refer to each other by foreign key: limits may drop one and keep the other.

CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value ANY
) STRICT, WITHOUT ROWID;

CREATE TABLE tasks (
    owner      TEXT NOT NULL,
    task_id    TEXT NOT NULL,
    created_at TEXT NOT NULL,
    PRIMARY KEY (owner, task_id)
) STRICT, WITHOUT ROWID;

-- The key has no task: a session belongs to one task for ever.
CREATE TABLE sessions (
    owner      TEXT NOT NULL,
    session_id TEXT NOT NULL,
    task_id    TEXT NOT NULL,
    created_at TEXT NOT NULL,
    PRIMARY KEY (owner, session_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE executions (
    execution_id TEXT PRIMARY KEY,
    owner        TEXT NOT NULL,
    session_id   TEXT NOT NULL,
    agent        TEXT NOT NULL,
    pid          INTEGER NOT NULL,
    started_at   TEXT NOT NULL,
    ended_at     TEXT,
    exit         TEXT,
    -- What the witness counted and found, as JSON; NULL if nothing.
    witness      TEXT,
    findings     TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX executions_ended ON executions (ended_at);

-- One row per prompt. `id` grows with time: it orders the lists and is their cursor.
-- title, action and options are NULL once the execution has used up its bytes.
CREATE TABLE requests (
    id              INTEGER PRIMARY KEY,
    request_id      TEXT NOT NULL UNIQUE,
    execution_id    TEXT NOT NULL,
    owner           TEXT NOT NULL,
    task_id         TEXT NOT NULL,
    session_id      TEXT NOT NULL,
    acp_session_id  TEXT,
    pending_id      TEXT NOT NULL,
    tool_call_id    TEXT,
    created_at      TEXT NOT NULL,
    title           TEXT,
    action          TEXT,
    options         TEXT,
    "end"           TEXT,
    ended_at        TEXT,
    end_reason      TEXT,
    failed_attempts INTEGER NOT NULL DEFAULT 0,
    CHECK (("end" IS NULL) = (ended_at IS NULL))
) STRICT;
CREATE INDEX requests_of_owner ON requests (owner);
CREATE INDEX requests_of_task ON requests (owner, task_id);
CREATE INDEX requests_of_session ON requests (owner, session_id);
CREATE INDEX requests_open ON requests (id) WHERE "end" IS NULL;
CREATE INDEX requests_ended ON requests (ended_at) WHERE ended_at IS NOT NULL;

CREATE TABLE resolutions (
    id            INTEGER PRIMARY KEY,
    claim_id      TEXT NOT NULL,
    request_id    TEXT NOT NULL,
    pending_id    TEXT NOT NULL,
    actor_user_id TEXT NOT NULL,
    actor_kind    TEXT NOT NULL,
    source        TEXT NOT NULL,
    option_id     TEXT NOT NULL,
    option_kind   TEXT NOT NULL,
    selected_at   TEXT NOT NULL,
    finalized_at  TEXT,
    result        TEXT NOT NULL,
    UNIQUE (request_id, claim_id)
) STRICT;
-- The compare-and-set: one claim of a request may count.
CREATE UNIQUE INDEX resolutions_counting ON resolutions (request_id)
    WHERE result IN ('dispatching', 'accepted', 'indeterminate');
CREATE INDEX resolutions_dispatching ON resolutions (request_id) WHERE result = 'dispatching';
-- A result is final.
CREATE TRIGGER resolutions_final BEFORE UPDATE OF result ON resolutions WHEN OLD.result <> 'dispatching'
BEGIN
    SELECT RAISE(ABORT, 'this claim has its result');
END;

-- The first ones and the latest; how many there were stands in requests.failed_attempts.
CREATE TABLE failed_attempts (
    request_id    TEXT NOT NULL,
    slot          INTEGER NOT NULL,
    code          TEXT NOT NULL,
    pending_id    TEXT NOT NULL,
    option_id     TEXT,
    actor_user_id TEXT NOT NULL,
    actor_kind    TEXT NOT NULL,
    source        TEXT NOT NULL,
    at            TEXT NOT NULL,
    PRIMARY KEY (request_id, slot)
) STRICT, WITHOUT ROWID;
