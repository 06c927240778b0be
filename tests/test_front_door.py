"""`import crowdprism as cp`: methods by class name, without paying for what is not used."""

from __future__ import annotations

import subprocess
import sys

import pytest

import crowdprism as cp


def test_classes_of_methods_can_be_taken_from_the_package() -> None:
    from crowdprism.aggregators import DawidSkene
    from crowdprism.classifiers import GeoCrowdNet

    assert cp.DawidSkene is DawidSkene
    assert cp.GeoCrowdNet is GeoCrowdNet
    with pytest.raises(AttributeError, match="NoSuchMethod"):
        cp.NoSuchMethod  # noqa: B018
    with pytest.raises(AttributeError, match="no_such_name"):
        cp.no_such_name  # noqa: B018


def test_an_aggregator_from_the_package_loads_no_torch() -> None:
    code = "import sys, crowdprism as cp; cp.DawidSkene(); print('torch' in sys.modules or 'sklearn' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_fit_predict_returns_the_labels() -> None:
    annotations = cp.Annotations.from_dense([[0, 0, 1], [1, 1, 1]])
    assert cp.MajorityVote().fit_predict(annotations).tolist() == [0, 1]
