"""The page that shows how far a judge can be trusted: its agreement with people, its certificate, and curves.

A page covers a run and a dimension, or a label queue, whose items may come from several runs (as a monitor's
do). The certificate can be downloaded as the file for ``judge.certificate``.
"""

from collections.abc import Callable
from typing import Annotated, Any

import msgspec
from litestar import Request, Response, get
from litestar.params import FromPath, QueryParameter
from litestar.response import Redirect
from markupsafe import Markup

from trivium.errors import InputError, TrustError
from trivium.labels.joining import dimensions_of, items_of_queue, labels_for, scores_in
from trivium.labels.queue import LabelQueues
from trivium.reports.document.html import html
from trivium.reports.trust.page import agreement_body, curve_body, judge_body
from trivium.reports.wording import condition_sentence
from trivium.runs.artifacts.curve import CurveOptions, curve_artifact
from trivium.runs.artifacts.judge import CertificateAnswer, agreement_answer, certificate
from trivium.runs.items.join import items_of_run
from trivium.runs.items.table import ItemTable
from trivium.safe_text import sanitise
from trivium.store.store import Store
from trivium.web.errors import Refused
from trivium.web.pages.site import Site, queue_called, redirected, run_of, segment
from trivium.web.threads import Remembered, slowly

__all__ = ["items_of", "routes", "sentence"]

AT_ONCE = 100
"""Labelled items up to which the page waits for the answers."""

REMEMBERED = 16
"""Answers that are kept while the run and its labels are the same: resampling takes seconds."""

OfDimension = Annotated[str, QueryParameter(name="dimension", max_length=200)]
Wrong = Annotated[float, QueryParameter(name="wrong", gt=0, lt=100)]
Sure = Annotated[float, QueryParameter(name="sure", gt=0, lt=100)]

Answers = tuple[Markup, CertificateAnswer | None]
"""Titles and HTML of the parts of the page, and the certificate."""


def routes(site: Site) -> list[Any]:
    """The routes of the pages, and of the certificates that they offer as files."""
    return [*_page_routes(site), *_certificate_routes(site)]


def _page_routes(site: Site) -> list[Any]:
    page = _Page(site)

    @get("/runs/{run:str}/trust", include_in_schema=False)
    @slowly
    def of_run(
        request: Request[Any, Any, Any],
        run: FromPath[str],
        dimension: OfDimension = "",
        wrong: Wrong = 10,
        sure: Sure = 90,
    ) -> Response[str] | Redirect:
        store = site.store
        record = run_of(store, run)
        if record.id != run:
            return redirected(request, f"/runs/{segment(record.id)}/trust")
        labelled = dimensions_of(store, record)
        chosen = sanitise(dimension)[0] or next(iter(labelled), "")
        return page.of(
            request,
            (lambda: items_of(site.store, record.id, chosen)) if chosen else None,
            _Promise(wrong, sure),
            section="runs",
            run=record,
            queue=None,
            here=f"/runs/{segment(record.id)}/trust",
            subject=record.id,
            dimension=chosen,
            dimensions=list(dict.fromkeys([*filter(None, [chosen]), *labelled, *scores_in(store, record)])),
            left=0,
        )

    @get("/labels/{queue:str}/trust", include_in_schema=False)
    @slowly
    def of_queue(
        request: Request[Any, Any, Any], queue: FromPath[str], wrong: Wrong = 10, sure: Sure = 90
    ) -> Response[str]:
        queues = LabelQueues(site.store)
        found = queue_called(queues, queue)
        return page.of(
            request,
            lambda: items_of_queue(site.store, found.id),
            _Promise(wrong, sure),
            section="labels",
            run=None,
            queue=found,
            here=f"/labels/{segment(found.id)}/trust",
            subject=found.monitor or found.run or found.id,
            dimension=found.dimension,
            dimensions=[],
            left=queues.left(found),
        )

    return [of_run, of_queue]


def _certificate_routes(site: Site) -> list[Any]:
    @get("/runs/{run:str}/trust/certificate", include_in_schema=False)
    @slowly
    def certificate_of_run(
        run: FromPath[str], dimension: OfDimension, wrong: Wrong = 10, sure: Sure = 90
    ) -> Response[bytes]:
        record = run_of(site.store, run)
        return _download(
            lambda: items_of(site.store, record.id, sanitise(dimension)[0]), _Promise(wrong, sure)
        )

    @get("/labels/{queue:str}/trust/certificate", include_in_schema=False)
    @slowly
    def certificate_of_queue(queue: FromPath[str], wrong: Wrong = 10, sure: Sure = 90) -> Response[bytes]:
        found = queue_called(LabelQueues(site.store), queue)
        return _download(lambda: items_of_queue(site.store, found.id), _Promise(wrong, sure))

    return [certificate_of_run, certificate_of_queue]


