"""README.md as a package page shows it: links and pictures by their public address, `Repository` in pyproject.toml.

In the repository they are relative, so that they work in every clone. hatchling runs this when it builds the package.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

RELATIVE = r"\((?![a-z]+:|#)([^)]+)\)"


def public(readme: str, repository: str) -> str:
    """The same text with the address before every relative link: of pictures the file itself, of others its page."""
    pictured = re.sub(rf"(!\[[^\]]*\]){RELATIVE}", rf"\1({repository}/raw/main/\2)", readme)
    return re.sub(rf"\]{RELATIVE}", rf"]({repository}/blob/main/\1)", pictured)


def get_metadata_hook() -> type:
    """What hatchling looks for; imported here, since nothing but a build has hatchling."""
    from hatchling.metadata.plugin.interface import MetadataHookInterface

    class Readme(MetadataHookInterface):
        def update(self, metadata: dict[str, Any]) -> None:
            text = public((Path(self.root) / "README.md").read_text("utf-8"), metadata["urls"]["Repository"])
            metadata["readme"] = {"content-type": "text/markdown", "text": text}

    return Readme
