"""Simulated crowds: families of annotators, who labels what, and the labels they give."""

from crowdprism.simulate.confusions import (
    adversaries,
    class_wise_hammer_spammer,
    diagonally_dominant,
    hammer_spammer,
    one_coin,
    one_good_among_random,
    one_good_among_spammers,
    one_label_spammers,
    one_perfect_among_dominant,
    pair_flip,
    random_confusions,
    random_partners,
    spammers,
    symmetric_flip,
)
from crowdprism.simulate.demo_crowd import DemoCrowd, demo_annotations, demo_crowd
from crowdprism.simulate.families import FAMILIES, PATTERNS, build_family, build_pattern
from crowdprism.simulate.instance_dependent import simulate_by_difficulty, simulate_instance_dependent
from crowdprism.simulate.labelling import copy_annotators, random_copies, simulate_annotations
from crowdprism.simulate.machine import MachineAnnotations, MachineCrowd, machine_annotations, machine_crowd
from crowdprism.simulate.machine_annotators import AccuracyReport, MachineAnnotator, machine_list
from crowdprism.simulate.observation import each_with_probability, one_per_item, per_annotator, per_item

__all__ = [
    "AccuracyReport",
    "DemoCrowd",
    "FAMILIES",
    "MachineAnnotations",
    "MachineAnnotator",
    "MachineCrowd",
    "PATTERNS",
    "adversaries",
    "build_family",
    "build_pattern",
    "class_wise_hammer_spammer",
    "copy_annotators",
    "demo_annotations",
    "demo_crowd",
    "diagonally_dominant",
    "each_with_probability",
    "hammer_spammer",
    "machine_annotations",
    "machine_crowd",
    "machine_list",
    "one_coin",
    "one_good_among_random",
    "one_good_among_spammers",
    "one_label_spammers",
    "one_per_item",
    "one_perfect_among_dominant",
    "pair_flip",
    "per_annotator",
    "per_item",
    "random_confusions",
    "random_copies",
    "random_partners",
    "simulate_annotations",
    "simulate_by_difficulty",
    "simulate_instance_dependent",
    "spammers",
    "symmetric_flip",
]
