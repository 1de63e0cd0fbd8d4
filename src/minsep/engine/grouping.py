"""How many chunks make a task, and how many tasks are under way."""

from dataclasses import dataclass

# Tasks under way per core: the one that runs, and enough behind it while the oldest one is waited for.
_TASKS_AHEAD_PER_CORE = 4
# A task should take this long, and longer on many cores: a scheduler hands out some hundred tasks a second.
_LEAST_SECONDS, _SECONDS_A_CORE, _MOST_SECONDS = 0.2, 0.005, 60.0
_EARLIER_WEIGHT = 0.7  # of what was measured before


@dataclass
class Grouping:
    """Chunks in groups that take long enough to be worth sending.

    A group is as long as the chunks collected so far say it should be. Three things keep it shorter: what is under way
    is at most half of what was collected, and four chunks a core, since a test that ends early wastes it; and what is
    left is spread over all cores.

    Args:
        seconds: What a chunk takes, as far as it was measured.
        collected: The number of chunks that are done.

    >>> grouping = Grouping()
    >>> grouping.chunks(cores=2, under_way=0, left=1000)
    1
    >>> grouping.collect(chunks=400, seconds=4.0)
    >>> grouping.chunks(cores=2, under_way=0, left=1000)
    20
    """

    seconds: float | None = None
    collected: int = 0

    def tasks(self, cores: int) -> int:
        """Return how many tasks may be under way."""
        return _TASKS_AHEAD_PER_CORE * cores

    def chunks(self, cores: int, under_way: int, left: int) -> int:
        """Return how many chunks the next task should take, if so many are under way and so many are left to send."""
        if self.seconds is None:
            return 1
        wanted = min(max(_LEAST_SECONDS, _SECONDS_A_CORE * cores), _MOST_SECONDS) / max(self.seconds, 1e-9)
        share, room = self.collected / (2 * self.tasks(cores)), self.collected / 2 - under_way
        return max(int(min(wanted, share, room, left / (2 * cores))), 1)

    def collect(self, chunks: int, seconds: float) -> None:
        """Note that a task of some chunks is done, and how long it took its worker."""
        each = seconds / chunks
        # The first chunk of a worker may compile functions and make tables.
        self.seconds = each if self.seconds is None else _EARLIER_WEIGHT * self.seconds + (1 - _EARLIER_WEIGHT) * each
        self.collected += chunks
