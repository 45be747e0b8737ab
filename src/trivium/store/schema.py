"""Tables of the newest schema revision.

Bodies are JSON. A case is stored once per suite digest, an attempt once with the run that made it; a run
that scores another run's attempts again refers to that run in ``attempts_from``. A cached response of a judge
(``answers``) belongs to the run that paid for it. ``spending`` holds what the judgements cost; ``advances``
holds the most that the requests sent so far may cost, and is updated before a request is sent.

Attempts and evaluations of a large run may be in Parquet files (``partitions``); then their bodies here are
pointers (``store.partitions.reader``).

The tables ``live_…`` hold production traffic. Received spans (``live_spans``) are OTLP protobuf; what the
spans of a request share, a resource and a scope, is stored once each (``live_resources``). A trace
(``live_traces``) that an application recorded itself holds its body. A trace that is complete and sampled has
a job for each monitor (``live_jobs``); a scored one is a sample (``live_samples``) whose attempt and
evaluation belong to the monitor's run of that day, and whose scores are in ``live_scores``.

A person's label (``labels``) is never changed or deleted; one that was taken back has a time in ``undone``. A
queue of labels (``label_queues``) holds its population as columns; what was drawn from it is in
``label_tasks``, what somebody has in hand in ``label_leases``, and to whom each place was ever given in
``label_grants``. Times are Unix times in seconds.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
)

metadata = MetaData()

# SQLite assigns row numbers only if the primary key has exactly the type INTEGER.
_Number = BigInteger().with_variant(Integer(), "sqlite")

runs = Table(
    "runs",
    metadata,
    Column("number", _Number, primary_key=True, autoincrement=True),
    Column("id", String(64), nullable=False, unique=True),
    Column("suite_name", Text, nullable=False),
    Column("suite", String(64), nullable=False, index=True),
    Column("kind", String(16), nullable=False),
    Column("state", String(16), nullable=False),
    Column("created", Float, nullable=False),
    Column("touched", Float, nullable=False),
    Column("finished", Float),
    Column("owner", Text),
    Column("attempts_from", _Number),
    Column("due", Integer),
    Column("settings", Text, nullable=False),
    Column("provenance", Text, nullable=False),
    Column("summary", Text),
    # Of the summary, for lists of runs.
    Column("attempts", Integer),
    Column("pass_rate", Double),
    Column("composite", Double),
    # Of the provenance, for lists of runs.
    Column("agent", Text),
    Column("version", Text),
    Column("git_commit", Text),
    Column("git_subject", Text),
    # The interval of the pass rate.
    Column("pass_rate_low", Double),
    Column("pass_rate_high", Double),
    Index("ix_runs_pass_rate", "pass_rate", "number"),
    Index("ix_runs_composite", "composite", "number"),
    Index("ix_runs_suite_name", "suite_name", "number"),
    Index("ix_runs_version", "version", "number"),
    Index("ix_runs_commit", "git_commit", "number"),
)

cases = Table(
    "cases",
    metadata,
    Column("suite", String(64), primary_key=True),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("id", Text, nullable=False),
    Column("body", Text, nullable=False),
    Index("ix_cases_id", "suite", "id"),
)

# The tags of the cases of a suite, each once.
suite_tags = Table(
    "suite_tags",
    metadata,
    Column("tag", String(200), primary_key=True),  # its beginning, if it is longer
    Column("suite", String(64), primary_key=True),
)

# The answer of a run against the run before it, kept when it was first computed
# (store/browsing/before.py); it holds as long as neither run is written again.
answers_before = Table(
    "answers_before",
    metadata,
    Column("run", _Number, primary_key=True, autoincrement=False),
    Column("id", String(64), nullable=False),  # SQLite gives the number of a deleted run to another
    Column("touched", Float, nullable=False),
    Column("base", String(64), nullable=False),
    Column("base_touched", Float, nullable=False),
    Column("body", Text, nullable=False),
)

attempts = Table(
    "attempts",
    metadata,
    Column("run", _Number, primary_key=True, autoincrement=False),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("repeat", Integer, primary_key=True, autoincrement=False),
    Column("case_body", Text),
    Column("body", Text, nullable=False),
)

evaluations = Table(
    "evaluations",
    metadata,
    Column("run", _Number, primary_key=True, autoincrement=False),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("repeat", Integer, primary_key=True, autoincrement=False),
    Column("composite", Float),
    Column("passed", Boolean),
    Column("body", Text, nullable=False),
    Index("ix_evaluations_worst", "run", "passed", "composite", "position", "repeat"),
)

case_scores = Table(
    "case_scores",
    metadata,
    Column("run", _Number, primary_key=True, autoincrement=False),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("body", Text, nullable=False),
)

partitions = Table(
    "partitions",
    metadata,
    Column("run", _Number, primary_key=True, autoincrement=False),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("url", Text, nullable=False),
    Column("rows", Integer, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("digest", String(32), nullable=False),
)

answers = Table(
    "answers",
    metadata,
    Column("key", String(64), primary_key=True),
    Column("run", _Number, primary_key=True, autoincrement=False, index=True),
    Column("created", Float, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("used", Double, nullable=False, server_default="0"),
    Column("size", Integer, nullable=False, server_default="0"),
    # Covers the queries on size and last use, so that they do not read the bodies.
    Index("ix_answers_use", "used", "size", "run"),
)

spending = Table(
    "spending",
    metadata,
    Column("run", _Number, primary_key=True, autoincrement=False),
    Column("model", Text, primary_key=True),
    Column("about", Text, primary_key=True),
    Column("requests", BigInteger, nullable=False),
    Column("answered", BigInteger, nullable=False),
    Column("from_cache", BigInteger, nullable=False),
    Column("input_tokens", BigInteger, nullable=False),
    Column("output_tokens", BigInteger, nullable=False),
    Column("unpriced", BigInteger, nullable=False),
    Column("unknown", BigInteger, nullable=False),
    Column("unknown_tokens", BigInteger, nullable=False),
    Column("cost_usd", Double, nullable=False),
    Column("unknown_usd", Double, nullable=False),
)

advances = Table(
    "advances",
    metadata,
    Column("run", _Number, primary_key=True, autoincrement=False),
    Column("usd", Double, nullable=False),
    Column("tokens", BigInteger, nullable=False),
)

live_resources = Table(
    "live_resources",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("body", LargeBinary, nullable=False),
)

live_spans = Table(
    "live_spans",
    metadata,
    # Of its trace. Numbers grow, so that new rows are next to one another on disk, as trace ids are not.
    Column("number", _Number, primary_key=True, autoincrement=False),
    Column("span", String(32), primary_key=True),
    # Of the body: a span that is sent again as it was is the same row.
    Column("digest", String(32), primary_key=True),
    Column("resource", String(32), nullable=False),  # ids of its resource and its scope, 16 digits each
    Column("received", Double, nullable=False),
    Column("body", LargeBinary, nullable=False),
)

live_traces = Table(
    "live_traces",
    metadata,
    Column("number", _Number, primary_key=True, autoincrement=True),
    Column("trace", String(64), nullable=False, unique=True),
    Column("state", String(12), nullable=False, default="open"),  # or complete
    Column("version", Integer, nullable=False, default=0),  # how often it has been completed
    Column("first", Double, nullable=False),  # when its first span was received
    Column("last", Double, nullable=False),  # when its last span was received
    Column("opened", Double, nullable=False),  # when it was opened: at first, or when a span came late
    Column("due", Double, nullable=False),  # when it is complete if nothing more comes
    Column("root", Boolean, nullable=False, default=False),  # whether its root has ended
    Column("spans", Integer, nullable=False, default=0),
    Column("size", BigInteger, nullable=False, default=0),
    Column("service", Text),
    Column("late", Boolean, nullable=False, default=False),  # whether a span came after it was complete
    Column("body", LargeBinary),  # what the application recorded itself, as JSON
    Column("cut", Integer, nullable=False, server_default="0"),  # spans refused, because it is too large
    Index("ix_live_traces_due", "state", "due"),
    Index("ix_live_traces_last", "last"),
)

live_jobs = Table(
    "live_jobs",
    metadata,
    Column("number", _Number, primary_key=True, autoincrement=True),
    Column("monitor", Text, nullable=False),
    Column("trace", String(64), nullable=False),
    Column("version", Integer, nullable=False),
    Column("probability", Double, nullable=False),
    Column("weight", Double, nullable=False),  # smallest probability of the rules / probability
    Column("rule", Text, nullable=False),
    Column("state", String(12), nullable=False),  # waiting, scoring, done, dropped, failed
    Column("created", Double, nullable=False),
    Column("due", Double, nullable=False),  # when it may be tried (again), or its lease ends
    Column("owner", Text),
    Column("tries", Integer, nullable=False),
    Column("reason", Text),
    Index("ux_live_jobs", "trace", "monitor", "version", unique=True),
    Index("ix_live_jobs_due", "state", "due"),
)

live_samples = Table(
    "live_samples",
    metadata,
    Column("number", _Number, primary_key=True, autoincrement=True),
    Column("monitor", Text, nullable=False),
    Column("trace", String(64), nullable=False),
    Column("version", Integer, nullable=False),
    Column("run", _Number, nullable=False),
    Column("position", Integer, nullable=False),
    Column("time", Double, nullable=False),  # when the interaction began
    Column("scored", Double, nullable=False),
    Column("probability", Double, nullable=False),
    Column("weight", Double, nullable=False),  # smallest probability of the rules / probability
    Column("rule", Text, nullable=False),
    Column("score", Double),  # its composite
    Column("passed", Boolean),
    Column("confidence", Double),  # mean confidence of the judge
    Column("failed", Boolean, nullable=False),
    Column("seconds", Double),
    Column("query", Text, nullable=False),  # first 200 characters
    Column("output", Text, nullable=False),  # first 200 characters
    Column("session", Text),  # interactions of one session are not independent
    Column("facets", Text, nullable=False),  # JSON: {"agent": […], "tool": […], "tag": […], …}
    Column("cost_usd", Double),  # what the interaction cost; null where that is unknown
    Index("ux_live_samples", "trace", "monitor", "version", unique=True),
    Index("ix_live_samples_time", "monitor", "time"),
    Index("ix_live_samples_latest", "monitor", "number"),
    Index("ix_live_samples_run", "run", "position"),
    sqlite_autoincrement=True,  # watchers go on after a number: one that was deleted is not given again
)

live_scores = Table(
    "live_scores",
    metadata,
    Column("monitor", Text, primary_key=True),
    Column("trace", String(64), primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("metric", String(200), primary_key=True),
    Column("fingerprint", String(32), primary_key=True),
    Column("trial", Integer, primary_key=True, autoincrement=False),
    Column("status", String(12), nullable=False),
    Column("value", Double),
)

live_counts = Table(
    "live_counts",
    metadata,
    Column("monitor", String(200), primary_key=True),  # empty for what belongs to no monitor
    Column("hour", Integer, primary_key=True, autoincrement=False),  # Unix time divided by 3,600
    Column("event", String(40), primary_key=True),
    Column("reason", String(200), primary_key=True),
    Column("number", BigInteger, nullable=False),
)

live_marks = Table(
    "live_marks",
    metadata,
    Column("number", _Number, primary_key=True, autoincrement=True),
    Column("monitor", Text, nullable=False),
    Column("time", Double, nullable=False),
    Column("kind", String(12), nullable=False),  # deployment, reset
    Column("version", Text),
    Column("note", Text),
)

live_states = Table(
    "live_states",
    metadata,
    Column("monitor", String(200), primary_key=True),
    Column("name", String(200), primary_key=True),
    Column("touched", Double, nullable=False),
    Column("body", Text, nullable=False),
)

live_alerts = Table(
    "live_alerts",
    metadata,
    Column("number", _Number, primary_key=True, autoincrement=True),
    Column("monitor", Text, nullable=False),
    Column("cause", Text, nullable=False),
    Column("state", String(12), nullable=False),  # firing, resolved
    Column("status", String(20), nullable=False),
    Column("opened", Double, nullable=False),
    Column("changed", Double, nullable=False),
    Column("resolved", Double),
    Column("body", Text, nullable=False),
    Index("ix_live_alerts_state", "monitor", "state"),
)

live_deliveries = Table(
    "live_deliveries",
    metadata,
    Column("number", _Number, primary_key=True, autoincrement=True),
    Column("alert", _Number, nullable=False),
    Column("channel", Integer, nullable=False),  # its place among the monitor's channels
    Column("key", String(64), nullable=False, unique=True),  # the same for every try
    Column("state", String(12), nullable=False),  # waiting, sent, failed
    Column("tries", Integer, nullable=False),
    Column("due", Double, nullable=False),
    Column("body", Text, nullable=False),
    Column("reason", Text),
    Index("ix_live_deliveries_due", "state", "due"),
)

label_queues = Table(
    "label_queues",
    metadata,
    Column("number", _Number, primary_key=True, autoincrement=True),
    Column("id", String(64), nullable=False, unique=True),
    Column("run", String(64)),  # id of the run; none for a queue of a monitor's samples
    Column("monitor", Text),
    Column("dimension", Text, nullable=False),
    Column("seed", BigInteger, nullable=False),
    Column("population", Integer, nullable=False),
    Column("created", Double, nullable=False),
    Column("closed", Double),
    Column("settings", Text, nullable=False),
    Column("packed", LargeBinary, nullable=False),  # run, position, repeat, prediction, uncertainty; packed
    Index("ix_label_queues_run", "run", "dimension"),
)

label_tasks = Table(
    "label_tasks",
    metadata,
    Column("queue", _Number, primary_key=True, autoincrement=False),
    Column("place", Integer, primary_key=True, autoincrement=False),  # 1, 2, … in the order of drawing
    Column("item", Integer, nullable=False),  # position in the population
    Column("probability", Double, nullable=False),
    Column("how", String(12), nullable=False),  # uniform, active
    Column("wanted", Integer, nullable=False),  # answers
    Column("missing", Integer, nullable=False),  # answers that are still wanted
    Column("drawn", Double, nullable=False),
    Index("ix_label_tasks_missing", "queue", "missing", "place"),
)

label_leases = Table(
    "label_leases",
    metadata,
    Column("queue", _Number, primary_key=True, autoincrement=False),
    Column("by", String(200), primary_key=True),  # one task in hand for each person
    Column("place", Integer, nullable=False),
    Column("slot", Integer, nullable=False),  # which of the wanted answers
    Column("until", Double, nullable=False),
    Index("ux_label_leases", "queue", "place", "slot", unique=True),
)

label_grants = Table(
    "label_grants",
    metadata,
    Column("queue", _Number, primary_key=True, autoincrement=False),
    Column("place", Integer, primary_key=True, autoincrement=False),
    Column("by", String(200), primary_key=True),
    Column("given", Double, nullable=False),  # when this person first got it
    Column("until", Double, nullable=False),  # when their last reservation of it ends, or ended
)

labels = Table(
    "labels",
    metadata,
    Column("number", _Number, primary_key=True, autoincrement=True),
    Column("run", String(64), nullable=False),  # ids: the label outlives its run
    Column("case", Text, nullable=False),
    Column("repeat", Integer, nullable=False),
    Column("dimension", Text, nullable=False),
    Column("answer", String(12), nullable=False),  # label, cannot_tell, skip
    Column("value", Double),
    Column("by", String(200), nullable=False),
    Column("at", Double, nullable=False),
    Column("how", String(12), nullable=False),  # uniform, active, volunteered, imported, adjudicated
    Column("probability", Double),
    Column("queue", _Number),
    Column("place", Integer),  # of its task
    Column("undone", Double),
    Column("key", String(64), nullable=False, unique=True),  # the same for every try to send it
    Column("note", Text),
    Index("ix_labels_run", "run", "dimension", "number"),
    Index("ix_labels_queue", "queue", "number"),
    Index("ix_labels_by", "queue", "by", "number"),
)

# How far each run is in the index of the search (store/browsing/search_index.py).
search_runs = Table(
    "search_runs",
    metadata,
    Column("run", _Number, primary_key=True, autoincrement=False),
    Column("id", String(64), nullable=False),  # SQLite gives the number of a deleted run to another
    Column("touched", Float, nullable=False),  # of the run, when it was indexed
    Column("position", Integer, nullable=False),  # of the last attempt that is indexed
    Column("repeat", Integer, nullable=False),
    Column("documents", Integer, nullable=False),
    Column("complete", Boolean, nullable=False),
)

tokens = Table(
    "tokens",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("name", Text, nullable=False),
    Column("hash", String(128), nullable=False),
    Column("scopes", Text, nullable=False),
    Column("created", Double, nullable=False),
    Column("expires", Double),
    Column("revoked", Double),
    Column("used", Double),
)

sessions = Table(
    "sessions",
    metadata,
    Column("hash", String(64), primary_key=True),
    Column("token", String(32), nullable=False),
    Column("expires", Double, nullable=False),
)

audit = Table(
    "audit",
    metadata,
    Column("number", _Number, primary_key=True, autoincrement=True),
    Column("time", Double, nullable=False),
    Column("actor", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("body", Text, nullable=False),
)