def items_of(store: Store, run: str, dimension: str) -> ItemTable:
    """The labelled items of a run, with the labels in the store.

    Raises:
        InputError: If there are no labels.
        TrustError: If they do not fit.
    """
    record = run_of(store, run)
    return items_of_run(store, record, dimension=dimension, labels=labels_for(store, record, dimension))


class _Promise(msgspec.Struct, frozen=True):
    """The promise of a certificate, in percent: at most ``wrong`` are wrong, with probability ``sure``."""

    wrong: float
    sure: float

    def certificate(self, table: ItemTable) -> CertificateAnswer:
        """The certificate of some items that promises this."""
        epsilon, delta = round(self.wrong / 100, 9), round(1 - self.sure / 100, 9)
        return certificate(table, None, epsilon=epsilon, delta=delta)


class _Page:
    """The page of a run and a dimension, or of a queue."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._answers: Remembered[tuple[object, ...], Answers] = Remembered(REMEMBERED)

    def of(
        self,
        request: Request[Any, Any, Any],
        items: Callable[[], ItemTable] | None,
        promise: _Promise,
        **context: Any,
    ) -> Response[str]:
        """The page about some items; without figures where there are no items to read."""
        parts = Markup()
        problem, comes_later = "", False
        certified: CertificateAnswer | None = None
        if items is not None:
            try:
                table = items()
                waits = "HX-Request" in request.headers or request.query_params.get("wait") == "true"
                key = _key(table, promise)
                comes_later = not (waits or table.pred.size <= AT_ONCE or key in self._answers)
                if not comes_later:
                    parts, certified = self._answers.of(key, lambda: _answers(table, promise))
            except (InputError, TrustError) as error:
                problem = sentence(error)
        return self._site.page(
            request,
            "trusted.html",
            title=f"Trust in {context['dimension'] or 'judges'}, {context['subject']}",
            parts=parts,
            certified=certified,
            condition=condition_sentence(certified) if certified else "",
            promise=promise,
            problem=problem,
            comes_later=comes_later,
            **context,
        )


def _key(table: ItemTable, promise: _Promise) -> tuple[object, ...]:
    return table.origin.run_id, table.origin.mode, table.gt.tobytes(), table.pred.tobytes(), promise


def _answers(table: ItemTable, promise: _Promise) -> Answers:
    """The answers about some items, as ``trivium trust agree``, ``certify`` and ``curve`` compute them.

    Raises:
        TrustError: If there are too few labels for anything.
    """
    certified: CertificateAnswer | str | None = None
    if table.sides[0] == "judge":
        try:
            certified = promise.certificate(table)
        except TrustError as error:
            certified = sentence(error)
    return _computed(table, certified), None if isinstance(certified, str) else certified


def _computed(table: ItemTable, certified: CertificateAnswer | str | None) -> Markup:
    against = agreement_body(agreement_answer(table), certified)
    # Where the store is, is nobody's business.
    origin = msgspec.structs.replace(table.origin, path=table.origin.run_id or "")
    shown = msgspec.structs.replace(table, origin=origin)
    try:
        risk = curve_body(curve_artifact([shown], CurveOptions(drawn=True)))
    except TrustError as error:
        return html(judge_body(against, sentence(error)))
    return html(judge_body(against, risk))


def _download(items: Callable[[], ItemTable], promise: _Promise) -> Response[bytes]:
    """The certificate as a file."""
    try:
        answer = promise.certificate(items())
    except (InputError, TrustError) as error:
        raise Refused(400, sentence(error)) from None
    if answer.threshold is None:
        raise Refused(400, f"nothing is certified: {answer.reason}")
    return Response(
        msgspec.json.format(msgspec.json.encode(answer), indent=2) + b"\n",
        media_type="application/json",
        headers={"Content-Disposition": 'attachment; filename="certificate.json"'},
    )


def sentence(error: Exception) -> str:
    """Return the text of an error without the address of the store, which visitors must not see."""
    text = str(error)
    return text.partition(": ")[2] if text.startswith(("sqlite:", "postgresql")) else text
