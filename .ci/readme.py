"""The README as a package index shows it, where links to files of the repository lead nowhere."""

import re
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface

NOTE = "*Paths such as `docs/install.md` are those of files in the source distribution.*"
LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?://|#)([^)\s]+)\)")


def for_an_index(text: str) -> str:
    """The text with paths in place of relative links and images, and a word on them on top."""
    title, _, rest = text.partition("\n")
    return f"{title}\n\n{NOTE}\n{LINK.sub(_named, rest)}"


def _named(found: re.Match[str]) -> str:
    image, words, path = found.groups()
    told = " ".join(words.split())
    if image:
        return f"*Figure: {told} (`{path}`).*"
    return f"`{path}`" if told.strip("`") == path else f"{told} (`{path}`)"


class Readme(MetadataHookInterface):
    """Called by hatchling, for pip and for every build."""

    def update(self, metadata: dict) -> None:
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": for_an_index(text)}
