"""tau-bench trajectories as attempts: ``tau-bench:FILE``, beside the suite of the same file."""

from pathlib import Path

from trivium.agents.attempt import Attempt
from trivium.agents.recorded.entering import attempt_of
from trivium.errors import OutputsError, Problem, suggest
from trivium.suites.case import Case
from trivium.suites.suite import Suite
from trivium.traces.readers.tau_bench import Trajectory, read_trajectories


def read(path: Path, suite: Suite) -> list[tuple[Case, Attempt]]:
    """Every trajectory of a file: output = the last text that the agent wrote, repeat = trial.

    The format has neither times nor usage; ``metadata.finished`` is False for a trial that was cut at the
    step limit.

    Raises:
        OutputsError: If a task is no case of the suite, or a trial of a task stands twice.
        TraceError: If the file cannot be read.
    """
    trajectories = read_trajectories(path)
    problems: list[Problem] = []
    first: dict[tuple[str, int], int] = {}
    for index, trajectory in enumerate(trajectories):
        key = (trajectory.task, trajectory.trial)
        if suite.position(trajectory.task) is None:
            near = suggest(trajectory.task, [case.id for case in suite])
            problems.append(Problem(f"[{index}]", f'the suite has no case "{trajectory.task}".{near}'))
        elif first.setdefault(key, index) != index:
            said = f"task {key[0]}, trial {key[1]} stands already in [{first[key]}]"
            problems.append(Problem(f"[{index}]", said))
    if problems:
        raise OutputsError(str(path), problems[:20], left_out=max(0, len(problems) - 20))
    limit = suite.settings.limits.output_bytes
    return [(suite.case(each.task), _attempt(each, limit)) for each in trajectories]


def _attempt(trajectory: Trajectory, limit: int) -> Attempt:
    return attempt_of(
        case=trajectory.task,
        repeat=trajectory.trial,
        output=trajectory.answer,
        limit=limit,
        trace=trajectory.trace,
        reward=trajectory.reward,
        metadata={"finished": trajectory.finished},
    )
