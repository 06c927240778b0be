"""crowdprism: from labels given by many unreliable people to a classifier, corrected labels and honest accounts."""
