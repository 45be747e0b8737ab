"""``trivium mcp``: let a coding agent evaluate, over the Model Context Protocol."""

from pathlib import Path

from trivium.cli import options


@options.command("trivium mcp", "trivium mcp --allow-run")
@options.store
@options.option("--allow-run", is_flag=True, help="Let the client call agents: tools run and confirm.")
def mcp(store: str, *, allow_run: bool) -> None:
    """Serve the Model Context Protocol on standard input and output, for a coding agent.

    Its tools answer questions about the suites in the current folder and the runs in the store. Nothing
    outside of the folder is read or written for a client, and agents are called only with --allow-run.
    """
    from trivium.integrations.mcp.server import Project, make_server

    make_server(Project(Path.cwd(), store, allow_run=allow_run)).run("stdio")
