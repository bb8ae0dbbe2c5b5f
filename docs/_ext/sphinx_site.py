"""The Sphinx extension of the documentation site (docs/conf.py): page order, links, docstrings, Markdown twins, llms.txt.

- Each `index.md` gets a table of contents: the pages it links to, then the other pages of its folder.
- Links to files outside of docs/ lead to the repository. Its address is `Repository` in `[project.urls]` of packages/lamina. If
  it has none, these links are plain text, and the source of a function is a page of the site. (sphinx.ext.viewcode writes
  anchors that do not exist if several modules export a name.)
- Docstrings are Markdown with Google's sections; autodoc gets reStructuredText.
- `page.md` is next to `page.html`, for programs and agents; llms.txt lists the pages, and llms-full.txt contains them.
"""
from __future__ import annotations

import functools
import importlib
import inspect
import os
import re
import tomllib
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import api_pages
from docutils import nodes
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
SECTIONS = ("start", "learn", "how-to", "reference", "design", "coming-from", "contributing")
LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s#:]+)(#[^)\s]*)?\)")
CODE_STYLES = ("a11y-light", "a11y-high-contrast-dark")
NUMPY = "https://numpy.org/doc/stable/"
PYTHON = "https://docs.python.org/3/"


def version() -> str:
    """Return the version of the umbrella package."""
    text = (ROOT / "packages/lamina/src/lamina/_version.py").read_text(encoding="utf-8")
    return re.findall(r'__version__ = "(.+)"', text)[0]


def repository() -> str | None:
    """Return the address of the repository, or None if the metadata of packages/lamina has none."""
    project = tomllib.loads((ROOT / "packages/lamina/pyproject.toml").read_text(encoding="utf-8"))["project"]
    address = project.get("urls", {}).get("Repository")
    return address.rstrip("/") if address else None


def repository_options() -> dict[str, Any]:
    """Return furo's options for links that edit a page."""
    address = repository()
    return {"source_repository": address + "/", "source_branch": "main", "source_directory": "docs/"} if address else {}


def source_of(value: Any) -> tuple[str, int] | None:
    """Return the file that defines a value, from the root of the repository, and the first line; None if it is elsewhere."""
    try:
        value = inspect.unwrap(value)
        path = Path(inspect.getsourcefile(value) or "").resolve().relative_to(ROOT)
        return path.as_posix(), inspect.getsourcelines(value)[1]
    except (AttributeError, TypeError, OSError, ValueError):
        return None


@functools.cache
def source_files() -> set[str]:
    """Return the files that define public classes and functions."""
    return {found[0] for found in (source_of(entry.value) for entry in api_pages.pages().values()) if found}


def linkcode_resolve(domain: str, info: dict[str, str]) -> str | None:
    """Return the address of the source of a documented name, as sphinx.ext.linkcode asks for it."""
    value: Any = importlib.import_module(info["module"])
    for part in info["fullname"].split("."):
        value = getattr(value, part, None)
    found = source_of(value)
    if found is None or found[0] not in source_files():
        return None
    address = repository()
    return f"{address}/blob/main/{found[0]}#L{found[1]}" if address else f"../../_source/{source_page(found[0])}#L-{found[1]}"


def source_page(path: str) -> str:
    """Return the address of the page of a source file below _source: `lamina_ir/_core/jaxpr.html`."""
    return Path(path.partition("/src/")[2]).with_suffix(".html").as_posix()


def write_sources(out: Path) -> None:
    """Write a page for each source file with public names; one that is newer than its file stays."""
    formatters = [HtmlFormatter(style=style, linenos="inline", lineanchors="L", anchorlinenos=True, wrapcode=True)
                  for style in CODE_STYLES]
    light, dark = (formatter.get_style_defs(".highlight") for formatter in formatters)
    style = (f"body {{ font-size: 14px; margin: 1em; }} h1 {{ font: bold 18px sans-serif; }} a {{ color: inherit; "
             f"text-decoration: none; }}\n{light}\n@media (prefers-color-scheme: dark) {{ body {{ background: #2b2b2b; "
             f"color: #f8f8f2; }}\n{dark} }}")
    for path in source_files():
        page = out / "_source" / source_page(path)
        if not page.exists() or page.stat().st_mtime < (ROOT / path).stat().st_mtime:
            page.parent.mkdir(parents=True, exist_ok=True)
            code = highlight((ROOT / path).read_text(encoding="utf-8"), PythonLexer(), formatters[0])
            page.write_text(f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{path}</title>'
                            f'<meta name="viewport" content="width=device-width"><style>{style}</style></head>\n'
                            f"<body><h1>{path}</h1>\n{code}</body></html>\n", encoding="utf-8")


