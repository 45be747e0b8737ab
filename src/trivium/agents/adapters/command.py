"""Runs a command as an agent: the command reads the input from standard input and prints the output."""

import asyncio
import errno
import os
import shlex
import shutil
from collections.abc import Sequence
from typing import Any, cast

import msgspec

from trivium.agents.attempt import AgentFailure, AgentResponse, Request, ResourcesExhausted
from trivium.agents.response import too_large
from trivium.errors import AgentError
from trivium.masking import mask
from trivium.processes import HAS_GROUPS, kill_with_children

_STDERR_BYTES = 1_800
"""Bytes at the end of standard error that become part of the reason."""

_STDIN, _STDOUT = 0, 1

_CANNOT_START = frozenset({errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM})
"""Error numbers of a system that temporarily cannot start a process."""

_RESERVED_HANDLES = 16
"""File handles that commands leave to the rest of the process, such as the store and temporary files."""


class CommandAgent:
    """Runs a command as an agent.

    The command gets the case's input on standard input (a text as it is, any other value as JSON) and
    ``TRIVIUM_CASE``, ``TRIVIUM_REPEAT``, ``TRIVIUM_SEED`` and ``TRIVIUM_TURN`` in its environment, and
    ``TRIVIUM_WORLD``, the path of its world, if that has one. No shell is involved.
    Standard output is the output. A status other than 0 fails the attempt, with the end of standard error as
    the reason. Child processes that are still running are killed.

    Args:
        command: A command line, which is split like in a shell, or a list of arguments.
        name: Name in reports; the command by default.

    Raises:
        AgentError: If the command is empty or badly quoted, its program does not exist, or the system has no
            process groups.
    """

    runs_off_loop = True

    def __init__(self, command: str | Sequence[str], *, name: str | None = None) -> None:
        self.name = name or mask(command if isinstance(command, str) else shlex.join(command))
        if not HAS_GROUPS:
            raise AgentError(self.name, "commands as agents need a POSIX system such as Linux or macOS")
        try:
            self._arguments = shlex.split(command) if isinstance(command, str) else list(command)
        except ValueError as error:
            raise AgentError(self.name, f"the command cannot be split into words: {error}") from error
        if not self._arguments:
            raise AgentError(self.name, "the command is empty; expected a program and its arguments")
        if shutil.which(self._arguments[0]) is None:
            raise AgentError(self.name, f'there is no program "{self._arguments[0]}" (or it may not be run)')

    async def call(self, request: Request) -> AgentResponse:
        """Run the command once; it and its child processes are killed when the call is cancelled."""
        environment = os.environ | {
            "TRIVIUM_CASE": request.case.id,
            "TRIVIUM_REPEAT": str(request.repeat),
            "TRIVIUM_SEED": str(request.seed),
            "TRIVIUM_TURN": str(request.turn),
        }
        if request.world is not None and request.world.path is not None:
            environment["TRIVIUM_WORLD"] = str(request.world.path)
        try:
            _check_handles()
            transport, protocol = await asyncio.get_running_loop().subprocess_exec(
                lambda: _CommandProtocol(request.output_bytes),
                *self._arguments,
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            if error.errno in _CANNOT_START:
                raise ResourcesExhausted(f"the command cannot be started: {error.strerror}") from error
            raise
        try:
            stdin = cast("asyncio.WriteTransport", transport.get_pipe_transport(_STDIN))
            stdin.write(_stdin_bytes(request.case.input))
            stdin.close()
            await protocol.over
        finally:
            kill_with_children(transport.get_pid())
            transport.close()
            await protocol.exited
        return protocol.response(transport.get_returncode())

    async def close(self) -> None:
        """Do nothing: no resources outlive a call."""


def _check_handles() -> None:
    """Raise OSError (EMFILE) if fewer file handles are left than are reserved."""
    handles: list[int] = []
    try:
        while len(handles) < _RESERVED_HANDLES:
            handles.append(os.open(os.devnull, os.O_RDONLY))
    finally:
        for handle in handles:
            os.close(handle)


def _stdin_bytes(value: Any) -> bytes:
    return value.encode(errors="replace") if isinstance(value, str) else msgspec.json.encode(value)


class _CommandProtocol(asyncio.SubprocessProtocol):
    """Collects the output of one command up to a limit, and the end of its standard error.

    Attributes:
        over: Done when the command has ended and both streams are closed, or failed over the limit.
        exited: Done when the command has ended.
    """

    def __init__(self, limit: int) -> None:
        loop = asyncio.get_running_loop()
        self.over: asyncio.Future[None] = loop.create_future()
        self.exited: asyncio.Future[None] = loop.create_future()
        self._limit = limit
        self._output = bytearray()
        self._stderr = b""
        self._stderr_cut = False
        self._pid = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._pid = cast("asyncio.SubprocessTransport", transport).get_pid()

    def pipe_data_received(self, fd: int, data: bytes | str) -> None:
        chunk = cast("bytes", data)
        if fd != _STDOUT:
            stderr = self._stderr + chunk
            self._stderr = stderr[-_STDERR_BYTES:]
            self._stderr_cut |= len(stderr) > _STDERR_BYTES
        elif len(self._output) + len(chunk) <= self._limit:
            self._output += chunk
        elif not self.over.done():
            self.over.set_exception(too_large(self._limit))

    def process_exited(self) -> None:
        kill_with_children(self._pid)  # a child process left running would hold the streams open
        self.exited.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.over.done():
            self.over.set_result(None)

    def response(self, status: int | None) -> AgentResponse:
        """Return the response that the command printed.

        Raises:
            AgentFailure: If the command did not end with status 0, or its output is not UTF-8.
        """
        if status:
            errors = self._error_text()
            how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
            raise AgentFailure(f"the command {how}{f': {errors}' if errors else ''}")
        try:
            return AgentResponse(output=self._output.decode())
        except UnicodeDecodeError as error:
            raise AgentFailure(f"the output is not UTF-8 (byte {error.start:,})") from error

    def _error_text(self) -> str:
        text = self._stderr.decode(errors="replace")
        if self._stderr_cut:  # the first word may be half a secret, which no pattern matches
            text = f"… {text.split(None, 1)[-1]}"
        return text.strip()
