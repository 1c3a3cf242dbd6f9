"""Markdown, as far as the checks have to read it: what is code and what is not, headings, links, tables."""

import re
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
# What is built or fetched is none of our pages.
SKIPPED = {"target", "node_modules", "env"}


class Page:
    """A Markdown file."""

    def __init__(self, path):
        self.path = path
        self.name = str(path.relative_to(TOP))
        self.text = path.read_text(encoding="utf-8")
        self.prose, self.blocks = split(self.text.splitlines())

    def links(self):
        """The targets of links and pictures, with their lines."""
        for number, line in self.prose:
            for target in re.findall(r"\]\(([^()\s]+)\)", without_code(line)):
                yield number, target

    def anchors(self):
        """What can follow a `#` in a link to this page: headings as GitHub and mdBook name them, and ids."""
        seen, found = {}, set()
        for _, line in self.prose:
            found.update(re.findall(r'<a id="([^"]+)">', line))
            heading = re.match(r"#{1,6} +(.*)", line)
            if heading:
                name = slug(heading.group(1))
                count = seen.get(name, 0)
                seen[name] = count + 1
                found.add(f"{name}-{count}" if count else name)
        return found

    def rows(self, heading=None):
        """The cells of all rows of tables, without heads; below a heading if one is given."""
        within, before = heading is None, ""
        for number, line in self.prose:
            title = re.match(r"#{1,6} +(.*)", line)
            if title and heading is not None:
                within = title.group(1) == heading
            is_row = line.startswith("|") and not re.fullmatch(r"[|:\- ]+", line)
            # The first row of a table is its head.
            if is_row and before.startswith("|") and within:
                yield number, [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            before = line


def pages():
    """All pages of the project."""
    def within(directory):
        for path in sorted(directory.iterdir()):
            hidden = path.name.startswith(".") and path.name != ".github"
            if path.is_dir() and not path.is_symlink():
                if not hidden and path.name not in SKIPPED:
                    yield from within(path)
            elif path.suffix == ".md":
                yield Page(path)

    return list(within(TOP))


def split(lines):
    """The lines of prose, and the fenced blocks: pairs of a line's number and its text; of a block's first line and its lines."""
    prose, blocks, fence, indented = [], [], None, False
    before = ""
    for number, line in enumerate(lines, 1):
        bare = line.strip()
        if fence is not None:
            if bare == "```":
                fence = None
            else:
                blocks[-1][1].append(line)
        elif bare.startswith("```"):
            fence = bare
            blocks.append((number, []))
        else:
            # Code that is indented begins after an empty line. Below a list it may be a paragraph, which does no harm here.
            indented = line.startswith("    ") and (indented or not before)
            if not indented:
                prose.append((number, line))
        if bare:
            indented = indented and line.startswith("    ")
        before = bare
    return prose, blocks


def without_code(line):
    """The line with its code spans made empty."""
    return re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "``", line)


def code_spans(text):
    """What is between backticks, with the escapes of tables undone."""
    return [span.replace("\\|", "|") for span in re.findall(r"`([^`]+)`", text)]


def slug(heading):
    """The id of a heading."""
    words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
    return re.sub(r"\s", "-", re.sub(r"[^\w\- ]", "", words))
