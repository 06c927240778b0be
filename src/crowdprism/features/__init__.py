"""Features of items: from a file of numbers, a folder of images, or a column of texts."""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from crowdprism.annotations.names import name_array
from crowdprism.errors import InvalidParameterError
from crowdprism.features import image_embeddings, text_embeddings
from crowdprism.features.image_embeddings import image_files, images_of_items
from crowdprism.features.recipe import Recipe, cached, file_stamp
from crowdprism.formats.feature_files import Features, read_features

__all__ = ["Features", "ItemFeatures", "Recipe", "image_features", "item_features", "text_features"]

KINDS = {"numbers": "a file of numbers", "images": "a folder of images", "texts": "a column of texts"}


@dataclass(frozen=True, eq=False)
class ItemFeatures:
    """Features, how they were made, and remarks to show to the user."""

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
    """Features from a file of numbers, a folder of images, or a table with a column of texts.

    Images are matched to `items` by path, name or stem, and to their `other_names` if no id matches a file; without
    items every image is taken, with its path as id. The embedding `"auto"` is a pretrained network if one is installed;
    with a `recipe`, items are embedded as those of the trained model were. `id_column` and `array` are as in
    `read_features`.
    """
    path, usual_id = Path(source), ""
    if recipe is not None:
        text_column, embedding = text_column or recipe.text_column or None, recipe.embedding or "auto"
        usual_id = recipe.id_column
        kind = "images" if path.is_dir() else "texts" if text_column else "numbers"
        if recipe.kind != kind:
            raise InvalidParameterError(f"The model was trained on {KINDS[recipe.kind]}, but {path} is {KINDS[kind]}.")
    if path.is_dir():
        return image_features(path, items=items, other_names=other_names, embedding=embedding)
    if text_column is not None and path.exists():
        texts = text_embeddings.texts_of_table(path, text_column, id_column, usual_id=usual_id)
        if texts:
            state = recipe.state if recipe is not None else None
            found = text_features(texts, embedding=embedding, text_column=text_column, state=state)
            return replace(found, recipe=replace(found.recipe, id_column=id_column or ""))
    features = read_features(path, id_column=id_column, array=array, usual_id=usual_id)
    return ItemFeatures(features, Recipe(id_column=id_column or ""), (features.remark,) if features.remark else ())


def image_features(
    folder: str | os.PathLike[str],
    *,
    items: Sequence[Hashable] | None = None,
    other_names: Mapping[Any, Sequence[str]] | None = None,
    embedding: str = "auto",
) -> ItemFeatures:
    """Features of the images in a folder, as in `item_features`; images of no item are counted in a remark."""
    place = Path(folder)
    chosen, remark = image_embeddings.choose_image_embedding(embedding)
    remarks = [remark]
    files = image_files(place)
    matched: dict[Any, Any] = {str(file): file for file in files}
    if items is not None:
        matched = dict(images_of_items(files, items, other_names or {}, place))
        left_out = len(files) - len(matched)
        if left_out:
            remarks.append(f"{left_out} images match no annotated item and were left out.")
    paths = [place / file for file in matched.values()]
    values = cached([chosen, *map(file_stamp, paths)], lambda: image_embeddings.embed_images(paths, chosen))
    return ItemFeatures(Features(name_array(matched), values), Recipe("images", chosen), tuple(remarks))


def text_features(
    texts: Mapping[Any, str],
    *,
    embedding: str = "auto",
    text_column: str = "",
    state: text_embeddings.State | None = None,
) -> ItemFeatures:
    """Features of texts by item id; pass the `state` of a recipe to embed new texts as the training texts were."""
    chosen, remark = text_embeddings.choose_text_embedding(embedding)
    listed = list(texts.values())
    learned: text_embeddings.State = {}
    if chosen == text_embeddings.PLAIN:
        learned = state or text_embeddings.learn_words(listed)
        values = text_embeddings.embed_words(listed, learned)
    else:
        values = cached([chosen, *listed], lambda: text_embeddings.embed_texts(listed, chosen))
    recipe = Recipe("texts", chosen, text_column, state=learned)
    return ItemFeatures(Features(name_array(texts), values), recipe, (remark,))
