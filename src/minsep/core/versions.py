"""The versions of what computes."""

from importlib.metadata import version

_LIBRARIES = ("minsep", "numpy", "scipy", "numba", "dp-accounting")


def library_versions() -> dict[str, str]:
    """Return the version of minsep, and of the libraries that its numbers come from.

    >>> sorted(library_versions())
    ['dp-accounting', 'minsep', 'numba', 'numpy', 'scipy']
    """
    return {name: version(name) for name in _LIBRARIES}
