"""Look for links of the built pages that lead nowhere.

    python docs/check.py docs/_build/html

Checked are links to other pages, to files and to anchors, and references to Python names. External
links need a network: `sphinx-build -b linkcheck`, or `make docs LINKS=all`.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The links, anchors and unresolved references of one page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.anchors: set[str] = set()
        self.unresolved: set[str] = set()
        self._inside_link = 0
        self._reading = False
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        found = dict(attributes)
        self.anchors |= {found[key] or "" for key in ("id", "name") if key in found}
        self.links |= {found[key] or "" for key in ("href", "src") if key in found}
        self._inside_link += tag == "a"
        classes = (found.get("class") or "").split()
        # a role that found its target is inside of a link
        self._reading = tag == "code" and {"xref", "py"} <= {*classes} and not self._inside_link

    def handle_data(self, data: str) -> None:
        if self._reading:
            self.unresolved.add(data)

    def handle_endtag(self, tag: str) -> None:
        self._inside_link -= tag == "a"
        self._reading = False


def faults(folder: Path) -> list[str]:
    """One sentence for every link and reference without a target."""
    pages = {
        path.resolve(): Page(path.read_text(encoding="utf-8")) for path in folder.rglob("*.html")
    }
    found = []
    for path, page in sorted(pages.items()):
        name = path.relative_to(folder.resolve())
        found += [f"{name}: the reference {one} leads nowhere" for one in sorted(page.unresolved)]
        for link in sorted(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
                found.append(f"{name}: {link} is no file")
            elif parts.fragment and target in pages:
                anchor = unquote(parts.fragment)
                if anchor not in pages[target].anchors:
                    found.append(f"{name}: {link} is no anchor")
    return found


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    if not (folder / "index.html").is_file():
        sys.exit(f"{folder} holds no index.html. Build the pages first: make docs.")
    sentences = faults(folder)
    print("\n".join(sentences) or "Every internal link leads somewhere.")
    sys.exit(bool(sentences))
