"""Records as the libraries write them, and as they would be if somebody changed them."""

import json

# Opacus 1.6: `json.dumps(privacy_engine.accountant.state_dict())`; tuples become lists.
OPACUS = {"history": [[1.1, 0.01, 500]], "mechanism": "prv"}
OPACUS_IN_PARTS = {"history": [[1.5, 0.02, 100], [1.2, 0.02, 50], [1.5, 0.04, 1]], "mechanism": "rdp"}

# jax-privacy 2.3: `json.dumps(dataclasses.asdict(config), default=lambda array: array.tolist())`.
JAX = {
    "iterations": 40,
    "expected_participations": 4,
    "strategy": [1.0, 0.5, 0.25, 0.125],
    "noise_multiplier": 2.0,
    "l2_clip_norm": 1.0,
    "rescale_to_unit_norm": True,
    "normalize_by": 64.0,
    "truncated_batch_size": None,
    "num_examples": None,
    "column_normalize": False,
}
JAX_TRUNCATED = JAX | {"truncated_batch_size": 40, "num_examples": 400}
JAX_ONE_BAND = JAX | {"strategy": [0.8], "num_examples": 400}

EVENT = {
    "class_name": "SelfComposedDpEvent",
    "event": {
        "class_name": "PoissonSampledDpEvent",
        "sampling_probability": 0.01,
        "event": {"class_name": "GaussianDpEvent", "noise_multiplier": 1.0},
    },
    "count": 100,
}

# dp_accounting 0.6: `json.dumps(event.to_named_tuple())`.
HERE = "dp_accounting.dp_event"
NAMED_TUPLE = [
    HERE,
    "ComposedDpEvent",
    [
        [HERE, "SelfComposedDpEvent", [HERE, "LaplaceDpEvent", 3.0], 5],
        [HERE, "MixtureOfGaussiansDpEvent", 2.0, [0.0, 1.0], [0.9, 0.1]],
    ],
]

ALL = {
    "opacus": OPACUS,
    "opacus in parts": OPACUS_IN_PARTS,
    "jax": JAX,
    "jax truncated": JAX_TRUNCATED,
    "jax with one band": JAX_ONE_BAND,
    "event": EVENT,
    "named tuple": NAMED_TUPLE,
}


def write(path, content):
    """Write a record, and return its path."""
    path.write_text(json.dumps(content))
    return path
