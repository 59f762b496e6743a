# SPDX-License-Identifier: BSD-2-Clause
# links.py SITE: each link of the site leads to a file and an anchor that exist, no page loads anything from a host, each
# picture has a text, each page is listed in the sidebar of the start page, and the search index has the calls.
import os
import re
import sys
import urllib.parse
from html.parser import HTMLParser


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.loads, self.faults = set(), [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if "id" in attrs:
            if attrs["id"] in self.ids:
                self.faults.append(f"two elements have the id {attrs['id']}")
            self.ids.add(attrs["id"])
        if tag == "a" and "href" in attrs:
            self.links.append(attrs["href"])
        elif tag in ("img", "script", "source", "iframe") and "src" in attrs or tag == "link":
            self.loads.append(attrs.get("src") or attrs.get("href"))
        if tag == "img" and not attrs.get("alt", "").strip():
            self.faults.append(f"no text for the picture {attrs.get('src')}")
        if tag == "img" and attrs.get("alt", "").endswith(".svg"):
            self.faults.append(f"a file's name as the text of {attrs.get('src')}")


def main():
    site = os.path.abspath(sys.argv[1])
    pages = {}
    for folder, _, names in os.walk(site):
        for name in names:
            if name.endswith(".html"):
                path = os.path.join(folder, name)
                with open(path, encoding="utf-8") as file:
                    pages[path] = Page(file.read())
    faults = [f"{os.path.relpath(path, site)}: {fault}" for path, page in pages.items() for fault in page.faults]
    checked, reached = 0, set()
    for path, page in pages.items():
        for link in page.links + page.loads:
            where = urllib.parse.urlsplit(link)
            target = os.path.normpath(os.path.join(os.path.dirname(path), urllib.parse.unquote(where.path)))
            target = target if where.path else path
            fault = None
            if where.scheme or where.netloc:
                if link in page.loads:
                    fault = "is loaded from a host"
            elif not os.path.exists(target):
                fault = "does not exist"
            elif where.fragment and target in pages and urllib.parse.unquote(where.fragment) not in pages[target].ids:
                fault = "has no such anchor"
            checked += 1
            reached.add(target)
            if fault:
                faults.append(f"{os.path.relpath(path, site)}: {link} {fault}")
    for folder, _, names in os.walk(os.path.join(site, "_static")):
        for name in names:
            if name.endswith(".css"):
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    faults += [f"{name}: {found}" for found in re.findall(r"@import[^;]*|url\(['\"]?(?:https?:)?/[^)]*", file.read())]
    faults += [f"{os.path.relpath(path, site)} is reached by no link" for path in pages if path not in reached]
    with open(os.path.join(site, "searchindex.js"), encoding="utf-8") as file:
        index = file.read()
    faults += [f"the search does not know {call}" for call in ("fi_connect", "fi_getinfo", "fi_cq_read") if call not in index]
    print("\n".join(faults + [f"{len(pages)} pages, {checked} links: {len(faults)} faults"]))
    return bool(faults) or len(pages) < 90


sys.exit(main())
