"""What lies in a page: maps to within a shade, exact arrays, few bytes, and nothing that leads outside."""

from __future__ import annotations

import base64
import html
import json
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import secondsight as ss
from secondsight.plotting.shades import normalise
from secondsight.results.strengths import strengths
from secondsight.viewer.page import Tab, joined, viewer_page
from secondsight.viewer.shade_planes import Plane, packed
from secondsight.viewer.view_data import NOT_ZERO, ZERO, view

MOST_BYTES = 2_000_000
"""Of the page of one method, at 224 x 224 with 16 maps."""


@pytest.fixture(scope="module")
def model() -> ss.Classifier:
    return ss.load_model("efficientnet-lite0")


@pytest.fixture(scope="module")
def small() -> ss.Classifier:
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(4 * 14 * 14, 3)
    )
    return ss.Classifier(net, size=16, labels=list("abc"))


def unpacked(text: str, count: int, size: int) -> NDArray[np.int16]:
    """What decode.js reads, place by place: shades from -255 to 255."""
    data = zlib.decompress(base64.b64decode(text), -zlib.MAX_WBITS)
    bits = np.unpackbits(np.frombuffer(data, np.uint8))
    row = -(-size // 8)
    maps, kept, negative, shade = [], np.zeros(size, int), np.zeros(size, int), np.zeros(size, int)
    masks = []
    for k in range(count):
        kept = kept ^ bits[8 * row * k : 8 * row * k + size]
        masks.append(kept)
    total = int(np.sum(masks))
    signs, shades = 8 * row * count, row * count + -(-total // 8)
    at = 0
    for mask in masks:
        for i in range(size):
            if mask[i]:
                negative[i] ^= bits[signs + at]
                shade[i] = (shade[i] + data[shades + at]) % 256
                at += 1
            else:
                negative[i] = shade[i] = 0
        maps.append(np.where(negative, -shade, shade))
    assert shades + at == len(data)
    return np.array(maps, np.int16)


@pytest.mark.parametrize("size", [1, 8, 37])
def test_packed_maps_come_back(size: int) -> None:
    random = np.random.default_rng(size)
    maps = [random.random(size) * (random.random(size) < share) for share in (0.0, 0.1, 0.5, 1.0, 0.3)]
    signed = [random.standard_normal(size) for _ in maps]
    planes = [Plane.of(one, sign) for one, sign in zip(maps, signed, strict=True)]
    back = unpacked(packed(planes), len(maps), size)
    for one, sign, map_ in zip(maps, signed, back, strict=True):
        assert np.abs(np.abs(map_) / 255 - one).max() <= 1 / 255
        assert ((map_ == 0) == (one == 0)).all()
        assert ((map_ < 0) == ((sign < 0) & (one > 0))).all()


@pytest.mark.parametrize("method", ["caso", "cafo(groups=patch:4)", "caso(groups=window:3)", "gradient"])
def test_shades_are_those_of_the_figures(small: ss.Classifier, method: str) -> None:
    e = ss.explain(small, torch.rand(3, 16, 16, generator=torch.Generator().manual_seed(1)), method)
    shown = view(e)
    path: Any = e.path if isinstance(e, ss.SparseExplanation) else [None]
    for kind, shades in shown["shades"].items():
        maps = unpacked(shades["maps"], len(path), 256)
        for map_, point, brightest in zip(maps, path, shades["brightest"], strict=True):
            values = strengths(e, kind, point)
            wanted = normalise(values)
            assert np.abs(np.abs(map_) / 255 - wanted.ravel()).max() <= 1 / 255
            assert ((map_ == 0) == (wanted.ravel() == 0)).all()
            # The value of a shade is what was shaded, up to the brightest one.
            sizes = np.abs(values).sum(0) if values.ndim == 3 else np.abs(values)
            known = np.minimum(sizes, brightest).ravel()
            assert np.abs(np.abs(map_) / 255 * brightest - known).max() <= brightest / 255
    net = e.delta.sum(0).flatten().numpy()
    signs = unpacked(shown["shades"]["entries"]["maps"], len(path), 256)[shown["chosen"]]
    assert (np.sign(signs)[np.abs(net) > 1e-6] == np.sign(net)[np.abs(net) > 1e-6]).all()


def test_proofs_of_places(small: ss.Classifier) -> None:
    e = ss.explain(small, torch.rand(3, 16, 16, generator=torch.Generator().manual_seed(1)))
    data = zlib.decompress(base64.b64decode(view(e)["certificate"]["support"]), -zlib.MAX_WBITS)
    codes = np.frombuffer(data, np.uint8).reshape(16, 16)
    support = e.certificate.support
    assert ((codes == NOT_ZERO) == support.nonzero.any(0).numpy()).all()
    assert ((codes == ZERO) == support.zero.all(0).numpy()).all()
    assert set(np.unique(codes)) >= {NOT_ZERO, ZERO}


@pytest.mark.parametrize("method", ["caso", "caso(groups=window:8)", "picture", "smooth-caso(n=2)", "gradient"])
def test_a_page_has_few_bytes(model: ss.Classifier, method: str) -> None:
    e = ss.explain(model, ss.example_photograph(), method)
    assert len(viewer_page([Tab(e)]).encode()) < MOST_BYTES
    assert len(e._repr_html_()) < MOST_BYTES / 2


def test_a_notebook_without_frames_says_what_to_do(small: ss.Classifier) -> None:
    e = ss.explain(small, torch.rand(3, 16, 16))
    left = re.sub(r"<[^>]*>", "", e._repr_html_())
    assert left.startswith("The viewer is not shown here. Trust this notebook, ")
    assert e.label in left


def test_the_exact_map_is_in_the_page(small: ss.Classifier, tmp_path: Path) -> None:
    e = ss.explain(small, torch.rand(3, 16, 16), "caso(groups=patch:4)")
    file = tmp_path / "map.npz"
    file.write_bytes(base64.b64decode(view(e)["archive"]))
    loaded = ss.Explanation.load(file)
    assert torch.equal(loaded.delta, e.delta)
    assert loaded.certificate.relative_gap == e.certificate.relative_gap
    with pytest.raises(ss.SecondsightError, match="not in the files that pages offer"):
        loaded.gradient  # noqa: B018
    assert view(loaded)["points"][0]["lambda1"] == e.lambda1
    assert view(e, archive=False)["archive"] is None


def test_a_page_leads_nowhere(small: ss.Classifier) -> None:
    page = viewer_page([Tab(ss.explain(small, torch.rand(3, 16, 16)))], "a.jpg")
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    assert html.unescape(policy[1]).startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy[1]
    addresses = set(re.findall(r"https?://[^\"'\s)<]*", page))
    assert addresses == {"http://www.w3.org/2000/svg"}, "only the name of SVG, which is never fetched"
    assert not re.search(r"<(link|iframe|object|embed|base)\b|\bimport\b.*from|@import|url\(", page)


def test_text_of_files_cannot_end_a_block(small: ss.Classifier) -> None:
    evil = "</script><script>alert(1)</script><!--"
    small.labels = [evil] * 3
    page = viewer_page([Tab(ss.explain(small, torch.rand(3, 16, 16)), evil)], evil)
    assert "<script>alert" not in page
    assert "<!--" not in page
    assert page.count("</script>") == page.count("<script") == 3
    block = re.search(r'id="page">(.*?)</script>', page)
    assert block is not None
    assert json.loads(block[1])["name"] == evil


def test_numbers_that_json_does_not_have(small: ss.Classifier) -> None:
    e = ss.explain(small, torch.rand(3, 16, 16), ss.CASO(max_products=1))
    page = viewer_page([Tab(e)])
    for block in re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', page, re.DOTALL):
        json.loads(block, parse_constant=pytest.fail)


def test_the_scripts_join_into_one() -> None:
    script = joined("start.js")
    assert "import {" not in script
    assert not re.search(r"^export ", script, re.MULTILINE)
    names = re.findall(r"^(?:async )?(?:const|let|function|class) (\w+)", script, re.MULTILINE)
    assert len(names) == len(set(names)), "two modules have a name in common"


def test_names_of_pages(small: ss.Classifier, tmp_path: Path) -> None:
    x = torch.rand(3, 16, 16)
    e, comparison = ss.explain(small, x), ss.compare(small, x, "cafo,gradient")
    for one in (e, comparison):
        one.save(tmp_path / "x.HTML")
        assert (tmp_path / "x.HTML").read_text("utf-8").startswith("<!doctype html>")
        with pytest.raises(ss.InputError, match=r"\.html"):
            one.save(tmp_path / "x.svg")
    assert [tab.title for tab in comparison.tabs()] == ["CAFO", "Gradient"]
    assert comparison._repr_html_().startswith("<iframe")
    assert comparison._repr_html_().isascii()


def test_the_spectrum_lies_within_that_of_the_hessian(small: ss.Classifier) -> None:
    x = torch.rand(3, 16, 16)
    e = ss.explain(small, x)
    values = ss.input_hessian(small, x).eigh(2)[0]
    assert list(e.ritz_values) == sorted(e.ritz_values)
    # Few products see most of the largest eigenvalue, and never more than it.
    assert 0.8 * float(values.max()) < e.ritz_values[-1] <= float(values.max()) * 1.0001
    assert e.ritz_values[0] >= -1e-3 * e.top_eigenvalue
    assert view(e)["ritz_values"] == e.ritz_values
