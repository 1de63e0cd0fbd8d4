"""Work that tests send to other processes."""

import os
import time
from functools import cached_property

from minsep.accounting.importance.tilted import TiltedLaw


def square(chunk):
    return chunk**2


def nap(seconds, chunk):
    time.sleep(seconds)
    return chunk


def process(seconds, chunk):
    time.sleep(seconds)
    return os.getpid()


def die(chunk):
    os._exit(1)


made = []


def tables_made(draw, chunk):
    """Draw a chunk; return this process, and how many tables were made in it so far."""
    if not made:
        original = TiltedLaw.law.func

        def counted(law):
            made.append(law)
            return original(law)

        made.append("the first entry says that tables are counted")
        TiltedLaw.law = cached_property(counted)
        TiltedLaw.law.__set_name__(TiltedLaw, "law")
    draw(chunk)
    return os.getpid(), len(made) - 1
