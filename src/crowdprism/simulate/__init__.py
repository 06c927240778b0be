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
from crowdprism.simulate.families import (
    FAMILIES,
    PATTERNS,
    DemoCrowd,
    build_family,
    build_pattern,
    demo_annotations,
    demo_crowd,
)
from crowdprism.simulate.labelling import (
    copy_annotators,
    each_with_probability,
    one_per_item,
    per_annotator,
    per_item,
    random_copies,
    simulate_annotations,
    simulate_by_difficulty,
    simulate_instance_dependent,
)
from crowdprism.simulate.machine import (
    AccuracyReport,
    MachineAnnotations,
    MachineCrowd,
    machine_annotations,
    machine_crowd,
    machine_list,
)
from crowdprism.simulate.machine_networks import MachineAnnotator

__all__ = ["adversaries", "class_wise_hammer_spammer", "diagonally_dominant", "hammer_spammer", "one_coin"]
__all__ += ["one_good_among_random", "one_good_among_spammers", "one_label_spammers", "one_perfect_among_dominant"]
__all__ += ["pair_flip", "random_confusions", "random_partners", "spammers", "symmetric_flip"]
__all__ += ["FAMILIES", "PATTERNS", "DemoCrowd", "build_family", "build_pattern", "demo_annotations", "demo_crowd"]
__all__ += ["simulate_by_difficulty", "simulate_instance_dependent"]
__all__ += ["copy_annotators", "random_copies", "simulate_annotations"]
__all__ += ["AccuracyReport", "MachineAnnotations", "MachineAnnotator", "MachineCrowd"]
__all__ += ["machine_annotations", "machine_crowd", "machine_list"]
__all__ += ["each_with_probability", "one_per_item", "per_annotator", "per_item"]
