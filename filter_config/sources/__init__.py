"""Other systems' resources to filter configs.

A source reads resources of its system and compiles them to the neutral ``model``; ``prune`` leaves out what a processor
would refuse, and ``emit`` writes the filter config. Sources import the model and ``faults``, never each other.
"""
