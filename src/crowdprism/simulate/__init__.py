"""Simulated crowds: families of annotators, who labels what, and the labels they give."""

from crowdprism.simulate.confusions import (
    adversaries,
    class_wise_hammer_spammer,
    diagonally_dominant,
    hammer_spammer,
    one_coin,
    one_good_among_spammers,
    one_label_spammers,
    pair_flip,
    spammers,
)
from crowdprism.simulate.demo_crowd import DemoCrowd, demo_annotations, demo_crowd
from crowdprism.simulate.labelling import simulate_annotations
from crowdprism.simulate.observation import each_with_probability, one_per_item, per_annotator, per_item

__all__ = [
    "DemoCrowd",
    "demo_annotations",
    "demo_crowd",
    "adversaries",
    "class_wise_hammer_spammer",
    "diagonally_dominant",
    "each_with_probability",
    "hammer_spammer",
    "one_coin",
    "one_good_among_spammers",
    "one_label_spammers",
    "one_per_item",
    "pair_flip",
    "per_annotator",
    "per_item",
    "simulate_annotations",
    "spammers",
]
