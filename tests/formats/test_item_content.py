"""Content of items from files."""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path

import pytest

from crowdprism.annotations.names import name_array
from crowdprism.errors import UnreadableFileError
from crowdprism.features.image_embeddings import read_pixels
from crowdprism.formats.item_content import Shown, content_of_files, read_content

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010804000000b51c0c02"
    "0000000b4944415478da6364f80f00010501012718e3660000000049454e44ae426082"
)


def test_a_table_is_matched_by_its_ids_whatever_their_type(tmp_path: Path) -> None:
    (tmp_path / "items.csv").write_text("text,id\nfirst,7\nsecond,8.0\n")
    content = read_content(tmp_path / "items.csv", name_array([7, 8]))
    assert content.columns == ("text",)
    assert content.by_item == {7: {"text": "first"}, 8: {"text": "second"}}


def test_tasks_of_label_studio_show_their_data(tmp_path: Path) -> None:
    (tmp_path / "tasks.json").write_text(json.dumps([{"id": 3, "data": {"text": "hello"}, "annotations": []}]))
    assert read_content(tmp_path / "tasks.json", name_array([3])).by_item == {3: {"text": "hello"}}


def test_columns_of_annotation_files_count_if_they_are_the_same_for_an_item(tmp_path: Path) -> None:
    rows = ["item,annotator,label,text,mood", "x,a,1,hello,glad", "x,b,2,hello,sad", "y,a,1,bye,glad"]
    (tmp_path / "labels.csv").write_text("\n".join(rows) + "\n")
    used = ["annotator", "label"]
    found = content_of_files([tmp_path / "labels.csv"], ["x", "y"], name_array(["x", "y"]), item="item", used=used)
    assert found.by_item == {"x": {"text": "hello"}, "y": {"text": "bye"}}


def test_a_file_that_cannot_be_read_shows_nothing(tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_text("[{")
    found = content_of_files(
        [tmp_path / "broken.json", tmp_path / "none.csv"], ["x"], name_array(["x"]), item="item", used=[]
    )
    assert found.by_item == {}


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("hello", "text"),
        ("dot.png", "image"),
        ("missing.png", "text"),
        ("../secret.png", "text"),
        ("https://example.org/a.png", "link"),
        ("https://example.org/a page.png", "text"),
        ("javascript:alert(1)", "text"),
        ("data:text/html,x", "text"),
    ],
)
def test_values_are_text_unless_they_are_addresses_or_images_of_the_folder(
    tmp_path: Path, value: str, kind: str
) -> None:
    (tmp_path / "secret.png").write_bytes(PIXEL)
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "dot.png").write_bytes(PIXEL)
    (folder / "items.csv").write_text(f'item,shown\n1,"{value}"\n')
    (shown,) = read_content(folder / "items.csv", name_array([1])).shown(1, pixels=100)
    assert shown.kind == kind
    assert shown.value.startswith("data:image/") if kind == "image" else shown.value == value


def test_images_at_an_address_are_shown_only_on_request(tmp_path: Path) -> None:
    (tmp_path / "items.csv").write_text("item,shown\n1,https://example.org/a.png\n")
    content = read_content(tmp_path / "items.csv", name_array([1]))
    assert content.shown(1, pixels=100, remote=True)[0].kind == "image"


def content_of_image(folder: Path, name: str) -> list[Shown]:
    (folder / "items.csv").write_text(f"item,shown\n1,{name}\n")
    return read_content(folder / "items.csv", name_array([1])).shown(1, pixels=100)


def png_of(width: int, height: int) -> bytes:
    """A file whose header states a size that its content does not have."""
    header = b"IHDR" + width.to_bytes(4, "big") + height.to_bytes(4, "big") + PIXEL[24:29]
    return PIXEL[:12] + header + zlib.crc32(header).to_bytes(4, "big") + PIXEL[33:]


@pytest.mark.filterwarnings("ignore:.*decompression bomb")
@pytest.mark.parametrize(
    "data",
    [png_of(60_000, 60_000), png_of(12_000, 12_000), png_of(100, 100), PIXEL[:42], PIXEL[:40] + bytes(30), b""],
    ids=["refused by Pillow", "too large", "too short", "cut", "damaged", "empty"],
)
def test_an_image_that_cannot_be_shown_is_its_name(data: bytes, tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    (tmp_path / "dot.png").write_bytes(data)
    assert content_of_image(tmp_path, "dot.png") == [Shown("shown", "text", "dot.png")]


@pytest.mark.skipif(os.name != "posix", reason="the program is a shell script")
def test_no_program_is_run_for_an_image_whatever_it_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pillow knows formats by their content, and hands PostScript to an interpreter."""
    pytest.importorskip("PIL")
    gs = tmp_path / "bin" / "gs"
    gs.parent.mkdir()
    gs.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    gs.chmod(0o755)
    monkeypatch.setenv("PATH", str(gs.parent), prepend=":")
    (tmp_path / "dot.png").write_text("%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n")
    assert content_of_image(tmp_path, "dot.png") == [Shown("shown", "text", "dot.png")]
    with pytest.raises(UnreadableFileError, match="cannot be read as an image"):
        read_pixels(tmp_path / "dot.png", 8)
    assert not (tmp_path / "ran").exists()
