"""Registry: the record of the OpenDP deployments registry, tier 3, as its form had it in July 2026:
`schemas/deployments-schema.yaml` of opendp/deployments-registry-data.

Its pages read Markdown, HTML and LaTeX in every text. So texts from the manifest are escaped; those of the
owner are not.
"""

from __future__ import annotations

import re
from typing import Any

from factored_mwem.documents import accounts
from factored_mwem.documents.owner import Owner
from factored_mwem.documents.page import markdown
from factored_mwem.documents.published import Published


def record(release: Published, owner: Owner) -> dict[str, Any]:
    """The record, in the order of the registry's template."""
    return {
        "url_slug": slug(release, owner),
        "status": "Draft",  # a newly authored record; the board changes it
        "tier": 3,
        "deployment": {
            "basic": _basic(release, owner),
            "dp_variant": {
                "variant_name": "Pure DP" if release.rho is None else "Approximate DP",
                "data_domain": markdown(accounts.data_domain(release)),
                "unprotected_quantities": markdown(accounts.unprotected(release)),
            },
            "privacy_loss": _privacy_loss(release),
            "deployment_model": _model(owner),
            "accounting": {
                "post_processing": markdown(accounts.post_processing(release)),
                "composition": markdown(accounts.composition(release)),
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": (
                    f"{owner.preparation}\n\n{markdown(accounts.tuning(release))}"
                ),
                "mechanisms": markdown(accounts.mechanisms(release)),
                "justification": owner.justification,
            },
            "administrative": _administrative(release, owner),
        },
    }


def slug(release: Published, owner: Owner) -> str:
    """The slug, as the registry makes it from name, curators and year."""
    words = (owner.name, "-".join(owner.curators), str(published_on(release, owner).year))
    return "_".join(re.sub(r"\W+", "_", word.lower()) for word in words).replace("_", "-")


def published_on(release: Published, owner: Owner) -> Any:
    """The owner's date of publication, else the day of the release."""
    return owner.published or release.manifest.created


def _basic(release: Published, owner: Owner) -> dict[str, Any]:
    basic: dict[str, Any] = {
        "name": owner.name,
        "data_curators": owner.curators,
        "intended_use": owner.intended_use,
        "data_product_type": "Synthetic data",
        "data_product_region": owner.region,
        "description": f"{owner.description}\n\n{markdown(accounts.title(release))}",
        "publication_date": published_on(release, owner).isoformat(),
    }
    return basic | ({"data_product_sector": owner.sector} if owner.sector else {})


def _privacy_loss(release: Published) -> dict[str, Any]:
    promise = release.manifest.guarantee
    numbers: dict[str, float] = {"epsilon": promise.epsilon}
    if release.rho is not None:
        numbers |= {"delta": promise.delta, "rho": release.rho}
    return {
        "privacy_unit": markdown(release.manifest.asked_policy.protected()),
        "privacy_unit_details": markdown(accounts.adjacency(release)),
        "privacy_parameters": numbers,
        "privacy_parameters_details": markdown(accounts.parameters(release)),
    }


def _model(owner: Owner) -> dict[str, Any]:
    return {
        "model_name": "Central",
        "model_name_details": "The keeper of the private table runs the program that adds the noise.",
        "actors": owner.actors,
        "release_type": "One release" if owner.releases == "one" else "Many releases",
        "release_type_details": owner.releases_details,
        "data_source_type": owner.source.capitalize(),
        "data_source_type_details": owner.data_collection,
        "access_type": "Non-interactive",
        "access_type_details": "A table of synthetic rows is published; nobody queries the private one.",
    }


def _administrative(release: Published, owner: Owner) -> dict[str, Any]:
    sources = [owner.url, *([owner.sources] if owner.sources else [])]
    return {
        "sources": "\n\n".join(sources),
        "notes": (
            f"Licence: {owner.license}\n\nContact: {owner.contact}\n\n"
            f"sha256 of the released rows: {release.output.sha256}"
        ),
        "registry_authors": owner.record_authors,
    }