# Inventories of other projects

def write_inventory(path: Path, project: str, lines: list[str]) -> str:
    """Write an inventory for intersphinx."""
    head = f"# Sphinx inventory version 2\n# Project: {project}\n# Version: \n# The remainder is compressed using zlib.\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(head.encode() + zlib.compress("\n".join(lines).encode() + b"\n"))
    return str(path)


def inventories() -> dict[str, tuple[str, str]]:
    """Return the setting `intersphinx_mapping`: names of NumPy and Python, from what is installed, without network."""
    import builtins

    import numpy
    folder = ROOT / ".cache" / "site" / "inventories"
    functions = [f"{m.__name__}.{name}" for m in (numpy, numpy.linalg, numpy.fft) for name in m.__all__
                 if callable(getattr(m, name)) and not inspect.isclass(getattr(m, name))]
    in_numpy = [f"{name} py:function 1 reference/generated/{name}.html#$ -" for name in functions]
    errors = [name for name, value in vars(builtins).items() if inspect.isclass(value) and issubclass(value, BaseException)]
    in_python = [f"{name} py:exception 1 library/exceptions.html#$ -" for name in errors]
    in_python += [f"{name} py:class 1 library/functions.html#$ -" for name in ("bool", "complex", "dict", "float", "int")]
    return {"numpy": (NUMPY, write_inventory(folder / "numpy.inv", "NumPy", in_numpy)),
            "python": (PYTHON, write_inventory(folder / "python.inv", "Python", in_python))}


# Pages in Markdown

