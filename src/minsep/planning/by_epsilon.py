"""The noise and the error of some mechanisms at other budgets."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from minsep.engine import LOCAL, Compute
from minsep.planning.candidates import Candidate
from minsep.planning.request import Request
from minsep.planning.search import Search


def at_epsilons(
    request: Request, mechanisms: Sequence[Candidate], epsilons: Sequence[float], *, compute: Compute = LOCAL
) -> Iterator[tuple[float, Candidate]]:
    """Yield each epsilon with a candidate and the noise that it needs there, as far as that is known.

    Args:
        request: What is planned for, at one epsilon.
        mechanisms: Candidates for the request. They keep their strategies.
        epsilons: The epsilons of the budgets, each with the delta of the request.
        compute: Where samples are drawn. It does not change the result.

    >>> request = Request(num_examples=2000, batch_size=100, iterations=100, epsilon=2.0, delta=1e-3)
    >>> dp_sgd = Candidate("poisson", bands=1, min_sep=1)
    >>> for epsilon, found in at_epsilons(request, [dp_sgd], [1.0, 2.0]):
    ...     print(epsilon, f"{found.noise_multiplier:.2f}")
    1.0 1.55
    2.0 1.05
    """
    for epsilon in epsilons:
        search = Search(replace(request, epsilon=epsilon), 0, compute, None)
        for found in search.estimate_all([replace(one, noise_multiplier=None, error=None) for one in mechanisms]):
            if not found.skipped:
                yield epsilon, found
