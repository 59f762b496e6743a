# SPDX-License-Identifier: BSD-2-Clause
# browser.py SITE [AXE_SCRIPT]: every page of the site in headless Chromium, opened as a file, at the widths of a phone and
# of a desktop: no console error, no request to a host, no horizontal overflow. The search finds pages, and the switch
# between light and dark works. With the script of axe-core, its rules (contrast, texts for pictures, headings) in light
# and dark. Exits with 77 where Chromium is absent.
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

WIDTHS = {390: 844, 1280: 900}
SCHEMES = "light", "dark"
LIMIT = 30  # seconds for one answer of the browser


class Browser:
    """Chromium with its debugging protocol on two pipes: messages in JSON that end in a zero byte."""

    def __init__(self, program, profile):
        commands, self.commands = os.pipe()
        self.answers, answers = os.pipe()
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []  # Chromium demands it of root
        self.process = subprocess.Popen(
            ["sh", "-c", f'exec "$@" 3<&{commands} 4>&{answers}', "sh", program, "--headless", "--disable-gpu",
             "--hide-scrollbars", "--remote-debugging-pipe", f"--user-data-dir={profile}", *sandbox, "about:blank"],
            pass_fds=(commands, answers), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(commands)
        os.close(answers)
        self.last = 0
        self.received = b""
        self.events = []
        self.session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in "Page", "Runtime", "Log", "Network":
            self.call(f"{domain}.enable")

    def receive(self):
        while b"\0" not in self.received:
            data = os.read(self.answers, 1 << 20)
            if not data:
                sys.exit("FAIL: the browser ended")
            self.received += data
        message, self.received = self.received.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **params):
        self.last += 1
        message = {"id": self.last, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.last:
                if "error" in answer:
                    sys.exit(f"FAIL: {method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def evaluate(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            sys.exit(f"FAIL: {expression[:60]}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait(self, expression):
        """Until the expression is true."""
        end = time.monotonic() + LIMIT
        while not self.evaluate(expression):
            if time.monotonic() > end:
                sys.exit(f"FAIL: never true: {expression}")
            time.sleep(0.05)

    def show(self, width, scheme):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=WIDTHS[width], deviceScaleFactor=1,
                  mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def open(self, address):
        self.events.clear()
        self.call("Page.navigate", url=address)
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self.receive())

    def complaints(self):
        """Errors and warnings of the console, the log and the network for the page that is open."""
        addresses = {}
        for event in self.events:
            method, params = event.get("method"), event.get("params")
            if method == "Runtime.exceptionThrown":
                yield "exception: " + params["exceptionDetails"].get("exception", {}).get("description", "")
            elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
                yield f"console: {params['args']}"
            elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                yield "log: " + params["entry"]["text"]
            elif method == "Network.loadingFailed":
                yield f"not loaded: {params['errorText']} {addresses.get(params['requestId'])}"
            elif method == "Network.requestWillBeSent":
                address = addresses[params["requestId"]] = params["request"]["url"]
                if not address.startswith(("file:", "data:")):
                    yield "request to a host: " + address


# The theme hides what is too wide for a phone, so elements are compared with the device. Code and tables may scroll.
OVERFLOW = """(width => {
  const wide = [];
  for (const each of document.querySelectorAll("article *"))
    if (each.getBoundingClientRect().right > width + 1 && !each.closest("pre, .table-wrapper"))
      wide.push(each.tagName + " " + each.className + ": " + each.textContent.trim().slice(0, 40));
  if (document.documentElement.scrollWidth > width) wide.push("the whole page");
  return wide;
})"""

AXE = """axe.run({preload: false, runOnly: ["wcag2a", "wcag2aa", "wcag21aa", "best-practice"],
  rules: {region: {enabled: false}}}).then(result => result.violations.map(
  rule => rule.id + ": " + rule.help + ": " + rule.nodes.slice(0, 3).map(node => node.html.slice(0, 90) + " " +
    node.any.map(check => check.message).join(" ").slice(0, 160)).join(" | ")))"""


def check_search(browser, site, fail):
    for query, wanted in {"fi_connect": "fi_cm(3)", "rendezvous": None, "multicast": "Multicast"}.items():
        browser.open(f"{site}/search.html?q={query}")
        browser.wait("/found|did not match/.test(document.querySelector('#search-results .search-summary').textContent)")
        browser.wait("document.querySelectorAll('#search-results li a').length > 0")
        found = browser.evaluate("[...document.querySelectorAll('#search-results li')].map(each => each.textContent)")
        if wanted and not any(wanted in result for result in found[:3]):
            fail(f"search for {query}", f"{wanted} is not among the first results: {found[:3]}")
        for complaint in browser.complaints():
            fail(f"search for {query}", complaint)


def check_switch(browser, site, fail):
    """The switch changes the page's background, whatever the system prefers."""
    browser.show(1280, "light")
    browser.open(f"{site}/index.html")
    background = "getComputedStyle(document.body).backgroundColor"
    before = browser.evaluate(background)
    browser.evaluate("document.querySelector('.theme-toggle-content .theme-toggle').click()")
    if browser.evaluate("document.body.dataset.theme") != "dark" or browser.evaluate(background) == before:
        fail("index.html", "the switch does not turn the page dark")
    browser.evaluate("localStorage.clear()")


def main():
    program = shutil.which("chromium")
    if not program:
        print("SKIP: Chromium is not installed (package chromium)")
        return 77
    folder = os.path.abspath(sys.argv[1])
    site = "file://" + folder
    axe = None
    if len(sys.argv) > 2 and os.path.exists(sys.argv[2]):
        with open(sys.argv[2], encoding="utf-8") as script:
            axe = script.read()
    pages = sorted(os.path.relpath(os.path.join(path, name), folder)
                   for path, _, names in os.walk(folder) for name in names if name.endswith(".html"))
    failed = 0

    def fail(page, text):
        nonlocal failed
        failed += 1
        print(f"{page}: {text}")

    with tempfile.TemporaryDirectory() as profile:
        browser = Browser(program, profile)
        try:
            check_search(browser, site, fail)
            check_switch(browser, site, fail)
            for page in pages:
                for width in WIDTHS:
                    # Colours do not depend on the width: one scheme each, both with axe.
                    for scheme in SCHEMES if axe and width == 1280 else SCHEMES[width == 1280:][:1]:
                        browser.show(width, scheme)
                        browser.open(f"{site}/{page}")
                        for text in browser.evaluate(f"{OVERFLOW}({width})"):
                            fail(f"{page} at {width}", "too wide: " + text)
                        if axe:
                            browser.evaluate(axe + "; 0")
                            for text in browser.evaluate(AXE):
                                fail(f"{page} at {width}, {scheme}", text)
                        for complaint in browser.complaints():
                            fail(f"{page} at {width}", complaint)
        finally:
            browser.process.terminate()
            browser.process.wait()
    print(f"{len(pages)} pages at {len(WIDTHS)} widths{', with axe-core' if axe else ', without axe-core'}: {failed} faults")
    return failed != 0


sys.exit(main())
