"""What the two ways to describe images are worth: a linear classifier on CIFAR-10; results/image_features.json.

    CROWDPRISM_DATA=... python benchmarks/image_features.py

700 images to learn from with their true classes, 300 to test on.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from crowdprism import load_dataset
from crowdprism.features import image_features
from measured import store

N_TRAIN, N_TEST = 700, 300
EMBEDDINGS = ("colours-and-edges", "efficientnet-lite0")


def main() -> None:
    """Write the images as files, describe them, measure and store."""
    torch.set_num_threads(1)
    dataset = load_dataset("cifar10")
    chosen = dataset.splits["train"][: N_TRAIN + N_TEST]
    images, classes = np.asarray(dataset.images[chosen]), np.asarray(dataset.gold[chosen])
    if images.shape[1] == 3:
        images = images.transpose(0, 2, 3, 1)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["CROWDPRISM_CACHE"] = f"{folder}/cache"
        photos = Path(folder) / "photos"
        photos.mkdir()
        for place, pixels in enumerate(images):
            Image.fromarray(pixels.astype(np.uint8)).save(photos / f"{place:05d}.png")
        for name in EMBEDDINGS:
            begun = time.process_time()
            values = image_features(photos, embedding=name).features.values
            taken = (time.process_time() - begun) / len(images)
            model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300, C=0.01))
            model.fit(values[:N_TRAIN], classes[:N_TRAIN])
            accuracy = float(model.score(values[N_TRAIN:], classes[N_TRAIN:]))
            row = {"embedding": name, "accuracy": round(accuracy, 3), "milliseconds an image": round(1000 * taken, 1)}
            print(row, flush=True)
            rows.append(row)
    store("image_features", {"train": N_TRAIN, "test": N_TEST, "rows": rows})


if __name__ == "__main__":
    main()
