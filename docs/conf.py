"""Settings of Sphinx for `nox -s site`; docs/_ext/sphinx_site.py has the code. Run docs/_ext/build_docs.py before."""
from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "_ext"))
import sphinx_site

project = "lamina"
author = "The lamina authors"
copyright = f"{author}; Apache-2.0"
version = release = sphinx_site.version()
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.intersphinx", "sphinx.ext.linkcode",
              "sphinx_copybutton", "sphinx_site"]
exclude_patterns = ["**/.*", "**/solutions/*"]
root_doc = "index"
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
nitpicky = True  # sphinx_site resolves the short names of types in signatures
highlight_language = "text"
smartquotes_action = "D"  # only dashes

myst_heading_anchors = 4  # as on GitHub
myst_linkify_fuzzy_links = False

default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_type_aliases = {name: name for name in ("ArrayLike", "AxisLike", "DTypeLike")}
autodoc_default_options = {"exclude-members": "__init__, __new__"}
python_maximum_signature_line_length = 100
napoleon_numpy_docstring = False
napoleon_use_ivar = True
linkcode_resolve = sphinx_site.linkcode_resolve
intersphinx_mapping = sphinx_site.inventories()

html_theme = "furo"
pygments_style = sphinx_site.CODE_STYLES[0]
pygments_dark_style = sphinx_site.CODE_STYLES[1]
html_title = "lamina"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = sphinx_site.repository_options()
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_exclude = ".linenos, .go"
