# SPDX-License-Identifier: BSD-2-Clause
# The site: docs/ by Sphinx with MyST (Markdown) and the theme Furo. build.sh runs it on a copy of docs/, whose manual
# pages and examples end in .mdoc and .source.
import os
import sys

sys.path.insert(0, os.path.dirname(__file__))

project = "weft"
html_title = "weft"
root_doc = "index"
extensions = ["myst_parser", "source_pages"]
source_suffix = {".md": "markdown", ".mdoc": "mdoc", ".source": "source"}
exclude_patterns = ["site"]

# The pages in the order of the sidebar, and those below a page. They stand here, so that the pages stay plain Markdown.
contents = {
    "index": {
        "Guide": ["guide/first-connection", "guide/rma", "guide/tags", "guide/multicast", "runtimes", "guide/errors",
                  "guide/sleeping", "threading", "guide/migrating"],
        "Using weft": ["packages", "providers/README", "tools", "limits", "kfabric", "performance/README"],
        "Reference": ["man/index", "conformance", "examples/index"],
        "Inside": ["architecture", "decisions/README", "testing", "soft-roce", "adapters", "add-a-provider",
                   "add-a-parameter", "follow-a-release", "style", "contributing"],
    },
    "providers/README": {"": ["tcp", "rxm", "udp", "verbs", "verbs-errors"]},
    "performance/README": {"": ["local", "udp", "verbs", "rdm", "reliable", "ud", "mpi"]},
    "decisions/README": {"": ["0*"]},
    "conformance": {"": ["beyond-the-manual"]},
}

# Anchors of headings are those that other renderers of Markdown make.
myst_heading_anchors = 4
# Man pages and quoted output have no language.
highlight_language = "text"
smartquotes = False

html_theme = "furo"
html_static_path = ["site.css"]
html_css_files = ["site.css"]
light = {
    "color-foreground-primary": "#1f2328",
    "color-foreground-secondary": "#4a5058",
    "color-foreground-muted": "#5c636b",
    "color-background-secondary": "#f6f8fa",
    "color-background-border": "#dfe3e8",
    "color-brand-primary": "#0b57a4",
    "color-brand-content": "#0b57a4",
    "color-code-background": "#f6f8fa",
    "color-code-foreground": "#1f2328",
}
# All of the theme's dark colours: the stylesheet that Debian compiles has them for the switch only, and not for systems
# that prefer dark.
dark = {
    "color-problematic": "#ff8b8b",
    "color-foreground-primary": "#dde3e9",
    "color-foreground-secondary": "#b3bcc6",
    "color-foreground-muted": "#9aa5b1",
    "color-foreground-border": "#6b7680",
    "color-background-primary": "#14181c",
    "color-background-secondary": "#1a1f24",
    "color-background-hover": "#222930",
    "color-background-hover--transparent": "#22293000",
    "color-background-border": "#323a42",
    "color-background-item": "#444c55",
    "color-brand-primary": "#7db7f0",
    "color-brand-content": "#7db7f0",
    "color-highlighted-background": "#1f3f63",
    "color-highlight-on-target": "#2b3a1f",
    "color-api-keyword": "#b3bcc6",
    "color-admonition-background": "#1a1f24",
    "color-card-background": "#1a1f24",
    "color-code-background": "#1c2127",
    "color-code-foreground": "#dde3e9",
}
for colours in light, dark:
    colours.update({
        "color-sidebar-link-text--top-level": "var(--color-foreground-secondary)",
        "color-sidebar-caption-text": "var(--color-foreground-muted)",
        "font-stack": "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'DejaVu Sans', sans-serif",
    })
html_theme_options = {"light_css_variables": light, "dark_css_variables": dark}
pygments_style = "xcode"
pygments_dark_style = "github-dark"
html_copy_source = False
html_show_copyright = False
html_use_index = False
# Results of a search have no excerpts: a page that was opened as a file may not read the others.
html_show_search_summary = False
