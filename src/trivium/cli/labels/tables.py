"""Prints queues, their progress and what their labels say."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from trivium.safe_text import visible

if TYPE_CHECKING:
    from trivium.labels.progress import Progress
    from trivium.reports.document.blocks import Block


CROWDED = "items with more answers than people were asked for, taken by an older version, all of which count"


def queues_shown(found: "Sequence[Progress]") -> "Iterator[Block] | str":
    """A table of queues."""
    from trivium.reports.document.blocks import table_of

    if not found:
        return "no queue yet: trivium label RUN --dimension D"
    rows = []
    for each in found:
        queue, mean = each.queue, each.estimate
        interval = None if mean is None else mean.interval_items
        counts = (f"{queue.population:,}", f"{each.answered:,}")
        value = "" if mean is None or mean.value is None else f"{mean.value:.3f}"
        ends = "" if interval is None else f"{interval.low:.2f} to {interval.high:.2f}"
        name = queue.id + ("" if each.state == "open" else f" ({each.state})")
        rows.append((name, queue.dimension, queue.run or queue.monitor or "", *counts, value, ends))
    heads = ("queue", "dimension", "of", "items", "done", "mean", "95 %")
    return iter([table_of(heads, ("interval", "text", "text"), rows)])


def progress_text(progress: "Progress") -> str:
    """Format the progress of a queue, with the estimate first."""
    from trivium.labels.people import shown_names
    from trivium.labels.progress import certificate_hint

    queue = progress.queue
    lines = [*estimate_lines(progress), ""]
    lines.append(f"{progress.answered:,} of {queue.population:,} items answered, {progress.drawn:,} drawn")
    if progress.cannot_tell:
        lines.append(f"nobody can tell about {progress.cannot_tell:,}")
    if progress.wanted:
        lines.append(f"{progress.wanted:,} further answers wanted for items that were drawn")
    names = shown_names([*progress.people, *progress.decided, *progress.left_out])
    lines += [f"  {visible(names[by])}: {count:,}" for by, count in progress.people.items()]
    lines += [f"decided by {visible(names[by])}: {count:,}" for by, count in progress.decided.items()]
    if progress.left_out:
        by_whom = ", ".join(f"{visible(names[by])} {count:,}" for by, count in progress.left_out.items())
        lines.append(f"left out, because nobody asked for them: {by_whom}")
    if progress.crowded:
        lines.append(f"{CROWDED}: {progress.crowded:,}")
    where = queue.run or queue.monitor
    if hint := certificate_hint(queue, progress.answered):
        lines.append(f"{hint} `trivium trust certify --queue {queue.id}` says more.")
    state = "" if progress.state == "open" else f" ({progress.state})"
    lines.append(f"{visible(queue.dimension)} of {where}; queue {queue.id}{state}")
    return "\n".join(lines)


def estimate_lines(progress: "Progress") -> Iterator[str]:
    """Describe the estimates from a queue's labels so far, in sentences."""
    mean = progress.estimate
    if mean is None:
        yield f"No estimate: {progress.reason}"
        return
    if mean.value is None:
        yield f"No estimate yet: {mean.reason}"
        return
    yield f"People's mean score is about {mean.value:.3f}; the judge's is {mean.judge:.3f}."
    if mean.interval_items is not None:
        low, high = mean.interval_items.low, mean.interval_items.high
        yield f"  of these items: 95 % interval {low:.3f} to {high:.3f}"
    if mean.interval is not None:
        yield f"  of further items like them: {mean.interval.low:.3f} to {mean.interval.high:.3f}"
    if mean.reason:
        yield f"  {mean.reason}"
    if mean.saved is not None and mean.effective_labels is not None:
        word = "saves" if mean.saved >= 0 else "costs"
        yield (
            f"  {mean.labels:,} labels are worth {mean.effective_labels:,.0f} uniform ones without the "
            f"judge, which {word} {100 * abs(mean.saved):.0f} %"
        )
    if mean.waiting:
        yield (
            f"  {mean.waiting:,} of the items drawn count once an earlier one, skipped or in somebody's "
            "hands, is answered"
        )
