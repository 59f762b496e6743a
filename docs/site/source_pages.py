# SPDX-License-Identifier: BSD-2-Clause
# Sphinx extension: manual pages and programs as pages of the site. mandoc turns a manual page into HTML, whose sections
# become sections of the page; fi_cm(3) in the text of any page is a link, and a search for a call finds its manual page.
import html
import itertools
import os
import re
import subprocess
import xml.etree.ElementTree as tree

from docutils import nodes
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import CLexer
from sphinx.parsers import Parser
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.nodes import make_refnode

REFERENCE = re.compile(r"\b(k?fi_\w+|fabric)\(([137])\)")
# Macros of a synopsis that name something: those for which CMakeLists.txt of docs/man writes links.
NAMED = re.compile(r'^\.(?:Nm|Fn|Fo|Vt "(?:struct|enum)) (\w+)', re.M)


class Manual:
    """The manual pages of a folder: where each name is described."""

    def __init__(self, folder):
        self.page_of = {}
        self.summary = {}
        for file in sorted(os.listdir(folder)):
            match = re.fullmatch(r"(\w+)\.([137])\.mdoc", file)
            if not match:
                continue
            name, section = match.groups()
            with open(os.path.join(folder, file), encoding="utf-8") as page:
                text = page.read()
            self.page_of[name, section] = f"{name}.{section}", ""
            summary = re.search(r"^\.Nd (.*)", text, re.M).group(1)
            self.summary[f"{name}.{section}"] = re.sub(r"\\&|\\", "", summary)
            if section == "3":
                for alias in NAMED.findall(text.split("\n.Sh DESCRIPTION")[0]):
                    self.page_of.setdefault((alias, "3"), (f"{name}.3", alias))

    def uri(self, name, section):
        """The address within the folder of the pages, or None for a page of another package."""
        page, anchor = self.page_of.get((name, section), (None, None))
        return page and f"{page}.html" + (f"#{anchor}" if anchor else "")


def text_of(element):
    return "".join(element.itertext())


def classes_of(element):
    return element.get("class", "").split()


def highlighted(code):
    lines = highlight(code, CLexer(), HtmlFormatter(nowrap=True))
    return f'<div class="highlight-c notranslate"><div class="highlight"><pre>{lines}</pre></div></div>'


class ManualPage:
    """One page as a tree of HTML, changed to the looks of the site."""

    def __init__(self, manual, name, section, path):
        self.manual, self.name, self.section = manual, name, section
        command = ["mandoc", "-T", "html", "-O", "fragment,man=%N.%S", path]
        text = subprocess.run(command, check=True, capture_output=True, encoding="utf-8").stdout
        self.body = tree.fromstring(f"<body>{text}</body>".replace("&nbsp;", "&#160;"))
        self.ids = {element.get("id") for element in self.body.iter()}
        self.named = []
        for element in list(self.body.iter("a")):
            if "Xr" in classes_of(element):
                self.link(element)
            elif "href" not in element.attrib:  # a header's name
                element.tag = "span"

    def link(self, element):
        uri = self.manual.uri(*element.get("href").rsplit(".", 1))
        if uri:
            element.set("href", uri)
        else:  # a page of another package
            element.tag = "span"
            del element.attrib["href"]

    def name_synopsis(self, section):
        """Anchors for the names that the synopsis introduces."""
        for element in section.iter():
            name = text_of(element).split()[-1] if text_of(element).strip() else ""
            if not {"Fn", "Vt"} & set(classes_of(element)) or self.manual.page_of.get((name, "3")) != (
                    f"{self.name}.3", name):
                continue
            if name not in self.named:
                self.named.append(name)
            if name not in self.ids:
                element.set("id", name)
                self.ids.add(name)

    def markup(self, element):
        """The HTML of an element, with code in colours and with tables that may scroll."""
        text = tree.tostring(element, encoding="unicode", method="html")
        text = re.sub(r'<div class="Bd[^"]*Li">\s*<pre>(.*?)</pre>\s*</div>',
                      lambda match: highlighted(html.unescape(re.sub(r"<[^>]*>", "", match.group(1)))), text, flags=re.S)
        return re.sub(r'(<table class="Bl-column.*?</table>)', r'<div class="table-wrapper">\1</div>', text, flags=re.S)

    def content(self, element, level):
        """The nodes of a section: HTML, and the sections within it."""
        result = []
        for child in element:
            if child.tag == "section":
                result.append(self.section_node(child, level + 1))
            elif child.tag not in ("h1", "h2"):
                result.append(nodes.raw("", self.markup(child), format="html"))
        return result

    def section_node(self, element, level):
        heading = element.find("h1" if level == 1 else "h2")
        title = " ".join(text_of(heading).split())
        if level == 1:
            if title == "SYNOPSIS":
                self.name_synopsis(element)
            title = title.capitalize()
        node = nodes.section("", nodes.title("", title), ids=[heading.get("id")], classes=[f"man-{title.lower()}"])
        node.extend(self.content(element, level))
        return node

    def document(self):
        title = f"{self.name}({self.section})"
        page = nodes.section("", nodes.title("", title), ids=["top"], classes=["man"])
        summary = self.manual.summary[f"{self.name}.{self.section}"]
        page.append(nodes.paragraph("", summary[0].upper() + summary[1:] + ".", classes=["lead"]))
        for element in self.body.iter("section"):
            if "Sh" in classes_of(element) and element.find("h1").get("id") not in ("NAME", "LIBRARY"):
                page.append(self.section_node(element, 1))
        return page


