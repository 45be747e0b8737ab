import base64
import builtins
import hashlib
import re
import weakref
from functools import lru_cache

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reports import samples
from tests.reports.hostile_samples import hostile_summary, hostile_view
from tests.reports.html.parsed import Page
from trivium.errors import InputError, MissingExtra
from trivium.reports.html.case import case_context
from trivium.reports.html.page import IN_THE_OPEN, environment, write_html
from trivium.reports.summary import metrics_table
from trivium.runs.summary import AgentTotals
from trivium.store.records import Provenance

ATTRIBUTES = (
    "aria-hidden aria-label aria-labelledby aria-live aria-roledescription autocomplete charset class "
    "content cx cy d "
    "data-case data-number data-numbers data-total data-verdict "
    "dir display fill fill-opacity font-family font-size font-weight height "
    "hidden href http-equiv id lang name opacity open overflow placeholder pointer-events points r role rx "
    "scope stroke stroke-dasharray stroke-miterlimit stroke-opacity stroke-width tabindex text-anchor "
    "title transform type value version viewbox width x x1 x2 xmlns xmlns:xlink y y1 y2 "
)

parsed = lru_cache(maxsize=2)(Page)
"""The calm page or the hostile one, taken apart once for all tests."""


def written(path, summary=None, views=None, **options):
    summary = summary or samples.summary(views)
    write_html(path, summary, samples.worst_first(samples.views()) if views is None else views, **options)
    return path.read_text("utf-8")


@pytest.fixture(scope="module")
def calm(tmp_path_factory):
    return written(tmp_path_factory.mktemp("calm") / "report.html", provenance=samples.PROVENANCE)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    names = {text: text for text in samples.HOSTILE}
    return written(
        tmp_path_factory.mktemp("hostile") / "report.html",
        hostile_summary(),
        [hostile_view(number) for number in range(2 * len(samples.HOSTILE))],
        provenance=Provenance(metrics=names, packages=names, agent=samples.HOSTILE[0]),
    )


@pytest.fixture(params=["calm", "hostile"])
def both(request):
    return request.getfixturevalue(request.param)


def test_the_page_is_well_formed(both):
    page = parsed(both)
    assert page.open == []
    assert {"h1", "table", "svg", "details"} <= set(page.tags)


def test_the_page_asks_the_network_for_nothing(both):
    page = parsed(both)
    loading = "link img iframe object embed base form audio video image"
    assert not set(page.tags) & set(loading.split())
    for _, attributes in page.elements:
        assert (attributes.get("href") or "#").startswith("#")
        for name in ("src", "srcset", "action", "xlink:href", "background", "data", "poster"):
            assert name not in attributes
        assert not any("url(" in (value or "") for value in attributes.values())
    assert not re.search(r"url\(|@import", page.content["style"][0])
    assert not re.search(r"fetch|XMLHttp|WebSocket|import\(|innerHTML", page.content["script"][0])


def test_the_policy_allows_only_the_pages_own_style_and_script(both):
    page = parsed(both)
    (policy,) = page.all("meta", http_equiv="Content-Security-Policy")
    rules = dict(rule.strip().split(" ", 1) for rule in policy["content"].split(";"))
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    assert rules["img-src"] == "data:"
    assert len(page.scripts) == page.tags.count("style") == 1
    for kind in ("style", "script"):
        (content,) = page.content[kind]
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert rules[f"{kind}-src"] == f"'sha256-{digest}'"


def test_no_element_carries_a_style_or_a_handler_or_anything_unforeseen(both):
    assert {name for _, attributes in parsed(both).elements for name in attributes} <= set(ATTRIBUTES.split())


def test_texts_of_strangers_are_shown_as_text(hostile):
    page = parsed(hostile)
    assert "<script>alert('x')</script>" in page.text
    assert "{{ 7*7 }}{% raw %}" in page.text
    assert len(page.scripts) == 1


