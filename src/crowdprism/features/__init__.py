"""Features of items: from a file of numbers, a folder of images, or a column of texts."""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from crowdprism.errors import InvalidParameterError
from crowdprism.features import image_embeddings, text_embeddings
from crowdprism.features.cache import marks_of, remembered
from crowdprism.features.image_folder import image_files, images_of_items
from crowdprism.features.recipe import Recipe
from crowdprism.features.texts import texts_of_table
from crowdprism.names import name_array
from crowdprism.readers.features import Features, read_features

__all__ = ["Features", "ItemFeatures", "Recipe", "image_features", "item_features", "text_features"]


@dataclass(frozen=True, eq=False)
class ItemFeatures:
    """Features with the way they were made, and remarks for the person who waits."""

    features: Features
    recipe: Recipe
    remarks: tuple[str, ...] = ()


def item_features(
    source: str | os.PathLike[str],
    *,
    items: Sequence[Hashable] | None = None,
    other_names: Mapping[Any, Sequence[str]] | None = None,
    text_column: str | None = None,
    embedding: str = "auto",
    id_column: str | None = None,
    array: str | None = None,
    recipe: Recipe | None = None,
) -> ItemFeatures:
    """Features from whatever there is: a file of numbers, a folder of images, a table with a column of texts.

    Parameters
    ----------
    source
        A file (.npy, .npz, .csv, .tsv, .parquet) or a folder of images.
    items
        The items wanted, by name; images are matched to them by path, name or stem. None takes every image, named by
        its path.
    other_names
        What else an item is called, where ids are no file names.
    text_column
        Column of a table that holds texts.
    embedding
        How images or texts are described; `"auto"` takes a pretrained network where one is installed.
    id_column, array
        As in `read_features`.
    recipe
        How the features of a trained model were made; new items are then described in the same way.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(f"{folder}/x.csv").write_text("item,says\\n1,a good film\\n2,a bad film\\n3,so good\\n")
    ...     found = item_features(f"{folder}/x.csv", text_column="says", embedding="words")
    >>> found.features.ids.tolist(), found.recipe.kind
    ([1, 2, 3], 'texts')
    """
    path = Path(source)
    if recipe is not None:
        text_column, embedding = text_column or recipe.text_column or None, recipe.embedding or "auto"
        require_kind(recipe, "images" if path.is_dir() else "texts" if text_column else "numbers", path)
    if path.is_dir():
        return image_features(path, items=items, other_names=other_names, embedding=embedding)
    if text_column is not None:
        texts = texts_of_table(path, text_column, id_column) if path.exists() else {}
        if texts:
            state = None if recipe is None or not recipe.state else recipe.state
            return text_features(texts, embedding=embedding, text_column=text_column, state=state)
    return ItemFeatures(read_features(path, id_column=id_column, array=array), Recipe())


def require_kind(recipe: Recipe, kind: str, path: Path) -> None:
    """Raise where a model is given another kind of features than it was trained on."""
    if recipe.kind != kind:
        told = {"numbers": "a file of numbers", "images": "a folder of images", "texts": "a column of texts"}
        raise InvalidParameterError(
            f"The model was trained on {told[recipe.kind]}, but {path} is {told[kind]}. Describe new items alike."
        )


def image_features(
    folder: str | os.PathLike[str],
    *,
    items: Sequence[Hashable] | None = None,
    other_names: Mapping[Any, Sequence[str]] | None = None,
    embedding: str = "auto",
) -> ItemFeatures:
    """Describe the images of a folder; parameters as in `item_features`.

    Images that belong to none of `items` are left out and counted in a remark.
    """
    place = Path(folder)
    chosen, told = image_embeddings.choose_image_embedding(embedding)
    remarks = [told]
    if items is None:
        matched: dict[Any, Any] = {str(file): file for file in image_files(place)}
    else:
        matched = dict(images_of_items(place, items, other_names or {}))
        left_out = len(image_files(place)) - len(matched)
        if left_out:
            remarks.append(f"{left_out} images belong to no annotated item and were left out.")
    paths = [place / file for file in matched.values()]
    values = remembered([chosen, *map(marks_of, paths)], lambda: image_embeddings.embed_images(paths, chosen))
    return ItemFeatures(Features(name_array(matched), values), Recipe("images", chosen), tuple(remarks))


def text_features(
    texts: Mapping[Any, str],
    *,
    embedding: str = "auto",
    text_column: str = "",
    state: text_embeddings.State | None = None,
) -> ItemFeatures:
    """Describe texts by item name; `state` is that of a recipe, for texts to be described as earlier ones were."""
    chosen, told = text_embeddings.choose_text_embedding(embedding)
    listed = list(texts.values())
    if chosen == text_embeddings.PLAIN:
        values, learned = text_embeddings.embed_texts(listed, chosen, state)
    else:
        values, learned = remembered([chosen, *listed], lambda: text_embeddings.embed_texts(listed, chosen)[0]), {}
    recipe = Recipe("texts", chosen, text_column, learned)
    return ItemFeatures(Features(name_array(texts), np.asarray(values)), recipe, (told,))
