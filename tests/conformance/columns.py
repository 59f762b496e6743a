# SPDX-License-Identifier: BSD-2-Clause
# columns.py KIND NAME=REPORT...: the tables of docs/conformance.md (KIND manual) and the list of docs/beyond-the-manual.md
# (KIND beyond) from documents of fi_conform --json. The reports of one name form a column; there are two names.
import collections
import json
import re
import sys
import textwrap

names, reports = [], collections.defaultdict(dict)
texts = {}
wanted = sys.argv[1]
for word in sys.argv[2:]:
    name, file = word.split("=", 1)
    if name not in names:
        names.append(name)
    with open(file, encoding="utf-8") as document:
        for result in json.load(document)["results"]:
            key = (result["page"], result["id"], result["target"])
            reports[name][key] = result
            texts[result["id"]] = result
first, second = names
compared = {key for name in names for key in reports[name] if texts[key[1]]["kind"] != "weft"}
VERDICTS = ("holds", "does not hold", "not offered")


def counts(name, keys):
    found = collections.Counter(reports[name].get(key, {}).get("verdict", "not offered") for key in keys)
    return [found[verdict] for verdict in VERDICTS]


def table(kind):
    heads = [what for name in names for what in (f"{name}: holds", "does not", "not offered")]
    print("| page | " + " | ".join(heads) + " |")
    print("|---|" + "--:|" * 6)
    keys = {key for key in compared if texts[key[1]]["kind"] == kind}
    for page in sorted({key[0] for key in keys}):
        row = [str(count) for name in names for count in counts(name, {key for key in keys if key[0] == page})]
        print(f"| `{page}` | " + " | ".join(row) + " |")
    print("| all | " + " | ".join(str(count) for name in names for count in counts(name, keys)) + " |\n")


def reason(result):
    line = re.sub(r"^(over IPv6: )?(Expected equality of these values:|Value of:|Expected:) ", r"\1",
                  " ".join(re.split(r"\[\w+\.(?:cc|h):\d+\]|Google Test trace:", result["reason"])[0].split()))
    return (line if len(line) <= 110 else line[:107] + "...").replace("`", "'")


# A list: a table would be wider than a page.
def differences(kind):
    page = None
    for key in sorted(compared):
        results = {name: reports[name].get(key) for name in names}
        broken = [name for name in names if results[name] and results[name]["verdict"] == "does not hold"]
        if texts[key[1]]["kind"] != kind or not broken:
            continue
        if key[0] != page:
            print(("" if page is None else "\n") + f"**{key[0]}**\n")
            page = key[0]
        others = [f"{name}: {results[name]['verdict'] if results[name] else 'not offered'}" for name in names
                  if name not in broken]
        text = (f"{texts[key[1]]['sentence']} `{key[1]}` over `{key[2]}`. {'; '.join(others)}{'; ' if others else ''}"
                + "; ".join(f"{name} does **not**: `{reason(results[name])}`" for name in broken))
        print(textwrap.fill(text, 118, initial_indent="- ", subsequent_indent="  ", break_long_words=False,
                            break_on_hyphens=False))
    print()


if wanted == "manual":
    print("## What the manual says\n")
    table("manual")
    print("Sentences of the manual pages that do not hold for one of them:\n")
    differences("manual")
    print("## Beyond the manual\n")
    table("beyond")
    print("None of these is a fault by the manual. [A page of its own](beyond-the-manual.md) lists them.")
else:
    differences("beyond")