def manual_of(env):
    if not hasattr(env, "weft_manual"):
        env.weft_manual = Manual(os.path.join(env.srcdir, "man"))
    return env.weft_manual


class ManualParser(Parser):
    supported = ("mdoc",)

    def parse(self, inputstring, document):
        name, section = os.path.basename(self.env.docname).rsplit(".", 1)
        page = ManualPage(manual_of(self.env), name, section, self.env.doc2path(self.env.docname))
        document.append(page.document())
        for named in page.named:
            self.env.get_domain("std").note_object("call", named, named, location=document)


class SourceParser(Parser):
    """A program, whose first comment becomes the page's text."""
    supported = ("source",)

    def parse(self, inputstring, document):
        name = os.path.basename(self.env.docname)
        page = nodes.section("", nodes.title("", name), ids=["top"])
        page.append(nodes.literal_block(inputstring, inputstring, language="c"))
        document.append(page)


class ManualReferences(SphinxPostTransform):
    """fi_cm(3) in the text of a page links to the manual page."""
    default_priority = 400
    formats = ("html",)

    def run(self, **kwargs):
        manual = manual_of(self.env)
        folder = "../" * self.env.docname.count("/") + "man/"
        for node in list(self.document.findall(nodes.Text)):
            if isinstance(node.parent, (nodes.literal, nodes.literal_block, nodes.raw, nodes.title, nodes.reference)):
                continue
            parts, end = [], 0
            for match in REFERENCE.finditer(node):
                uri = manual.uri(*match.groups())
                if uri:
                    parts += [nodes.Text(node[end:match.start()]),
                              nodes.reference("", match.group(), refuri=folder + uri, internal=True)]
                    end = match.end()
            if parts:
                node.parent.replace(node, parts + [nodes.Text(node[end:])])


def sections_of(folder, env):
    """The lists of the pages that have no Markdown: manual pages, with their own summaries, and programs."""
    manual = manual_of(env)
    if folder == "man":
        for section, title in {"3": "Calls", "7": "Concepts and providers", "1": "Programs"}.items():
            pages = [page for page in manual.summary if page.endswith("." + section)]
            rows = [(f"{page[:-2]}({section})", manual.summary[page]) for page in pages]
            yield title, pages, rows
    else:
        pages = sorted(name.removesuffix(".source") for name in os.listdir(os.path.join(env.srcdir, folder))
                       if name.endswith(".source"))
        yield "", pages, [(f"[{page}]({page})", purpose_of(os.path.join(env.srcdir, folder, page))) for page in pages]


