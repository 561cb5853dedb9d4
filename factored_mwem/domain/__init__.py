"""What may appear: attributes and their finite sets of codes."""

from factored_mwem.domain.attribute import Attribute
from factored_mwem.domain.domain import Domain

__all__ = ["Attribute", "Domain"]
