"""Agents of other frameworks on scripted models, run as programs by tests/integrations/test_live_*.py.

All of them do the same work. The manager asks its model five times: it searches twice at once, calls a tool
that fails and calls it again, asks the writer, who is a tool to it and looks something up, and hands over to
the editor, who answers. So there are 3 agents, 6 calls of tools one of which failed, and 8 requests.
"""
