"""The fields of the OpenDP deployments registry, with the words that some of them may hold.

From schemas/deployments-schema.yaml of https://github.com/opendp/deployments-registry-data at commit 3e9c812 of 15 July
2026: `str`, `int` and `float` are types, a list of texts the words to choose from, `[str]` a list of texts, and an
exclamation mark a field that must be there.
"""

SCHEMA = {
    "url_slug!": str,
    "status!": ["Converted", "Draft", "Pending", "Changes Required", "Approved", "Approved (Update Requested)",
                "Approved (Pending)"],
    "tier!": int,
    "deployment!": {
        "basic!": {
            "name!": str,
            "data_curators!": [str],
            "intended_use!": str,
            "data_product_type!": ["Summary statistics", "Machine learning model", "Dataset", "Synthetic data",
                                   "Interactive API", "SQL queries"],
            "data_product_region!": str,
            "description!": str,
            "publication_date!": str,
            "data_product_sector": ["Technology", "Healthcare", "Education", "Government", "Energy", "Finance"],
        },
        "dp_variant": {
            "variant_name": ["Pure DP", "Approximate DP", "Zero-concentrated DP", "Renyi DP", "Custom"],
            "data_domain": str,
            "unprotected_quantities": str,
        },
        "privacy_loss": {
            "privacy_unit": str,
            "privacy_unit_details": str,
            "privacy_parameters": {"epsilon": float, "delta": float, "rho": float},
            "privacy_parameters_details": str,
        },
        "deployment_model": {
            "model_name": ["Local", "Central", "Shuffle", "Federated", "Varies"],
            "model_name_details": str,
            "actors": str,
            "release_type": ["One release", "Many releases"],
            "release_type_details": str,
            "data_source_type": ["Static", "Dynamic"],
            "data_source_type_details": str,
            "access_type": ["Interactive", "Non-interactive"],
            "access_type_details": str,
        },
        "accounting": {"post_processing": str, "composition": str},
        "implementation": {"preprocessing_and_hyperparameter_tuning": str, "mechanisms": str, "justification": str},
        "administrative": {"sources": str, "notes": str, "registry_authors!": [str]},
    },
}  # fmt: skip


def problems(entry, schema=SCHEMA, where=""):
    """Return what the registry would not accept of an entry."""
    if isinstance(schema, dict):
        if not isinstance(entry, dict):
            return [f"{where} is no mapping"]
        known = {name.rstrip("!"): rule for name, rule in schema.items()}
        found = [f"{where}/{name} is unknown" for name in entry.keys() - known.keys()]
        found += [f"{where}/{name[:-1]} is missing" for name in schema if name[-1] == "!" and name[:-1] not in entry]
        for name in entry.keys() & known.keys():
            found += problems(entry[name], known[name], f"{where}/{name}")
        return found
    if schema == [str]:
        good = isinstance(entry, list) and bool(entry) and all(isinstance(each, str) for each in entry)
    elif isinstance(schema, list):
        good = entry in schema
    else:
        good = type(entry) is schema
    return [] if good else [f"{where} is {entry!r}"]