def outside_code(text: str, change: Callable[[str], str]) -> str:
    """Return a Markdown text changed between its code blocks, which lose empty lines at their ends."""
    parts = re.split(r"(^```.*?^```[^\n]*$)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(re.sub(r"\n+```$", "\n```", part) if part.startswith("```") else change(part) for part in parts)


def with_repository_links(text: str, page: str) -> str:
    """Return a page with its links to files outside of docs/ leading to the repository, or as plain text."""
    def change(match: re.Match[str]) -> str:
        path = os.path.normpath(DOCS / Path(page).parent / match[2])
        if Path(path).is_relative_to(DOCS) and Path(path).suffix in (".md", ".rst", ".svg", ".html"):
            return match[0]
        address = repository()
        kind = "tree" if Path(path).is_dir() else "blob"
        return f"[{match[1]}]({address}/{kind}/main/{os.path.relpath(path, ROOT)}{match[3] or ''})" if address else match[1]
    return outside_code(text, lambda part: LINK.sub(change, part))


def linked_pages(text: str, page: str, known: set[str]) -> list[str]:
    """Return the pages that a page links to in its own folder or in _generated, in order."""
    folder, found = Path(page).parent, []
    for _, target, _ in LINK.findall(re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)):
        name = os.path.normpath(folder / target).removesuffix(".md").removesuffix(".rst")
        inside = Path(name).is_relative_to(folder) or name.startswith("_generated/")
        if target.endswith(".md") and inside and name in known and name not in (page, *found):
            found.append(name)
    return found


def children(text: str, page: str, known: set[str]) -> list[str]:
    """Return the pages that belong under an index: those it links to, then the others of its folder by name."""
    if page == "index":
        folders = sorted({name.split("/")[0] for name in known if "/" in name and not name.startswith("_")} - set(SECTIONS))
        return [name for folder in (*SECTIONS, *folders) for name in
                ([f"{folder}/index"] if f"{folder}/index" in known else sorted(n for n in known if n.startswith(f"{folder}/")))]
    found = linked_pages(text, page, known)
    if not page.startswith("_generated/"):
        folder = page.removesuffix("index")
        found += [name for name in sorted(known) if name.startswith(folder) and name not in (page, *found)
                  and "/" not in name.removeprefix(folder).removesuffix("/index")]
    return found


def toctree_entry(page: str) -> str:
    """Return the line of a page in a table of contents; modules have the last part of their name as title."""
    module = page.removeprefix("_generated/api/lamina.")
    return f"/{page}" if module == page else f"{module.rpartition('.')[2]} </{page}>"


def read_source(app: Sphinx, page: str, content: list[str]) -> None:
    """Change the text of a page before it is parsed: repository links, the table of contents of an index."""
    if Path(app.env.doc2path(page)).suffix != ".md":
        return
    text = with_repository_links(content[0], page)
    if page.endswith("index") or page.startswith("_generated/"):
        below = children(content[0], page, set(app.env.found_docs))
        if page == "_generated/api/lamina":
            below = []  # the index lists these modules too
        if below:
            text += "\n\n```{toctree}\n:hidden:\n\n" + "\n".join(map(toctree_entry, below)) + "\n```\n"
    content[0] = text


# Docstrings

CODE = re.compile(r"(`+)((?:[^`\n]|\n(?!\s*\n))+?)\1(?!`)")
LABEL = re.compile(r"^(\s*)(\*{1,2}\w+)(?=[,:])", re.MULTILINE)
NOTE = re.compile(r"^(Derivative|Source): .*(?:\n.+)*?(?=\n\n|\n(?:Derivative|Source): |\Z)", re.MULTILINE)


def escape(text: str) -> str:
    """Return plain text without markup of reStructuredText; napoleon escapes the names of variadic parameters."""
    labels = {match.start(2): match.end(2) for match in LABEL.finditer(text)}
    protected = {at for start, end in labels.items() for at in range(start, end)}
    return re.sub(r"(?<=\w)_(?=\W|$)|[*|\\]", lambda m: m[0] if m.start() in protected else "\\" + m[0], text)


def as_rst(text: str) -> str:
    """Return a docstring without examples as reStructuredText: names and code in backticks, everything else escaped.

    `Derivative:` and `Source:` start paragraphs.
    """
    text = NOTE.sub(lambda m: "\n" + re.sub(r"\n\s+", "\n", m[0]), text)
    parts = CODE.split(text)  # text, backticks, code, text, ...
    found = []
    for at in range(0, len(parts), 3):
        found.append(escape(parts[at]))
        if at + 2 < len(parts):
            found.append(reference(" ".join(parts[at + 2].split())))
            found += ["\\ "] * bool(re.match(r"\w", parts[at + 3]))
    return re.sub(r"^(Derivative|Source):", r"**\1.**", "".join(found), flags=re.MULTILINE)


def reference(code: str) -> str:
    """Return code as a link if it is a public name or a function of NumPy, else as a literal."""
    name = code.removesuffix("()")
    if name in api_pages.pages() or re.fullmatch(r"numpy(\.linalg|\.fft)?\.\w+", name):
        return f":py:obj:`{name}`"
    return f"``{code}``"


def process_docstring(app: Sphinx, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Convert a docstring for autodoc, before napoleon reads its sections; examples stay as they are."""
    parts = re.split(r"(^[ ]*>>> .*(?:\n.+)*)", "\n".join(lines), flags=re.MULTILINE)
    lines[:] = "".join(part if part.lstrip().startswith(">>>") else as_rst(part) for part in parts).splitlines()


def process_signature(app: Sphinx, what: str, name: str, value: Any, options: Any, signature: str | None, result: str | None
                      ) -> tuple[str | None, str | None]:
    """Write the names of `autodoc_type_aliases` in unions; Sphinx 9 writes its placeholder for them."""
    return tuple(text and re.sub(r"TypeAliasForwardRef\('(\w+)'\)", r"\1", text) for text in (signature, result))  # type: ignore


@functools.cache
def pages_by_last_name() -> dict[str, list[str]]:
    """Return the pages of the API by the last part of their names."""
    found: dict[str, list[str]] = {}
    for page in api_pages.pages():
        found.setdefault(page.rpartition(".")[2], []).append(page)
    return found


def unlink_type_variables(app: Sphinx, doctree: nodes.document) -> None:
    """Make `P` in signatures text: it is a type variable, not `lamina.P`."""
    for node in list(doctree.findall(addnodes.pending_xref)):
        if node.get("refdomain") == "py" and re.fullmatch("[A-Z]", node["reftarget"]) and node.parent is not None:
            node.replace_self(node.children)


def resolve_name(app: Sphinx, env: BuildEnvironment, node: Any, content: nodes.Node) -> nodes.Node | None:
    """Link the short name of a type in a signature to its page; a name without a page stays text."""
    target = node["reftarget"]
    if node.get("refdomain") != "py":
        return None
    named = pages_by_last_name().get(target.rpartition(".")[2], [])
    found = [page for page in named if inspect.isclass(api_pages.pages()[page].value)]
    if len(found) == 1:
        uri = app.builder.get_relative_uri(node["refdoc"], f"_generated/api/{found[0]}")
        return nodes.reference("", "", content, internal=True, refuri=uri)
    return content


def small_navigation(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.Node | None) -> None:
    """Show only the branch of its module in the navigation of an API page; all branches would double the size of the site."""
    if page.startswith("_generated/api/"):
        name = page.removeprefix("_generated/api/")
        parent = f"_generated/api/{api_pages.pages()[name].module}" if name in api_pages.pages() else page
        context["toctree"] = lambda **options: branch(app, parent)


BRANCHES: dict[str, str] = {}


def branch(app: Sphinx, page: str) -> str:
    """Return the table of contents of the site with only the branch of a page open."""
    if page not in BRANCHES:
        builder: Any = app.builder
        BRANCHES[page] = builder._get_local_toctree(page, collapse=True, titles_only=True, maxdepth=-1, includehidden=True)
    return BRANCHES[page]


# Markdown twins

def twin(app: Sphinx, page: str) -> str:
    """Return a page as Markdown."""
    if page.startswith("_generated/api/") and (name := page.removeprefix("_generated/api/")) in api_pages.pages():
        return api_pages.markdown_page(name)
    text = with_repository_links(Path(app.env.doc2path(page)).read_text(encoding="utf-8"), page)
    return outside_code(text, lambda part: LINK.sub(lambda m: m[0].replace(".rst", ".md"), part))


def write_twins(app: Sphinx, error: Exception | None) -> None:
    """Write the Markdown twin of each page, llms.txt and llms-full.txt."""
    if error or app.builder.format != "html":
        return
    if not repository():
        write_sources(Path(app.outdir))
    out, texts = Path(app.outdir), {page: twin(app, page) for page in sorted(app.env.found_docs)}
    for page, text in texts.items():
        (out / f"{page}.md").write_text(text, encoding="utf-8")
    summary = "> Transformations and compilation of functions of arrays, with JAX's interface, on one device or many."
    listed, full = ["# lamina", "", summary, ""], []
    for folder in (*SECTIONS, "_generated"):
        pages = [page for page in order(app) if page.split("/")[0] == folder]
        listed += [f"## {folder.strip('_').capitalize()}", ""] * bool(pages)
        listed += [f"- [{app.env.titles[page].astext()}]({page}.md)" for page in pages] + [""] * bool(pages)
        full += [texts[page] for page in pages]
    (out / "llms.txt").write_text("\n".join(listed), encoding="utf-8")
    full += [text for page, text in texts.items() if page not in order(app)]
    (out / "llms-full.txt").write_text("\n\n".join(full), encoding="utf-8")


def order(app: Sphinx, page: str = "index") -> list[str]:
    """Return a page and all pages below it, in the order of the tables of contents."""
    return [page, *(found for child in app.env.toctree_includes.get(page, []) for found in order(app, child))]


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("source-read", read_source)
    app.connect("autodoc-process-docstring", process_docstring, priority=400)
    app.connect("autodoc-process-signature", process_signature)
    app.connect("html-page-context", small_navigation, priority=400)
    app.connect("doctree-read", unlink_type_variables)
    app.connect("missing-reference", resolve_name, priority=900)
    app.connect("build-finished", write_twins)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
