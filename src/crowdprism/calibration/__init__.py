"""How right labels really are: confidence, audits, juries and annotators who answer as one.

Everything here states what is known beyond the annotations themselves: answers to an audit, gold, what other crowds
reached. Import from the modules, such as `crowdprism.calibration.audit`.
"""
