"""Builds the book, and follows the links in what was built.

mdBook takes only what lies in its source directory, and our pages lie where people look for them: README.md at the top,
tests/vm/README.md beside what it describes. So all pages are put into a directory as they lie here, with docs/SUMMARY.md at its
top, and links between them stay as they are.
"""

import re
import shutil
import subprocess
import tempfile
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

from markdown import TOP

OUT = TOP / "target/book"


def the_book_is_built(found):
    tool = subprocess.run([TOP / "tests/tools/mdbook"], stdout=subprocess.PIPE, text=True, check=False)
    if tool.returncode:
        yield "tests/tools/mdbook has failed, see above"
        return
    mdbook = tool.stdout.strip()
    with tempfile.TemporaryDirectory() as directory:
        stage(found, Path(directory))
        shutil.rmtree(OUT, ignore_errors=True)
        said = subprocess.run(
            [mdbook, "build", "--dest-dir", OUT, directory],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        )
    # A warning, such as of a chapter that does not exist, counts as well.
    if said.returncode or re.search(r"\b(WARN|ERROR)\b", said.stdout):
        yield said.stdout


def stage(found, into):
    """Makes a book of all pages and of the files that they link to."""
    config = (TOP / "docs/book.toml").read_text(encoding="utf-8")
    (into / "book.toml").write_text(config.replace('src = "."', 'src = "src"'), encoding="utf-8")
    for page in found:
        linked = [target.partition("#")[0] for _, target in page.links() if not re.match(r"[a-z]+:|#", target)]
        for path in [page.path, *((page.path.parent / name).resolve() for name in linked)]:
            place = into / "src" / path.relative_to(TOP)
            place.parent.mkdir(parents=True, exist_ok=True)
            if path.is_file():
                shutil.copyfile(path, place)
        if page.name == "docs/SUMMARY.md":
            text = re.sub(r"\]\(([^)]+)\)", lambda link: f"]({from_the_top(link.group(1))})", page.text)
            (into / "src/SUMMARY.md").write_text(text, encoding="utf-8")
    (into / "src/docs/SUMMARY.md").unlink()


def from_the_top(link):
    return (TOP / "docs" / link).resolve().relative_to(TOP)


class Html(HTMLParser):
    """What a page links to, and what may be linked to in it."""

    def __init__(self, path):
        super().__init__()
        self.links, self.ids = [], set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.links += [values[name] for name in ("href", "src") if values.get(name)]
        self.ids |= {values[name] for name in ("id", "name") if values.get(name)}


def links_in_the_book_lead_somewhere(_):
    # The page for what is not found has links from the root of a server.
    files = [path for path in sorted(OUT.rglob("*.html")) if path.name != "404.html"]
    html = {path: Html(path) for path in files}
    if not html:
        yield f"{OUT} has no pages"
    for path, page in html.items():
        for link in page.links:
            name, _, anchor = unquote(link).partition("#")
            if re.match(r"[a-z]+:|//", link):
                continue
            target = (path.parent / name).resolve() if name else path
            if not target.exists():
                yield f"{path.relative_to(OUT)}: {link}: there is no such file"
            elif anchor and target in html and anchor not in html[target].ids:
                yield f"{path.relative_to(OUT)}: {link}: the page has no such place"
