"""Who labels: tokens and typed names."""

import pytest

from trivium.cli.labels.label import person
from trivium.cli.labels.tables import progress_text, queues_shown
from trivium.display import as_text
from trivium.errors import InputError
from trivium.labels.files import import_labels
from trivium.labels.people import shown_names, token_id, typed_name
from trivium.labels.progress import progress_of
from trivium.reports.document.terminal import Printed
from trivium.store.audit import audit_log
from trivium.store.tokens import Token


def test_the_name_of_a_token_is_shown_with_its_id_where_names_are_the_same():
    people = ["token 00000001 Ann", "token 00000002 Ann", "token 00000003 Ben", "ann"]
    assert list(shown_names(people).values()) == [
        "Ann (token 00000001)", "Ann (token 00000002)", "Ben", "ann",
    ]  # fmt: skip


def test_a_typed_name_is_shown_beside_a_token_of_the_same_name():
    assert list(shown_names(["Ann", "token 00000001 Ann"]).values()) == ["Ann", "Ann (token 00000001)"]


def test_the_actor_of_a_token_names_its_id():
    token = Token(id="0a1b2c3d", name="Ann\u2028B", scopes=("label",), created=0.0)
    assert token_id(token.actor) == "0a1b2c3d"
    assert token_id("Ann") is None


@pytest.mark.parametrize("name", ["token 0a1b2c3d Ann", "(nobody)", " Token  0A1B2C3D", "token\t0a1b2c3d"])
def test_the_person_of_a_token_cannot_be_typed(name):
    with pytest.raises(InputError, match="choose another name"):
        typed_name(name)
    with pytest.raises(InputError):
        person(name)


@pytest.mark.parametrize("name", ["Ann", "Token Smith", "token", "tokens 0a1b2c3d"])
def test_other_names_can_be_typed(name):
    assert typed_name(name) == name


def test_names_with_brackets_are_printed_as_they_are(queues, run):
    queue = queues.create(run, "clarity", by="test")
    task = queues.next(queue.id, "[bold]x[/]")
    queues.answer(queue.id, task.place, "[bold]x[/]", "label", 1.0)
    progress = progress_of(queues, queue.id)
    assert "  [bold]x[/]: 1" in progress_text(progress)
    assert queue.id in as_text(Printed(queues_shown([progress])), width=120, colour=False)


def test_an_import_is_logged_as_done_by_who_imported(store, run, tmp_path):
    file = tmp_path / "labels.jsonl"
    file.write_text('{"case": "c1", "dimension": "clarity", "value": 1, "by": "token 0a1b2c3d Ann"}\n')
    import_labels(store, run, file, by="ben", now=5.0)
    (entry,) = [each for each in audit_log(store) if each.action == "label given"]
    assert (entry.actor, entry.body["by"], entry.body["how"]) == ("ben", "token 0a1b2c3d Ann", "imported")
