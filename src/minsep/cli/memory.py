"""The frontier of error against the memory of noise, as `minsep plan` shows it."""

from typing import Any

from minsep.cli.output import print_grid
from minsep.core.numbers import in_bytes


def memory_as_data(result: Any) -> dict[str, Any]:
    """Return the frontier of a plan as data; nothing where the size of the model is not known."""
    if result.request.model_size is None:
        return {}
    from minsep.planning.memory import memory_frontier

    points = [
        {
            "mechanism": point.candidate.name,
            "noise_bytes": point.noise_bytes,
            "drawn_rows": point.drawn_rows,
            "noise_multiplier": point.candidate.noise_multiplier,
            "error": point.candidate.error,
            "fits": point.fits,
        }
        for point in memory_frontier(result)
    ]
    size = result.request.model_size
    return {"noise_memory": {"allowed": result.request.noise_memory, "model_size": size, "frontier": points}}


def print_memory(result: Any) -> None:
    """Print the frontier of a plan, if the size of the model is known."""
    if result.request.model_size is None:
        return
    from minsep.planning.memory import memory_frontier

    points = memory_frontier(result)
    rows = [
        [
            f"{point.candidate.name} (chosen)" if point.candidate.name == result.chosen.name else point.candidate.name,
            in_bytes(point.noise_bytes) + ("" if point.fits else " (too much)"),
            f"{point.drawn_rows}",
            f"{point.candidate.error:.4g}",
        ]
        for point in points
    ]
    most = in_bytes(result.request.noise_memory)
    title = f"Error against memory for noise: {result.request.model_size:,} parameters, at most {most}; by estimates"
    print_grid(title, ["mechanism", "memory", "normals drawn per value", "error"], rows)
