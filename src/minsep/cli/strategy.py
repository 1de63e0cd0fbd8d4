"""`minsep strategy`: the best strategy matrix for a number of iterations and bands."""

import math

from minsep.cli.options import Bands, Iterations, Json, command
from minsep.cli.output import print_json, print_table

_COEFFICIENTS_SHOWN = 8


@command
def strategy(iterations: Iterations, bands: Bands, json: Json = False) -> None:
    """Show the strategy matrix of least error, and its error relative to independent noise.

    Example: `minsep strategy --iterations 2000 --bands 16`
    """
    from minsep import BandedToeplitz

    best = BandedToeplitz.optimal(iterations=iterations, bands=bands)
    independent = BandedToeplitz.identity(iterations=iterations)
    ratio = math.sqrt(best.mean_squared_error / independent.mean_squared_error)
    if json:
        print_json(
            {
                "iterations": best.iterations,
                "bands": best.bands,
                "coefficients": best.coefficients.tolist(),
                "mean_squared_error": best.mean_squared_error,
                "max_squared_error": best.max_squared_error,
                "error_ratio_to_identity": ratio,
            }
        )
        return
    shown = " ".join(f"{value:.4f}" for value in best.coefficients[:_COEFFICIENTS_SHOWN])
    print_table(
        f"Optimal banded Toeplitz strategy, {best.iterations:,} iterations, {best.bands} bands",
        {
            "Coefficients": shown + (" ..." if best.bands > _COEFFICIENTS_SHOWN else ""),
            "Root mean squared error of prefix sums (noise multiplier 1)": f"{math.sqrt(best.mean_squared_error):.4g}",
            "Largest root mean squared error of a prefix sum": f"{math.sqrt(best.max_squared_error):.4g}",
            "Error relative to independent noise": f"{ratio:.3f}",
        },
    )
