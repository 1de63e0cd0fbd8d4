"""A record of another library that was changed is certified, composed or refused, and never ends in a traceback."""

import json
import tempfile
from pathlib import Path

from tests.fuzz.mutations import Originals, as_text, changed_data, fuzz, memory_limit
from tests.fuzz.test_command_lines import run
from tests.reading.records import ALL

CONTENTS = Originals(ALL.values())


@fuzz(changed_data(CONTENTS), quick=40, slow=1000)
def test_a_changed_record_ends_as_it_should(case):
    with tempfile.TemporaryDirectory() as folder, memory_limit(3 << 30):
        path = Path(folder, "record.json")
        path.write_text(as_text(case.content))
        code, out, err = run(["certify", "--from", str(path), "--epsilon", "4", "--delta", "1e-5", "--json"])
        assert code in (0, 1, 2), (code, out, err)
        assert "Traceback" not in out + err
        assert code != 2 or err.startswith("Error: "), err
        if code != 2:
            json.loads(out)
        assert list(Path(folder).iterdir()) == [path]
