"""Journals: what a long call drew and decided, so that it can go on after a crash and ends in the same result.

All that minsep computes is a function of its inputs and a seed. A journal holds both, and in the order of the program
the small states that its samples were folded into. Going on runs the same program again, which takes those states from
the journal instead of drawing.
"""

from minsep.journal.call import Call, begin, today

__all__ = ["Call", "begin", "today"]
