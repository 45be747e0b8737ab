"""What all pages share: the headers, the files they load, the parts, and the answers for errors."""

import re

import pytest
from litestar.testing import TestClient

from tests.web.conftest import LOOPBACK
from trivium.web.app import create_app
from trivium.web.pages.site import assets, query
from trivium.web.services import Services

HTML = {"Accept": "text/html"}


def test_a_page_may_load_nothing_but_files_of_the_server(shared_client):
    policy = shared_client.get("/runs", headers=HTML).headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy


def test_pages_hold_no_inline_script_style_or_handler(shared_client):
    body = shared_client.get("/runs", headers=HTML).text
    assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:", body)
    assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", body))


@pytest.mark.parametrize("name", sorted(assets()))
def test_files_are_kept_by_browsers_under_the_address_of_their_content(shared_client, name):
    address = f"/assets/{assets()[name].digest}/{name}"
    plain = shared_client.get(address, headers={"Accept-Encoding": "identity"})
    packed = shared_client.get(address, headers={"Accept-Encoding": "gzip"})
    assert plain.content == packed.content == assets()[name].body
    assert packed.headers["Content-Encoding"] == "gzip"
    assert "immutable" in plain.headers["Cache-Control"]
    assert shared_client.get(f"/assets/0/{name}").status_code == 404


def test_an_unknown_address_is_a_page_for_a_browser_and_json_for_a_program(shared_client):
    page, data = shared_client.get("/nowhere", headers=HTML), shared_client.get("/nowhere")
    assert page.status_code == data.status_code == 404
    assert page.text.startswith("<!doctype html>")
    assert data.json()["error"] == "not_found"
    assert shared_client.get("/api/v1/monitors/none/status", headers=HTML).json()["error"] == "not_found"


def test_a_query_keeps_what_is_not_changed():
    arguments = [("q", "a b"), ("start", "50"), ("kind", "")]
    assert query(arguments, start=None) == "?q=a+b"
    assert query(arguments, sort="oldest") == "?q=a+b&start=50&sort=oldest"


def test_a_server_that_only_shows_receives_nothing(store):
    with (
        Services(store, receiving=False) as services,
        TestClient(create_app(services), base_url=LOOPBACK) as viewer,
    ):
        assert viewer.post("/v1/traces", content=b"").status_code == 404
