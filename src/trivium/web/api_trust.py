"""The JSON interface to trust: how far a judge agrees with people, and what it is certified for."""

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from litestar import get
from litestar.params import QueryParameter

from trivium.errors import InputError, TrustError
from trivium.labels.joining import items_of_queue
from trivium.labels.queue import LabelQueues
from trivium.runs.artifacts.judge import AgreementAnswer, CertificateAnswer, agreement_answer, certificate
from trivium.runs.items.table import ItemTable
from trivium.safe_text import sanitise
from trivium.web.api_labels import QueueId
from trivium.web.api_runs import RunId
from trivium.web.errors import Refused, refusals
from trivium.web.pages.site import queue_called
from trivium.web.pages.trust import items_of, sentence
from trivium.web.services import Services
from trivium.web.threads import slowly

__all__ = ["trust_routes"]

T = TypeVar("T")

OfDimension = Annotated[
    str, QueryParameter(name="dimension", min_length=1, max_length=200, description="The judged dimension.")
]
Epsilon = Annotated[
    float, QueryParameter(gt=0, lt=1, description="Largest share of the accepted judgements that is wrong.")
]
Delta = Annotated[float, QueryParameter(gt=0, lt=1, description="Probability that the promise is broken.")]


def trust_routes(services: Services) -> list[Any]:
    """The routes."""
    store = services.store

    def of_run(run: str, dimension: str) -> ItemTable:
        return items_of(store, run, sanitise(dimension)[0])

    def of_queue(queue: str) -> ItemTable:
        return items_of_queue(store, queue_called(LabelQueues(store), queue).id)

    @get("/runs/{run:str}/agreement", responses=refusals(404))
    @slowly
    def agreement(run: RunId, dimension: OfDimension) -> AgreementAnswer:
        """How far the judge of a run agrees with people, as ``trivium trust agree --json`` prints it."""
        return _answer(lambda: agreement_answer(of_run(run, dimension)))

    @get("/runs/{run:str}/certificate", responses=refusals(404))
    @slowly
    def certified(
        run: RunId, dimension: OfDimension, epsilon: Epsilon = 0.1, delta: Delta = 0.1
    ) -> CertificateAnswer:
        """Which judgements of a run need no person, as ``trivium trust certify --json`` prints it."""
        return _answer(lambda: certificate(of_run(run, dimension), None, epsilon=epsilon, delta=delta))

    @get("/labels/queues/{queue:str}/agreement", responses=refusals(404))
    @slowly
    def agreement_of_queue(queue: QueueId) -> AgreementAnswer:
        """How far the judge agrees with people, by the labels of a queue."""
        return _answer(lambda: agreement_answer(of_queue(queue)))

    @get("/labels/queues/{queue:str}/certificate", responses=refusals(404))
    @slowly
    def certified_by_queue(queue: QueueId, epsilon: Epsilon = 0.1, delta: Delta = 0.1) -> CertificateAnswer:
        """Which judgements need no person, by the labels of a queue."""
        return _answer(lambda: certificate(of_queue(queue), None, epsilon=epsilon, delta=delta))

    return [agreement, certified, agreement_of_queue, certified_by_queue]


def _answer(compute: Callable[[], T]) -> T:
    """An answer; refused with 400 if there are no labels, or they do not fit."""
    try:
        return compute()
    except (InputError, TrustError) as error:
        raise Refused(400, sentence(error)) from None
