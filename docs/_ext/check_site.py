"""Check the built site: its links, its Markdown twins, and some pages in Chromium; print one line for each fault.

usage: python docs/_ext/check_site.py [--screenshots FOLDER] [FOLDER]

- Every internal link of every page names a page and an anchor that exist, and every page can be reached from the first one.
- Every page has a Markdown twin, and llms.txt names only pages that exist.
- Ten pages are opened in headless Chromium: a message on the console or an empty page is a fault. The search must find a name.
  If there is no Chromium, root installs Debian's package; without it this part is skipped. `--screenshots` writes a picture
  of each page, wide and as on a phone.
"""
from __future__ import annotations

import argparse
import functools
import html
import http.server
import os
import posixpath
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "out" / "site"
LINK = re.compile(r'<(?:a|link|img|script|source)\b[^>]*?\b(?:href|src)="([^"]*)"')
ANCHOR = re.compile(r'\b(?:id|name)="([^"]+)"')
PAGES = ("index", "how-to/index", "how-to/derivatives", "how-to/several-processes/processes", "reference/op-conventions",
         "design/architecture", "coming-from/numpy", "_generated/api/lamina.numpy", "_generated/api/lamina.jit")
SEARCH = ("search.html?q=vmap", "lamina.vmap.html#lamina.vmap")  # an address, and a link that its scripts must add
PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "chrome")
WIDTHS = {"wide": "1400,1000", "phone": "390,1000"}
SECONDS = 60  # for one page on a busy machine


class Page:
    """The links and anchors of a page."""

    def __init__(self, path: Path) -> None:
        text = path.read_text(encoding="utf-8")
        self.links = {html.unescape(link) for link in LINK.findall(text)}
        self.anchors = {html.unescape(anchor) for anchor in ANCHOR.findall(text)}


def read_pages(site: Path) -> dict[str, Page]:
    """Return the pages of a site by their addresses."""
    return {path.relative_to(site).as_posix(): Page(path) for path in sorted(site.rglob("*.html"))
            if path.relative_to(site).parts[0] != "_static"}


def target(page: str, link: str) -> tuple[str, str] | None:
    """Return the file and the anchor that a link of a page leads to, or None if it leads to another site."""
    if re.match(r"[a-z]+:|//", link):
        return None
    name, _, anchor = link.partition("#")
    name = unquote(name.split("?")[0])
    return (posixpath.normpath(posixpath.join(posixpath.dirname(page), name)) if name else page), unquote(anchor)


def broken_links(site: Path, pages: dict[str, Page]) -> Iterator[str]:
    """Yield a line for each internal link that leads nowhere, and for each page that no link reaches."""
    exists = functools.cache(lambda name: (site / name).is_file())
    reached = {"index.html"}
    for name, page in pages.items():
        for file, anchor in filter(None, (target(name, link) for link in sorted(page.links))):
            reached.add(file)
            if not exists(file):
                yield f"{name}: no file {file}"
            elif anchor and file in pages and anchor not in pages[file].anchors:
                yield f"{name}: no anchor {file}#{anchor}"
    for name in sorted(set(pages) - reached):
        yield f"{name}: no page links to it"


def missing_twins(site: Path, pages: dict[str, Page]) -> Iterator[str]:
    """Yield a line for each page without a Markdown twin, and for each line of llms.txt that names no page."""
    for name in pages:
        without = name.startswith(("_source/", "genindex", "py-modindex", "search"))
        if not without and not (site / name).with_suffix(".md").is_file():
            yield f"{name}: no Markdown twin"
    listed = re.findall(r"\]\((.+?)\)", (site / "llms.txt").read_text(encoding="utf-8"))
    yield from (f"llms.txt: no file {name}" for name in listed if not (site / name).is_file())
    if not listed:
        yield "llms.txt: empty"


def find_chromium() -> str | None:
    """Return the path of Chromium; install Debian's package if this is root on Debian and there is none."""
    found = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if found or not shutil.which("apt-get") or not hasattr(os, "geteuid") or os.geteuid():
        return found
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "stdin": subprocess.DEVNULL}
    try:
        for arguments in (["install"], ["update"], ["install"]):
            more = ["-y", "--no-install-recommends", "chromium"] if arguments == ["install"] else []
            limits = ["-o", "Acquire::Retries=0", "-o", "Acquire::http::Timeout=20"]
            done = subprocess.run(["apt-get", "-qq", *limits, *arguments, *more], timeout=240,
                                  env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"}, **quiet)
            if done.returncode == 0 and shutil.which("chromium"):
                break
    except (OSError, subprocess.TimeoutExpired):
        return None
    return shutil.which("chromium")


def browse(program: str, address: str, *arguments: str) -> tuple[str, str]:
    """Open a page, run its scripts, and return its elements and what Chromium logged."""
    with tempfile.TemporaryDirectory() as profile:
        done = subprocess.run(
            [program, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage",
             "--no-first-run", "--disable-background-networking", f"--user-data-dir={profile}", "--enable-logging=stderr",
             "--virtual-time-budget=4000", *arguments, address],
            capture_output=True, text=True, errors="replace", timeout=SECONDS, stdin=subprocess.DEVNULL)
    return done.stdout, done.stderr


def faults_of_page(program: str, server: str, page: str, expected: str = "") -> Iterator[str]:
    """Yield a line for each message on the console of a page, and one if the page shows too little."""
    try:
        elements, log = browse(program, f"{server}/{page}", "--dump-dom")
    except subprocess.TimeoutExpired:
        yield f"{page}: not open after {SECONDS} s"
        return
    for message in re.findall(r":CONSOLE[:(]\d+\)?\] (.*)", log):
        yield f"{page}: console: {message}"
    body = re.search(r"<article.*?</article>", elements, re.DOTALL)
    text = re.sub(r"<script.*?</script>|<[^>]*>|\s+", " ", body[0] if body else "", flags=re.DOTALL)
    if len(text.split()) < 20:
        yield f"{page}: empty in Chromium"
    elif expected and f'{expected}"' not in elements:
        yield f"{page}: no link to {expected}"


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serve files without a log."""

    def log_message(self, format: str, *args: object) -> None:
        pass


def browser_faults(site: Path, program: str, screenshots: Path | None) -> list[str]:
    """Open the pages in Chromium; return a line for each fault."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}"
        jobs = [*((f"{page}.html", "") for page in PAGES), SEARCH]
        with ThreadPoolExecutor(2) as pool:
            found = list(pool.map(lambda job: list(faults_of_page(program, address, *job)), jobs))
        if screenshots:
            screenshots.mkdir(parents=True, exist_ok=True)
            for (page, _), (name, size) in ((job, width) for job in jobs for width in WIDTHS.items()):
                path = screenshots / f"{re.sub(r'[^a-z.-]', '_', page.lower())}-{name}.png"
                browse(program, f"{address}/{page}", f"--window-size={size}", f"--screenshot={path}")
        server.shutdown()
    return [fault for faults in found for fault in faults]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("site", nargs="?", type=Path, default=SITE)
    parser.add_argument("--screenshots", type=Path, help="folder for pictures of the pages")
    options = parser.parse_args(argv)
    pages = read_pages(options.site)
    found = [*broken_links(options.site, pages), *missing_twins(options.site, pages)]
    program = find_chromium()
    if program:
        found += browser_faults(options.site, program, options.screenshots)
    opened = f"{len(PAGES) + 1} opened in Chromium" if program else "no Chromium, so none was opened"
    print("\n".join(found) or f"site: {len(pages)} pages ok, {opened}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
