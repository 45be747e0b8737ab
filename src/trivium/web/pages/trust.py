"""How far a run's judge can be trusted: its agreement with people, certificate, and curves."""

from collections import OrderedDict
from threading import Lock
from typing import Annotated, Any

from litestar import Request, Response, get
from litestar.params import FromPath, QueryParameter
from litestar.response import Redirect

from trivium.errors import InputError, MissingExtra, TrustError
from trivium.labels.joining import labels_for
from trivium.labels.queue import LabelQueues
from trivium.reports.trust.page import agreement_body, curve_body
from trivium.runs.artifacts.curve import CurveOptions, curve_artifact
from trivium.runs.artifacts.judge import agreement_answer, certificate
from trivium.runs.items.join import items_of_run
from trivium.runs.items.table import ItemTable
from trivium.store.records import RunRecord
from trivium.suites.sanitize import sanitise
from trivium.web.pages.site import Site, redirected, run_of, segment
from trivium.web.threads import slowly

__all__ = ["routes"]

REMEMBERED = 16
"""Answers that are kept while the run and its labels are the same: resampling takes seconds."""


def routes(site: Site) -> list[Any]:
    """The routes of the page."""
    known = _Answers(site)

    @get("/runs/{run:str}/trust", include_in_schema=False)
    @slowly
    def trusted(
        request: Request[Any, Any, Any],
        run: FromPath[str],
        dimension: Annotated[str, QueryParameter(max_length=200)] = "",
    ) -> Response[str] | Redirect:
        record = run_of(site.store, run)
        if record.id != run:
            return redirected(request, f"/runs/{segment(record.id)}/trust")
        queues = LabelQueues(site.store).all(run=record.id)
        labelled = list(dict.fromkeys(queue.dimension for queue in queues))
        chosen = sanitise(dimension)[0] or next(iter(labelled), "")
        parts: list[tuple[str, dict[str, Any]]] = []
        problem = ""
        if chosen:
            try:
                parts = known.of(record, chosen)
            except (InputError, TrustError) as error:
                problem = _sentence(error)
        return site.page(
            request,
            "trusted.html",
            title=f"Trust in {chosen or 'judges'}, {record.id}",
            section="runs",
            run=record,
            dimension=chosen,
            dimensions=labelled,
            parts=parts,
            problem=problem,
        )

    return [trusted]


class _Answers:
    """The last answers; they are computed as by ``trivium trust agree`` and ``trust curve``."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._lock = Lock()
        self._known: OrderedDict[tuple[object, ...], list[tuple[str, dict[str, Any]]]] = OrderedDict()

    def of(self, run: RunRecord, dimension: str) -> list[tuple[str, dict[str, Any]]]:
        """Titles and values of the parts of the page.

        Raises:
            InputError: If there are no labels.
            TrustError: If they do not fit.
        """
        labels = labels_for(self._site.store, run, dimension)
        table = items_of_run(self._site.store, run, dimension=dimension, labels=labels)
        key = (run.number, run.finished, dimension, table.gt.tobytes(), table.pred.tobytes())
        with self._lock:
            found = self._known.pop(key, None) or _computed(table)
            self._known[key] = found
            if len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        return found


def _computed(table: ItemTable) -> list[tuple[str, dict[str, Any]]]:
    certified: dict[str, Any] | str | None = None
    if table.sides[0] == "judge":
        try:
            certified = certificate(table, None)
        except TrustError as error:
            certified = _sentence(error)
    parts = [("The judge against people", agreement_body(agreement_answer(table), certified))]
    try:
        artifact = curve_artifact([table], CurveOptions(drawn=True))
        parts.append(("Risk and coverage", curve_body(artifact)))
    except (TrustError, MissingExtra) as error:
        parts.append(("Risk and coverage", _only(_sentence(error))))
    return parts


def _sentence(error: Exception) -> str:
    """What is wrong, without the address of the store, which is nobody's business."""
    text = str(error)
    return text.partition(": ")[2] if text.startswith(("sqlite:", "postgresql")) else text


def _only(sentence: str) -> dict[str, Any]:
    """A part that says why it has no figures."""
    from trivium.reports.trust.page import Blocks

    return {"blocks": Blocks(), "notes": [sentence], "conclusions": [], "pictures": [], "left_out": 0}
