"""Which image belongs to which item."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest

from crowdprism.errors import InvalidAnnotationsError, UnreadableFileError
from crowdprism.features.image_folder import image_files, images_of_items, match_files

FILES = [PurePosixPath(name) for name in ("a/1.png", "b/1.png", "b/cat.JPG", "0007.jpg", "my photo.png")]


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("a/1.png", "a/1.png"),
        ("photos/b/1.png", "b/1.png"),
        ("https://host.example/x/b/1.png?size=2", "b/1.png"),
        ("/data/local-files/?d=photos/a/1.png", "a/1.png"),
        ("cat.JPG", "b/cat.JPG"),
        ("cat", "b/cat.JPG"),
        ("/data/upload/3/0f3c2a1b-cat.JPG", "b/cat.JPG"),
        ("s3://bucket/my%20photo.png", "my photo.png"),
        ("C:\\pictures\\cat.JPG", "b/cat.JPG"),
        (7, "0007.jpg"),
        ("0007", "0007.jpg"),
        ("1.png", None),
        ("dog", None),
        ("", None),
    ],
)
def test_an_id_finds_its_file(name: object, file: str | None) -> None:
    (place,) = match_files([name], FILES)
    assert (None if place is None else str(FILES[place])) == file


def folder_of(tmp_path: Path, *names: str) -> Path:
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    return tmp_path


def test_other_names_serve_where_ids_are_no_files(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "cat.png", "dog.png")
    names = {1: ["a text", "/upload/dog.png"], 2: ["/upload/cat.png"]}
    found = images_of_items(image_files(folder), [1, 2, 3], names, folder)
    assert found == {1: PurePosixPath("dog.png"), 2: PurePosixPath("cat.png")}


def test_images_of_other_items_show_three_of_each(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "1.png", "2.png", "3.png", "4.png")
    with pytest.raises(InvalidAnnotationsError, match=r"'1.png', '2.png', '3.png', .*items are called 'a', 'b', 'c'"):
        images_of_items(image_files(folder), ["a", "b", "c", "d"], {}, folder)


def test_one_image_for_two_items_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidAnnotationsError, match="matches two items"):
        images_of_items([PurePosixPath("x/1.png")], ["1.png", "x/1.png"], {}, tmp_path)


def test_a_folder_without_images_says_what_it_holds(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFileError, match=r"notes\.txt"):
        image_files(folder_of(tmp_path, "notes.txt"))