def test_no_stranger_turns_the_reading_direction_or_hides_a_character(hostile):
    assert not re.search(r"[\u202a-\u202e\u2066-\u2069\x00-\x08\x0b-\x1f\x7f-\x9f]", hostile)
    assert "[U+202E]gnp.exe" in hostile


def test_ids_are_unique(both):
    ids = [attributes["id"] for _, attributes in parsed(both).elements if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_every_table_has_heads_and_every_drawing_an_alternative_text(both):
    page = parsed(both)
    tables = both.count("<table")
    assert both.count("<thead>") == tables
    assert all(attributes.get("scope") in {"col", "row"} for tag, attributes in page.elements if tag == "th")
    for tag, attributes in page.elements:
        if tag == "svg" and attributes.get("role") == "img":
            assert attributes["class"]
    drawn = re.findall(r'<svg[^>]*class="(?:graph|timeline)[^>]*>(?:<title>)(.+?)</title>', both)
    assert len(drawn) == len(re.findall(r'class="(?:graph |timeline)', both))


def test_the_order_is_answer_cases_numbers_reservations_provenance(calm):
    text = parsed(calm).text.partition("</nav>")[2] or parsed(calm).text
    places = [
        calm.index(part)
        for part in (
            '<section id="gates"',
            'aria-label="Answer"',
            "<h2>Pass rate",
            "<h2>Composite",
            '<section id="attempts"',
            '<section id="scores"',
            '<section id="distributions"',
            '<section id="reservations"',
            '<section id="provenance"',
        )
    ]
    assert places == sorted(places)
    assert text.index("similarity is a fallback") > text.index("coverage")


def test_reservations_beyond_the_most_serious_are_folded(tmp_path):
    summary = samples.summary(warnings=tuple(f"reservation {number}" for number in range(9)))
    text = written(tmp_path / "r.html", summary, views=[])
    shown, folded = text.split('<section id="reservations"')[1].split("<details", 1)
    assert re.findall(r"<li>(reservation \d)", shown) == [f"reservation {n}" for n in range(6)]
    assert re.findall(r"<li>(reservation \d)", folded) == [f"reservation {n}" for n in range(6, 9)]
    assert "<summary>3 more</summary>" in folded


def test_every_metric_shows_mean_interval_coverage_and_statuses(calm):
    text = " ".join(re.sub(r"<[^>]+>", " ", calm).split())
    assert re.search(r"similarity text 0\.389 \[0\.323, 0\.454\] 17/24 71 % 17\s?fallback, 7\s?skipped", text)
    assert "complexity trace – – 24 – reported, not scored" in text


def test_every_metric_with_values_has_its_distribution(calm):
    captions = re.findall(r"<figcaption><bdi>(\w+)</bdi> <span class=\"quiet\">n = (\d+)", calm)
    expected = {name: figure.n for name, figure in samples.summary().metrics.items() if figure.n}
    del expected["success"]  # it is 0 or 1: the mean says it all
    assert {name: int(n) for name, n in captions} == expected | {"composite": 24}


def test_a_distribution_can_be_read_out(calm):
    labels = [found["aria-label"] for found in parsed(calm).all("div", role="img")]
    beginning = "Attempts in each twentieth of 0 to 1: "
    counts = [label.removeprefix(beginning).split(", ") for label in labels if label.startswith(beginning)]
    assert {len(each) for each in counts} == {20}
    assert 24 in {sum(map(int, each)) for each in counts}


def test_a_metric_shows_its_unit_and_direction_and_one_without_anything_only_its_name(tmp_path):
    summary = samples.summary()
    slow = msgspec.structs.replace(summary.metrics["time"], unit="s", raw_mean=4.2, better="lower")
    nothing = msgspec.structs.replace(
        summary.metrics["cosine"], mean=None, ci95=None, n=0, missing=0, status={"skipped": 24}
    )
    summary = msgspec.structs.replace(
        summary, metrics=summary.metrics | {"time": slow, "cosine": nothing}, left_out=("bleu",)
    )
    scores = (
        written(tmp_path / "r.html", summary, views=[])
        .split('<section id="scores"')[1]
        .split("</section>")[0]
    )
    assert "4.2 s, lower is better" in scores
    assert "2 more metrics had nothing to measure here" in scores
    table, _, folded = scores.partition("<details")
    assert "cosine" not in table
    assert "cosine, bleu" in folded


def test_the_agents_latency_tokens_and_cost_are_part_of_the_answer(tmp_path):
    totals = AgentTotals(
        attempts=24, timed=24, latency_p50=1.2, latency_p95=3.4, input_tokens=9000, with_tokens=24
    )
    summary = msgspec.structs.replace(samples.summary(), agent=totals)
    page = Page(written(tmp_path / "r.html", summary, views=[])).text
    assert page.index("latency p50 1.2 s, p95 3.4 s") < page.index("Cases, the worst first")
    assert "9,000 input tokens" in page


def test_no_picture_is_drawn_of_a_single_attempt(tmp_path):
    page = Page(written(tmp_path / "r.html", views=[samples.view(0)]))
    assert "Distributions" not in page.text


def test_the_card_of_the_composite_counts_the_recommendations(calm):
    card = calm.split("<h2>Composite")[1].split("</section>")[0]
    counts = samples.summary().composite.recommendations
    assert len(counts) == 3
    for name, count in counts.items():
        assert f"{count} {name.replace('_', ' ')}" in card


def test_provenance_is_folded(calm):
    section = calm.split('<section id="provenance"')[1]
    assert "<dt>" not in section.partition("<details")[0]
    assert "<dt>" in section


def test_provenance_names_each_thing_with_what_is_in_it(calm):
    rows = re.findall(r"<dt>(\w+)</dt><dd>(.*?)</dd>", calm)
    assert ("git", "commit 5f3a9c1e0b7d, dirty False") in rows
    assert ("python", "3.11.9") in rows
    assert "judges" not in dict(rows)


def attempts(page):
    return [found["data-case"] for found in page.all("details", class_="attempt")]


def test_all_attempts_are_shown_worst_first(calm):
    page = parsed(calm)
    verdicts = [found["data-verdict"] for found in page.all("details", class_="attempt")]
    assert len(verdicts) == 24
    assert verdicts == sorted(verdicts, key=["error", "failed", "undecided", "passed"].index)
    assert "Cases, the worst first" in page.text


def test_every_attempt_is_in_the_file_and_the_worst_can_be_read_without_a_script(tmp_path):
    views = samples.worst_first(samples.views(40))
    page = Page(written(tmp_path / "r.html", views=views))
    names = page.index["names"]
    assert names == [f"{v.case.id} #{v.attempt.repeat}".removesuffix(" #0") for v in views]
    in_the_open = [int(found["data-number"]) for found in page.all("details", class_="attempt")]
    assert in_the_open == list(range(IN_THE_OPEN))
    assert attempts(page) == names[:IN_THE_OPEN]
    assert sorted([*in_the_open, *page.packed_attempts]) == list(range(40))
    for number, html in page.packed_attempts.items():
        assert f'data-number="{number}"' in html
        assert f'data-case="{names[number]}"' in html
    assert f"These are the worst {IN_THE_OPEN} of 40 attempts." in page.text


def test_the_index_has_what_is_found_and_ordered(tmp_path):
    views = samples.views(30)
    index = Page(written(tmp_path / "r.html", views=views)).index
    assert index["verdicts"] == [view.verdict for view in views]
    (values,) = index["values"]
    assert values["composite"] == pytest.approx([view.composite.value for view in views], rel=1e-5)
    expected = [view.scores["cosine"].value for view in views]
    assert values["cosine"] == [None if each is None else pytest.approx(each, rel=1e-5) for each in expected]
    for text, view in zip(index["texts"], views, strict=True):
        assert view.case.id in text
        assert "#acl" in text
        assert (view.attempt.error is None) or "gave up after 600 s" in text


@pytest.mark.parametrize("shown", [0, 3, 7])
def test_judgements_and_traces_are_those_of_the_worst_that_were_asked_for(tmp_path, shown):
    views = samples.views(12)
    page = Page(written(tmp_path / "r.html", views=views, cases_shown=shown))
    worst = views[:shown]
    assert len(page.all("svg", class_="timeline")) == sum(view.attempt.trace is not None for view in worst)
    traced = [view for view in views if view.attempt.trace is not None and view not in worst]
    lacking = [html for html in page.packed_attempts.values() if "trivium show --cases N" in html]
    assert len(lacking) == len(traced)
    assert all(samples.PAPER[:30] in html for html in page.packed_attempts.values())


def test_figures_are_of_all_attempts_not_of_those_shown(tmp_path):
    text = written(tmp_path / "r.html", views=samples.views(24), cases_shown=0)
    assert attempts(Page(text)) == []
    assert '<bdi>composite</bdi> <span class="quiet">n = 24' in text


def test_attempts_pass_by_one_at_a_time(tmp_path):
    class Tracked(dict):
        pass

    alive = weakref.WeakSet()
    most = 0

    def passing():
        nonlocal most
        for number in range(60):
            view = samples.view(number, with_trace=False)
            payload = Tracked(number=number)
            # Identity counts, not equality: a WeakSet needs a hash.
            Tracked.__hash__ = object.__hash__
            alive.add(payload)
            most = max(most, len(alive))
            yield msgspec.structs.replace(
                view, attempt=msgspec.structs.replace(view.attempt, metadata=payload)
            )
            del view, payload

    write_html(tmp_path / "r.html", samples.summary(), passing())
    assert most <= 3


def test_a_run_without_attempts_is_still_a_page(tmp_path):
    summary = samples.summary(
        [], metrics={}, composite=None, gates=(), failures=(), warnings=(), human_ceiling=None
    )
    text = Page(written(tmp_path / "r.html", summary, [])).text
    assert "Nothing was scored." in text
    assert "No attempts." in text


def test_a_run_and_people_stand_side_by_side(calm):
    page = parsed(calm)
    assert "Compared with people" in page.text
    assert "0.377[0.327, 0.427]" in page.text


def test_a_text_of_ten_megabytes_is_cut_with_a_count(tmp_path):
    view = samples.view(0)
    view = msgspec.structs.replace(
        view, attempt=msgspec.structs.replace(view.attempt, output="x" * 10_000_000)
    )
    text = written(tmp_path / "r.html", views=[view])
    assert len(text) < 300_000
    assert "9,980,000 of 10,000,000 characters are not in this report." in text
    assert "18,500 more characters" in text


def test_missing_parts_of_an_attempt_are_reported(tmp_path):
    text = Page(written(tmp_path / "r.html", views=[samples.view(6)])).text
    assert "TimeoutError: gave up after 600 s" in text
    assert "no output" in text
    assert "no trace" in text


def test_references_beyond_those_shown_are_counted(tmp_path):
    view = samples.view(0)
    view = msgspec.structs.replace(view, case=msgspec.structs.replace(view.case, references=("good",) * 11))
    text = Page(written(tmp_path / "r.html", views=[view])).text
    assert "Reference 8 of 11" in text
    assert "3 further references are not in this report." in text


def test_a_trace_has_timeline_graphs_and_a_tree_of_steps(tmp_path):
    page = Page(written(tmp_path / "r.html", views=[samples.view(1)]))
    assert len(page.all("svg", class_="graph tools")) == 1
    assert len(page.all("svg", class_="graph agents")) == 1
    assert len(page.all("svg", class_="timeline")) == 1
    assert len(page.all("table", class_="small tree")) == 1


def test_problems_of_a_trace_beyond_those_shown_are_counted(tmp_path):
    view = hostile_view(1)
    trace = view.attempt.trace
    trace = msgspec.structs.replace(trace, problems=trace.problems * 50)
    view = msgspec.structs.replace(view, attempt=msgspec.structs.replace(view.attempt, trace=trace))
    assert "… and 30 more" in Page(written(tmp_path / "r.html", views=[view])).text


@given(
    st.text(st.characters(exclude_categories=()), min_size=1, max_size=60).filter(lambda text: text.strip())
)
def test_the_markup_of_an_attempt_does_not_depend_on_what_strangers_wrote(text):
    def markup(text):
        view = hostile_view(1)
        case = msgspec.structs.replace(
            view.case,
            id=text,
            input=text,
            references=(text,),
            source=text,
            tags=(text,),
            metadata={"k": text},
        )
        attempt = msgspec.structs.replace(
            view.attempt, output=text, error=None, flags=(text,), metadata={}, trace=None
        )
        scores = {
            text: msgspec.structs.replace(
                view.scores['"><img src=x onerror=alert(1)>'], name=text, reason=text
            )
        }
        view = msgspec.structs.replace(
            view, case=case, attempt=attempt, scores=scores, why=text, passed=False
        )
        context = case_context(view) | {"rendered": None}  # Markdown makes elements: see test_markdown.py
        tags = Page(environment().get_template("case.html").render(context)).tags
        return [tag for tag in tags if tag != "wbr"]

    assert markup(text) == markup("x")


def test_a_missing_extra_is_reported_before_any_work(tmp_path, monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name == "jinja2":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    def never():
        raise AssertionError("an attempt was read")
        yield

    environment.cache_clear()
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtra, match="The HTML report needs an extra"):
        write_html(tmp_path / "r.html", samples.summary(), never())


def test_a_path_that_cannot_be_written_is_reported(tmp_path):
    target = tmp_path / "missing folder" / "r.html"
    with pytest.raises(InputError, match=r"r\.html: cannot be written: No such file or directory"):
        write_html(target, samples.summary(), samples.views(1))


def test_the_old_report_stays_until_the_new_one_is_complete(tmp_path):
    target = tmp_path / "r.html"
    target.write_text("old")

    def breaking():
        yield samples.view(0)
        raise RuntimeError("the store went away")

    with pytest.raises(RuntimeError):
        write_html(target, samples.summary(), breaking())
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["r.html"]


def luminance(colour):
    """Relative luminance (WCAG 2.2)."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_every_text_has_enough_contrast_in_light_and_dark(calm):
    style = parsed(calm).content["style"][0]
    schemes = [
        dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block))
        for block in re.findall(r":root \{(.*?)\}", style, re.DOTALL)
    ]
    for scheme in schemes[:2]:
        pairs = [
            (text, ground)
            for text in ("ink", "muted", "accent", "second", "third", "warn", "bad", "good")
            for ground in ("paper", "card", "soft")
        ]
        pairs += [(kind, f"{kind}-soft") for kind in ("good", "warn", "bad")]
        pairs += [("ink", kind) for kind in ("agent", "tool", "llm", "failed", "other", "warn-soft")]
        for text, ground in pairs:
            one, other = sorted([luminance(scheme[text]), luminance(scheme[ground])])
            assert (other + 0.05) / (one + 0.05) >= 4.5, (text, ground)


def test_what_is_reported_and_not_scored_has_no_bounds_of_what_is_missing():
    summary = samples.summary()
    unscored = msgspec.structs.replace(summary.metrics["complexity"], bounds=(0.0, 1.0), coverage=0.0)
    partly = msgspec.structs.replace(summary.metrics["similarity"], bounds=(0.25, 0.75))
    changed = {"complexity": unscored, "similarity": partly}
    summary = msgspec.structs.replace(summary, metrics=summary.metrics | changed)
    made = metrics_table(summary, summary.metrics)
    place = [column.head for column in made.columns].index("if missing scored 0 … 1")
    bounds = dict(zip(summary.metrics, (row[place] for row in made.rows), strict=True))
    assert bounds["complexity"] == ""
    assert bounds["similarity"] == "[0.250, 0.750]"
