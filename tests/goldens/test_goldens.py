import json

import pytest

from tests.goldens.compute import FILE, PARTS, compute, differences


@pytest.mark.parametrize("part", PARTS)
def test_seeded_outputs_stay_as_they_are(part):
    assert not list(differences({part: json.loads(FILE.read_text())[part]}, compute([part])))


def test_a_difference_is_found():
    pinned = json.loads(FILE.read_text())
    changed = json.loads(FILE.read_text())
    changed["estimates"]["b-min-sep"][0] *= 1.00001
    changed["certificates"]["b-min-sep"][2]["samples"] += 1
    names = [name for name, *_ in differences(pinned, changed)]
    assert names == ["/certificates/b-min-sep/2/samples", "/estimates/b-min-sep/0"]
