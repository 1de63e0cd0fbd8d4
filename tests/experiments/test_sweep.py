import json

import pytest

from experiments.sweep import key_of, read, sweep

SETTINGS = [{"rate": rate, "seed": seed} for rate in (0.1, 0.2) for seed in range(2)]


def counted(calls, stop_at=None):
    def run(setting):
        if len(calls) == stop_at:
            raise KeyboardInterrupt
        calls.append(setting)
        return {"accuracy": setting["rate"] + setting["seed"]}

    return run


def test_a_killed_sweep_goes_on_where_it_was(tmp_path):
    path, first, second = tmp_path / "folder" / "runs.jsonl", [], []
    with pytest.raises(KeyboardInterrupt):
        sweep(SETTINGS, counted(first, stop_at=3), path)
    assert len(read(path)) == 3
    records = sweep(SETTINGS, counted(second), path)
    assert second == SETTINGS[3:]
    assert [record["setting"] for record in records] == SETTINGS
    assert [record["result"]["accuracy"] for record in records] == [0.1, 1.1, 0.2, 1.2]
    assert set(records[0]) == {"setting", "result", "versions", "seconds"}
    assert read(path) == records


def test_a_torn_last_line_is_dropped_and_its_run_is_done_again(tmp_path):
    path, calls = tmp_path / "runs.jsonl", []
    whole = sweep(SETTINGS[:2], counted([]), path)
    path.write_text(path.read_text()[:-9])
    assert read(path) == whole[:1]
    again = sweep(SETTINGS[:2], counted(calls), path)
    assert calls == SETTINGS[1:2]
    assert [json.loads(line) for line in path.read_text().splitlines()] == again


def test_settings_are_compared_by_value_and_run_once(tmp_path):
    calls = []
    turned = {"seed": 0, "rate": 0.1}
    records = sweep([SETTINGS[0], turned, SETTINGS[0]], counted(calls), tmp_path / "runs.jsonl")
    assert len(calls) == 1
    assert len(records) == 3
    assert key_of({"a": 1}) != key_of({"a": 1.5})
    with pytest.raises(ValueError, match="JSON"):
        key_of({"a": float("nan")})


def test_two_sweeps_do_not_write_one_file(tmp_path):
    path = tmp_path / "runs.jsonl"

    def run(setting):
        sweep(SETTINGS, counted([]), path)

    with pytest.raises(SystemExit, match="another sweep"):
        sweep(SETTINGS, run, path)


def test_a_sweep_of_which_nothing_is_missing_only_reads(tmp_path):
    path = tmp_path / "runs.jsonl"
    whole = sweep(SETTINGS[:2], counted([]), path)

    def run(setting):
        assert sweep(SETTINGS[:2], counted([]), path) == whole
        return {}

    assert len(sweep(SETTINGS[:3], run, path)) == 3
