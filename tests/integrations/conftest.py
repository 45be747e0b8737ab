"""Other tools report nothing of their use from here, and keep nothing in the working folder."""

import os

os.environ["DEEPEVAL_TELEMETRY_OPT_OUT"] = "1"
os.environ["DEEPEVAL_DISABLE_DOTENV"] = "1"
os.environ["DEEPEVAL_FILE_SYSTEM"] = "READ_ONLY"
os.environ["OPIK_ANALYTICS_ENABLE"] = "false"
os.environ["OPIK_SENTRY_ENABLE"] = "false"
os.environ["OPIK_TRACK_DISABLE"] = "true"
