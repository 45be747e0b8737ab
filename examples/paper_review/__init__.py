"""A multi-agent paper reviewer: manager → researcher → analyst → synthesizer (see README.md)."""
