"""Tables of the newest schema revision.

Bodies are JSON. A case is stored once per suite digest, an attempt once with the run that made it; a run
that scores another run's attempts again refers to that run in ``attempts_from``. A cached response of a judge
(``answers``) belongs to the run that paid for it. ``spending`` holds what the judgements cost; ``advances``
holds the most that the requests sent so far may cost, and is updated before a request is sent.
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
)

cases = Table(
    "cases",
    metadata,
    Column("suite", String(64), primary_key=True),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("id", Text, nullable=False),
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
)

case_scores = Table(
    "case_scores",
    metadata,
    Column("run", _Number, primary_key=True, autoincrement=False),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("body", Text, nullable=False),
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
