# SPDX-License-Identifier: BSD-2-Clause
# columns.py NAME=REPORT...: the tables of docs/conformance.md from documents of fi_conform --json. The reports of one
# name form a column; there are two names.
import collections
import json
import sys

names, reports = [], collections.defaultdict(dict)
texts = {}
for word in sys.argv[1:]:
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
SHORT = {"holds": "holds", "does not hold": "**no**", "not offered": "-"}


def counts(name, keys):
    found = collections.Counter(reports[name].get(key, {}).get("verdict", "not offered") for key in keys)
    return [found[verdict] for verdict in SHORT]


def table(kind):
    print("| page | " + " | ".join(f"{name}: {what}" for name in names for what in ("holds", "does not", "not offered")) + " |")
    print("|---|" + "--:|" * 6)
    keys = {key for key in compared if texts[key[1]]["kind"] == kind}
    for page in sorted({key[0] for key in keys}):
        row = [str(count) for name in names for count in counts(name, {key for key in keys if key[0] == page})]
        print(f"| `{page}` | " + " | ".join(row) + " |")
    print("| all | " + " | ".join(str(count) for name in names for count in counts(name, keys)) + " |\n")


def reason(result):
    line = result["reason"].split("\n")[0].replace("|", "\\|").replace("`", "'")
    return line if len(line) <= 90 else line[:87] + "..."


def differences(kind):
    print(f"| sentence | target | {first} | {second} | first reason |\n|---|---|---|---|---|")
    for key in sorted(compared):
        results = [reports[name].get(key) for name in names]
        if texts[key[1]]["kind"] != kind or not any(r and r["verdict"] == "does not hold" for r in results):
            continue
        cells = [SHORT[r["verdict"]] if r else "-" for r in results]
        why = next(reason(r) for r in results if r and r["verdict"] == "does not hold")
        print(f"| `{key[0]}` {texts[key[1]]['sentence']} `{key[1]}` | `{key[2]}` | {cells[0]} | {cells[1]} | {why} |")
    print()


print("## What the manual says\n")
table("manual")
print("Sentences of the manual pages that do not hold for one of them:\n")
differences("manual")
print("## Beyond the manual\n")
table("beyond")
print("Sentences beyond the manual that do not hold for one of them. None of these is a fault by the manual:\n")
differences("beyond")
