import json
import math

from tests.goldens.compute import FILE, compute, differences


def close(pinned, found):
    """Floats may differ in their last digits from processor to processor; nothing else may."""
    if isinstance(pinned, float) and isinstance(found, float | int):
        return math.isclose(pinned, found, rel_tol=1e-6, abs_tol=1e-12)
    return pinned == found


def test_seeded_outputs_stay_as_they_are():
    assert not list(differences(json.loads(FILE.read_text()), compute(), close))


def test_a_difference_is_found():
    pinned = json.loads(FILE.read_text())
    changed = json.loads(FILE.read_text())
    changed["estimates"]["b-min-sep"][0] *= 1.00001
    changed["certificates"]["b-min-sep"][2]["samples"] += 1
    names = [name for name, *_ in differences(pinned, changed, close)]
    assert names == ["/certificates/b-min-sep/2/samples", "/estimates/b-min-sep/0"]
