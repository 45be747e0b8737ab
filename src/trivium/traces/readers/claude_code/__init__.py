"""Reads Claude Code: the events its command prints (stream-json), and transcripts of its sessions."""

__all__: list[str] = []
