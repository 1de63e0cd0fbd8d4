import pytest

from experiments import production


def test_every_question_has_the_sampling_that_the_paper_describes():
    for setting in production.SETTINGS:
        design = production.design_of(setting)
        assert design.iterations == 7200
        assert design.scheme.expected_batch_size(14_745_600) == pytest.approx(1793)
        assert (design.truncation is not None) == setting["truncated"]


def test_answers_are_shown_in_words():
    assert production._answer("least noise", {"noise_multiplier": 0.5, "samples": 1000}) == "0.5000, 1,000 samples"
    assert production._answer("certificate", {"passed": False, "samples": 7}) == "refused, 7 samples"
    assert "2.000 times the target" in production._answer("delta", {"delta": 2 * production.DELTA, "stderr": 1e-12})


def test_exact_accounting_of_the_baseline_contradicts_the_papers_noise():
    (setting,) = [
        one
        for one in production.SETTINGS
        if (one["question"], one["scheme"], one["truncated"]) == ("epsilon", "cyclic Poisson", False)
    ]
    assert production.run(setting)["epsilon"] == pytest.approx(8.12, abs=0.01)
