"""Claude Code: what its command prints event by event (stream-json), and transcripts of its sessions."""