def purpose_of(path):
    """The first comment of a program, without its name and the manual pages at its end."""
    with open(path + ".source", encoding="utf-8") as source:
        lines = source.read().split("\n")[1:]
    comment = " ".join(line[2:].strip() for line in itertools.takewhile(lambda line: line.startswith("//"), lines))
    return re.sub(r"^\w+: ", "", comment).split(";")[0].split(". ")[0].rstrip(".")


def write_index(app):
    """Pages that list the others of their folder."""
    openings = {
        "man": "# Manual pages\n\nThe same pages are installed: `man fi_connect` shows the page of that call.\n",
        "examples": "# Examples\n\nWhole programs. The tests compile and run each of them.\n",
    }
    for folder, text in openings.items():
        for title, pages, rows in sections_of(folder, app.env):
            text += f"\n## {title}\n" if title else ""
            text += "\n| | |\n|---|---|\n" + "".join(f"| {name} | {summary} |\n" for name, summary in rows)
            text += "\n".join(["", "```{toctree}", ":hidden:", *pages, "```", ""])
        with open(os.path.join(app.srcdir, folder, "index.md"), "w", encoding="utf-8") as index:
            index.write(text)


def add_contents(app, docname, source):
    for caption, pages in app.config.contents.get(docname, {}).items():
        options = [":hidden:", ":glob:"] + ([f":caption: {caption}"] if caption else [])
        source[0] += "\n".join(["", "```{toctree}", *options, *pages, "```", ""])


def find_page(app, env, node, contnode):
    """A link to a file or folder that is a page here: ../examples/client.c, the manual page ../man/fi_cm.3, ../man."""
    name = os.path.normpath(os.path.join(os.path.dirname(node.get("refdoc", "")), node["reftarget"]))
    for docname in (name, f"{name}/index"):
        if docname in env.found_docs:
            return make_refnode(app.builder, node["refdoc"], docname, None, contnode)
    return None


# The files of Furo as Debian has them need a server: the script is a module that imports another one, which this extension
# loads first, and the stylesheet imports the server's own normalize.css, which site.css replaces. In its pages, headings
# of the sidebar have no level, landmarks no names, the page of the search no heading, and what scrolls is out of reach of
# the keyboard. Empty cells are no headings of a table.
ADAPTATIONS = {
    "furo.js": [(r"^import .*\n", "")],
    "furo.css": [(r"@import [^;]*;", "")],
    ".html": [
        (r'role="heading"', 'role="heading" aria-level="2"'),
        (r'<aside class="sidebar-drawer"', r'\g<0> aria-label="Pages"'),
        (r'<aside class="toc-drawer', r'<aside aria-label="On this page" class="toc-drawer'),
        (r'<div id="search-results">', r"<h1>Search</h1>\g<0>"),
        (r'<th class="head[^>]*><p></p></th>', "<td></td>"),
        (r"<pre>", '<pre tabindex="0">'),
        (r'<div class="table-wrapper[^"]*"', r'\g<0> tabindex="0"'),
    ],
}


def adapt_theme(app, exception):
    if exception is not None:
        return
    for folder, _, names in os.walk(app.outdir):
        for name in names:
            path = os.path.join(folder, name)
            for suffix, changes in ADAPTATIONS.items():
                if name.endswith(suffix):
                    with open(path, encoding="utf-8") as file:
                        text = file.read()
                    for pattern, replacement in changes:
                        text = re.sub(pattern, replacement, text, flags=re.M)
                    with open(path, "w", encoding="utf-8") as file:
                        file.write(text)


def setup(app):
    app.add_source_parser(ManualParser)
    app.add_source_parser(SourceParser)
    app.add_object_type("call", "call", objname="manual page")
    app.add_post_transform(ManualReferences)
    app.add_js_file("scripts/gumshoe-patched.js", priority=100)
    app.add_config_value("contents", {}, "env")
    app.connect("builder-inited", write_index)
    app.connect("source-read", add_contents)
    app.connect("missing-reference", find_page)
    app.connect("build-finished", adapt_theme)
    return {"version": "1"}
