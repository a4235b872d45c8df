"""Settings of Sphinx for the site."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
# The pages of the gallery show neither bars of progress nor what Paddle says on import.
os.environ.setdefault("TQDM_DISABLE", "1")
warnings.filterwarnings("ignore", "No ccache found")
# One of the examples cuts its grid over the devices of JAX.
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=2")

import kernelcore  # noqa: E402
from tools.builtin_table import builtin_tables  # noqa: E402

project = "kernelcore"
author = "The kernelcore developers"
version = release = kernelcore.__version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.intersphinx",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
html_show_copyright = False
html_theme = "furo"
html_title = f"kernelcore {version}"
exclude_patterns = ["reference/generated"]
suppress_warnings = ["config.cache"]

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "none"
napoleon_google_docstring = True
napoleon_numpy_docstring = False

# Names of other projects are links where their inventories can be fetched.
intersphinx_mapping = (
    {
        "python": ("https://docs.python.org/3", None),
        "numpy": ("https://numpy.org/doc/stable", None),
        "torch": ("https://docs.pytorch.org/docs/stable", None),
        "jax": ("https://docs.jax.dev/en/latest", None),
    }
    if os.environ.get("KC_DOCS_INTERSPHINX")
    else {}
)


sphinx_gallery_conf = {
    "examples_dirs": str(ROOT / "examples"),
    "gallery_dirs": "gallery",
    "filename_pattern": r"/\d\d_",
    "ignore_pattern": "distributed",
    "download_all_examples": False,
    "within_subsection_order": "FileNameSortKey",
    "show_memory": False,
    "write_computation_times": False,
    "matplotlib_animations": (True, "jshtml"),
    "plot_gallery": os.environ.get("KC_DOCS_GALLERY", "1") == "1",
}


def write_tables(app: Sphinx) -> None:
    """Write the tables of built-ins, which pages of the reference include."""
    folder = Path(app.srcdir, "reference", "generated")
    folder.mkdir(exist_ok=True)
    for module, text in builtin_tables().items():
        page = folder / f"{module.rpartition('.')[2]}.md"
        if not page.exists() or page.read_text() != text:
            page.write_text(text)


def hide_decisions(app: Sphinx, _tree: object) -> None:
    """Keep decisions out of the sidebar of every page: the list of them links to each."""
    page = app.env.docname
    if page.startswith("decisions/") and page != "decisions/README":
        app.env.metadata[page]["orphan"] = "true"


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("doctree-read", hide_decisions)
    app.connect("builder-inited", write_tables)
