"""The mechanism of a certificate, for a dataset: nothing is run that was not certified."""

import os
from typing import TYPE_CHECKING

from minsep.core import validation as validate
from minsep.core.budget import warn_of_delta
from minsep.mechanism import Mechanism

# Accounting takes seconds to import, and a run without a certificate does not need it.
if TYPE_CHECKING:
    from minsep.accounting import Accepted, Certificate
    from minsep.attribution import AttributionGraph


def certified_mechanism(
    certificate: "Certificate | str | os.PathLike[str]",
    num_examples: int | None,
    *,
    verify: bool,
    graph: "AttributionGraph | None",
    accept_assumption: bool,
    accept_other_num_examples: bool,
) -> tuple["Accepted", Mechanism]:
    """Return a certificate as one that may be relied on, and its mechanism for the dataset. Anything else is refused.

    Args:
        certificate: The certificate, or the file that holds it.
        num_examples: Size of the dataset. If there is a graph, it must be its number of examples.
        verify: Whether to draw the samples of the certificate again.
        graph: The graph that says which examples belong to which users. It is required if the certificate protects
            users.
        accept_assumption: Whether to accept a conditional certificate.
        accept_other_num_examples: Whether to accept a certificate that was made for another number of examples.
    """
    from minsep.accounting import accept_certificate

    accepted = accept_certificate(certificate, verify=verify, accept_assumption=accept_assumption)
    mechanism = accepted.mechanism if graph is None else accepted.mechanism.with_graph(graph)
    if graph is None and mechanism.scheme.unit == "user":
        raise ValueError(
            f"graph is None, but the certificate protects users ({mechanism.scheme.name}): pass the graph of your "
            "examples and their users, such as minsep.bound_contributions gives."
        )
    if graph is not None and num_examples != graph.num_examples:
        raise ValueError(f"num_examples is {num_examples!r}, but the graph has {graph.num_examples} examples.")
    if num_examples is None:  # the training refuses it
        return accepted, mechanism
    recorded = accepted.certificate.num_examples
    other = recorded not in (None, validate.integer(num_examples=num_examples, at_least=1))
    # Truncated batches are for one size of data, which the training itself requires.
    if other and mechanism.truncation is None and not accept_other_num_examples:
        raise ValueError(
            f"num_examples is {num_examples!r}, but the certificate was made for {recorded:,} examples, so batches "
            "would have another size than was planned: plan for this number, or pass accept_other_num_examples=True."
        )
    if graph is None:
        warn_of_delta(accepted.certificate.delta, num_examples)
    else:
        warn_of_delta(accepted.certificate.delta, graph.num_users, "users")
    return accepted, mechanism
