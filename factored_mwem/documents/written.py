"""Written: values as JSON and YAML, the same bytes for the same values.

Names in a manifest may be anybody's: what no eye sees, or what turns the direction of writing, is spelt out
as an escape in both. That can be done in what was written, for such a character stands between double quotes.
"""

from __future__ import annotations

import json
import re
from typing import Any

_UNSEEN = re.compile(
    "[\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff]"
)


def to_json(value: Any) -> str:
    """A JSON text with a line for each entry."""
    text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    return _UNSEEN.sub(lambda found: json.dumps(found[0])[1:-1], text)


def to_yaml(value: Any) -> str:
    """A YAML text in blocks, texts of several lines as they are, for people to read and review."""
    import yaml

    class Dumper(yaml.SafeDumper):  # type: ignore[misc]  # its package has no types
        """Knows no aliases, which few who edit YAML by hand do."""

        def ignore_aliases(self, data: Any) -> bool:
            return True

    def text(dumper: Dumper, data: str) -> Any:
        style = "|" if "\n" in data else None
        if _UNSEEN.search(data):
            style = '"'
        return dumper.represent_scalar("tag:yaml.org,2002:str", data, style=style)

    Dumper.add_representer(str, text)
    dumped = yaml.dump(value, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=110)
    return _UNSEEN.sub(lambda found: f"\\U{ord(found[0]):08x}", dumped)
