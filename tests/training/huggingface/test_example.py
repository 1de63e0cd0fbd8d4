import json

import pytest
import torch

import minsep
from examples import lora
from examples.lora import main, unigram_bits


@pytest.mark.filterwarnings("ignore")  # of other packages
def test_adapters_and_a_language_model_on_made_up_papers(tmp_path, monkeypatch):
    def calibrate(strategy, scheme, epsilon, delta):
        """Take far more noise than is needed, which is certified at once."""
        mechanism = minsep.Mechanism(strategy, scheme, 20.0)
        return minsep.Calibration(mechanism, minsep.certify(mechanism, epsilon, delta), epsilon, delta, ())

    monkeypatch.setattr(lora.minsep, "calibrate", calibrate)
    main(["--quick", "--output", str(tmp_path)])
    results = json.loads((tmp_path / "results.json").read_text())
    assert [result["task"] for result in results].count("accuracy") == 4
    assert [result["task"] for result in results].count("bits per byte") == 3
    assert (tmp_path / "lora.svg").stat().st_size > 1000


def test_bits_of_bytes_that_are_equally_likely():
    train = torch.arange(1, 128).repeat(1000)[None]
    assert abs(unigram_bits(train, train) - 6.98868) < 1e-3  # log2(127)


def test_missing_data_and_packages_are_one_sentence(tmp_path):
    with pytest.raises(SystemExit, match="there is no such file"):
        main(["--data", str(tmp_path / "none.parquet"), "--output", str(tmp_path)])
