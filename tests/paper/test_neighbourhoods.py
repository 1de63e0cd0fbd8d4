from minsep.paper import neighbourhood_rule


def test_the_rule_of_thumb():
    assert neighbourhood_rule(0.01, 10) == 9
    assert neighbourhood_rule(0.9, 10) == 1
    for prob, min_sep in ((0.0071, 32), (0.3, 2), (1e-4, 128)):
        bound = neighbourhood_rule(prob, min_sep)
        assert min_sep * prob * bound < 1 <= min_sep * prob * (bound + 1)
