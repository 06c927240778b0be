"""Classifiers: (features, annotations) in, a classifier for new items out; one file per method or close family.

How to add a method
-------------------
A method is one file with a subclass of `CrowdClassifier` and one line in `crowdprism.classifiers.CLASSIFIERS`.

1. Write a **crowd head**, a subclass of `crowdprism.networks.CrowdHead` (a torch module) with `loss`, `confusions` and
   the hooks that its docstrings describe. A parameter with one row per annotator is best held in a
   `crowdprism.networks.RowTable`: large tables are then updated only where a batch touches them.
   `make_annotator_layer` gives ready confusion matrices.

2. Subclass `CrowdClassifier` as a dataclass (`kw_only=True, eq=False, repr=False`), or with a constructor that takes
   `**training`, passes it on and only stores. Set `name`, declare in `_allowed` what the parameters accept
   (`crowdprism.parameters`), and return the head from `_make_head(problem)`. The other methods of the section "what a
   method supplies" are optional. Draw random numbers only through `crowdprism.seeding`, with `problem.seed` and
   `problem.member`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crowdprism.networks import torch_extra as torch_extra

# isort: split
from crowdprism.classifiers.aggnet import MBEM, AggNet, CoupledView, Raykar
from crowdprism.classifiers.annot_mix import AnnotMix, InstanceConfusions
from crowdprism.classifiers.base import CrowdClassifier
from crowdprism.classifiers.coupled import COINNet, TraceReg, TRevision, VolMinNet
from crowdprism.classifiers.crowdlayer import CoNAL, CrowdLayer, UnionNet
from crowdprism.classifiers.doctornet import DoctorNet
from crowdprism.classifiers.geocrowdnet import GaussianProcess, GeoCrowdNet, SpeeLFC
from crowdprism.classifiers.max_mig import MaxMIG
from crowdprism.classifiers.two_stage import TwoStage
from crowdprism.errors import InvalidParameterError

# Name -> (class, parameters that the name stands for).
CLASSIFIERS: dict[str, tuple[type[CrowdClassifier], Mapping[str, Any]]] = {
    "geocrowdnet": (GeoCrowdNet, {"regularizer": None}),
    "geocrowdnet-f": (GeoCrowdNet, {"regularizer": "F"}),
    "geocrowdnet-w": (GeoCrowdNet, {"regularizer": "W"}),
    "crowdlayer": (CrowdLayer, {}),
    "tracereg": (TraceReg, {}),
    "speelfc": (SpeeLFC, {}),
    "unionnet-a": (UnionNet, {"variant": "A"}),
    "unionnet-b": (UnionNet, {"variant": "B"}),
    "conal": (CoNAL, {}),
    "max-mig": (MaxMIG, {}),
    "mbem": (MBEM, {}),
    "doctornet": (DoctorNet, {"weighted": False}),
    "doctornet-weighted": (DoctorNet, {"weighted": True}),
    "doctornet-item": (DoctorNet, {"weighted": "item"}),
    "doctornet-bottleneck": (DoctorNet, {"weighted": "item", "bottleneck": 3}),
    "aggnet": (AggNet, {}),
    "coupled-view": (CoupledView, {}),
    "raykar": (Raykar, {}),
    "two-stage": (TwoStage, {}),
    "nn-mv": (TwoStage, {"aggregator": "majority-vote", "targets": "hard"}),
    "nn-dsem": (TwoStage, {"aggregator": "dawid-skene", "targets": "hard"}),
    "coinnet": (COINNet, {}),
    "annot-mix": (AnnotMix, {}),
    "instance-confusions": (InstanceConfusions, {}),
    "gaussian-process": (GaussianProcess, {}),
    "volminnet": (VolMinNet, {}),
    "t-revision": (TRevision, {}),
}

# Other names that papers and libraries use, in lower case with hyphens.
ALIASES: dict[str, str] = {
    **dict.fromkeys(("ccem", "geocrowdnet(lambda=0)"), "geocrowdnet"),
    **dict.fromkeys(("geocrowdnet(f)", "georeg-f"), "geocrowdnet-f"),
    **dict.fromkeys(("geocrowdnet(w)", "georeg-w"), "geocrowdnet-w"),
    **dict.fromkeys(("unionnet", "union-net", "union-net-b"), "unionnet-b"),
    **dict.fromkeys(("dn", "doctor-net"), "doctornet"),
    **dict.fromkeys(("majority-vote", "mv"), "nn-mv"),
    **dict.fromkeys(("nn-ds", "dawid-skene"), "nn-dsem"),
    "crowd-layer": "crowdlayer",
    "trace-reg": "tracereg",
    "union-net-a": "unionnet-a",
    "maxmig": "max-mig",
    "wdn": "doctornet-weighted",
    "iwdn": "doctornet-item",
    "biwdn": "doctornet-bottleneck",
    "cvl": "coupled-view",
    "learning-from-crowds": "raykar",
    "coin-net": "coinnet",
    "annotmix": "annot-mix",
}

load_classifier = CrowdClassifier.load


def make_classifier(name: str, **params: Any) -> CrowdClassifier:
    """Return the classifier of that name with the given parameters.

    Examples
    --------
    >>> make_classifier("geocrowdnet-f", epochs=10)
    GeoCrowdNet(epochs=10, regularizer='F')
    """
    plain = name.lower().replace(" ", "-").replace("_", "-")
    known = ALIASES.get(plain, plain)
    if known not in CLASSIFIERS:
        raise InvalidParameterError(f"There is no classifier {name!r}; there are {', '.join(sorted(CLASSIFIERS))}.")
    kind, fixed = CLASSIFIERS[known]
    return kind(**{**fixed, **params})


__all__ = ["ALIASES", "AggNet", "AnnotMix", "CLASSIFIERS", "COINNet", "CoNAL", "CoupledView", "CrowdClassifier"]
__all__ += ["CrowdLayer", "DoctorNet", "GaussianProcess", "GeoCrowdNet", "InstanceConfusions", "MBEM", "MaxMIG"]
__all__ += ["Raykar", "SpeeLFC", "TRevision", "TraceReg", "TwoStage", "UnionNet", "VolMinNet", "load_classifier"]
__all__ += ["make_classifier"]
