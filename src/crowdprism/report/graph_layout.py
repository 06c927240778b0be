"""The co-labelling graph of the busiest annotators, placed on a plane."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.annotations import Annotations
from crowdprism.annotations.pairs import co_label_entries
from crowdprism.diagnostics.co_labelling import CoLabellingGraph
from crowdprism.report.names_shown import shown_name
from crowdprism.report.report_records import Graph

MOST_NODES = 40
MOST_EDGES = 160
MOST_PARTS = 5
N_STEPS = 150
NEAREST = 1e-3


def build_graph(annotations: Annotations, parts: CoLabellingGraph) -> Graph:
    """Place the busiest annotators near those with whom they share items."""
    busiest = np.argsort(-annotations.labels_per_annotator, kind="stable")[:MOST_NODES]
    shared, _ = pair_counts(annotations, busiest)
    place = spring_layout(shared)
    first, second = np.nonzero(np.triu(shared, 1))
    strongest = np.argsort(-shared[first, second], kind="stable")[:MOST_EDGES]
    edges = [(int(a), int(b), int(shared[a, b])) for a, b in zip(first[strongest], second[strongest], strict=True)]
    notes = []
    if len(busiest) < annotations.n_annotators:
        notes.append(f"The {len(busiest)} busiest of {annotations.n_annotators} annotators are drawn.")
    if len(strongest) < len(first):
        notes.append(f"Of {len(first)} pairs, lines show the {len(strongest)} that share most items.")
    return Graph(
        names=[shown_name(annotations.annotators[row]) for row in busiest],
        x=place[:, 0].tolist(),
        y=place[:, 1].tolist(),
        n_labels=annotations.labels_per_annotator[busiest].tolist(),
        edges=edges,
        parts=[
            (int(people), int(items), int(labels))
            for people, items, labels in zip(parts.n_annotators, parts.n_items, parts.n_annotations, strict=True)
        ][:MOST_PARTS],
        n_parts=parts.n_parts,
        note=" ".join(notes),
    )


def pair_counts(annotations: Annotations, chosen: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(chosen, chosen) items shared, and those of them with equal labels."""
    position = np.full(annotations.n_annotators, -1)
    position[chosen] = np.arange(len(chosen))
    among_them = annotations.select(position[annotations.annotator] >= 0)
    entries = co_label_entries(replace(among_them, weight=None))
    common, agreeing = np.zeros((2, len(chosen), len(chosen)))
    first, second = position[entries.first], position[entries.second]
    common[first, second] = common[second, first] = entries.common()
    agreeing[first, second] = agreeing[second, first] = entries.agreeing()
    return common, agreeing


def spring_layout(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """(n, 2) places by attraction along edges and repulsion between all (Fruchterman and Reingold 1991).

    Starts on a circle, so the same weights give the same places.
    """
    n = len(weights)
    angle = 2 * np.pi * np.arange(n) / max(n, 1)
    place = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    pull = weights / max(float(weights.max(initial=0.0)), 1.0)
    ideal = 1.5 / np.sqrt(max(n, 1))
    for step in range(N_STEPS):
        apart = place[:, None] - place[None]
        distance = np.maximum(np.linalg.norm(apart, axis=2, keepdims=True), NEAREST)
        force = apart / distance * (ideal**2 / distance - pull[..., None] * distance**2 / ideal)
        move = force.sum(axis=1) - 0.5 * place  # the last term keeps unconnected parts in the picture
        length = np.maximum(np.linalg.norm(move, axis=1, keepdims=True), NEAREST)
        place = place + move / length * np.minimum(length, 0.2 * (1 - step / N_STEPS))
    spread = np.abs(place).max(initial=NEAREST)
    return np.asarray(place / spread)
