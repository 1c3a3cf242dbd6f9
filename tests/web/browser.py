"""A headless Chromium, driven by the DevTools protocol over pipes (--remote-debugging-pipe). Python's standard library is enough."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

DEADLINE = 60
NAMES = ("chromium-headless-shell", "chromium", "google-chrome")
KEYS = {"Enter": ("\r", 13), "Escape": ("", 27), "Tab": ("", 9), "ArrowDown": ("", 40), "ArrowUp": ("", 38),
        "ArrowRight": ("", 39), "ArrowLeft": ("", 37), "End": ("", 35), "Home": ("", 36), "PageDown": ("", 34), " ": (" ", 32)}


class Browser:
    """One browser with one page."""

    def __init__(self):
        program = next(filter(None, map(shutil.which, NAMES)), None)
        if not program:
            raise SystemExit("no Chromium: apt-get install chromium")
        self.profile = tempfile.mkdtemp(prefix="numaloc-web.")
        to_browser, self.commands = os.pipe()
        self.answers, from_browser = os.pipe()

        def pipes():
            # The browser reads commands from 3 and writes answers to 4. The copies are above both, so neither is overwritten.
            ends = [os.dup(end) for end in (to_browser, from_browser)]
            while min(ends) < 5:
                ends = [os.dup(end) for end in ends]
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)

        arguments = [program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                     "--remote-debugging-pipe", f"--user-data-dir={self.profile}", "about:blank"]
        self.process = subprocess.Popen(arguments, preexec_fn=pipes, close_fds=False, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.number, self.buffer, self.session = 0, b"", None
        self.log, self.requests = [], []
        target = next(each for each in self.call("Target.getTargets")["targetInfos"] if each["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(domain + ".enable")

    def call(self, method, **params):
        """Sends a command, and returns its result. Events that come before it are kept."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + DEADLINE
        while True:
            answer = self._next(end)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                return answer["result"]
            self._event(answer)

    def _next(self, end):
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.answers], [], [], max(0, end - time.monotonic()))
            part = os.read(self.answers, 1 << 20) if ready else b""
            if not part:
                raise AssertionError("the browser does not answer")
            self.buffer += part
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def _event(self, event):
        params = event.get("params", {})
        if event["method"] == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif event["method"] == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.log.append(details.get("exception", {}).get("description", details["text"]))
        elif event["method"] == "Log.entryAdded":
            self.log.append(params["entry"]["text"])
        elif event["method"] == "Page.javascriptDialogOpening":
            self.log.append("a dialog of a script: " + params["message"])

    def open(self, address):
        # The same address with another fragment would not be loaded again. What the page before has asked for is forgotten.
        self.call("Page.navigate", url="about:blank")
        self.until("an empty page", "location.href === 'about:blank'")
        self.requests.clear()
        self.log.clear()
        self.call("Page.navigate", url=address)

    def run(self, expression):
        """The value of an expression in the page."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise AssertionError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def until(self, what, expression):
        """Waits until an expression is true."""
        end = time.monotonic() + DEADLINE
        while True:
            # Between two pages there is nothing to ask.
            if self.run(f"(() => {{ try {{ return Boolean({expression}); }} catch {{ return false; }} }})()"):
                return
            if time.monotonic() > end:
                text = self.run("document.body.innerText")[:2000]
                raise AssertionError(f"{what}: `{expression}` did not become true; the log: {self.log}; the page:\n{text}")
            time.sleep(0.05)

    def text(self, selector):
        return self.run(f"document.querySelector({json.dumps(selector)}).innerText")

    def press(self, *keys):
        """Keys as KeyboardEvent.key has them; of text, a key for each character."""
        for key in keys:
            text, code = KEYS.get(key, (key, ord(key[0].upper())))
            event = {"key": key, "windowsVirtualKeyCode": code}
            down = {"type": "keyDown", "text": text} if text else {"type": "rawKeyDown"}
            self.call("Input.dispatchKeyEvent", **event, **down)
            self.call("Input.dispatchKeyEvent", **event, type="keyUp")

    def size(self, width, height, phone=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=2 if phone else 1, mobile=phone)

    def scheme(self, name):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def picture(self, path):
        data = self.call("Page.captureScreenshot", format="png")["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def close(self):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.profile, ignore_errors=True)
