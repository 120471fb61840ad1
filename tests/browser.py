"""A real browser (Chromium) for tests of pages."""

import json
import os
import shutil

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
FLAGS = (
    "--headless",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)


class Browser:
    """Browser window that records the errors and requests of pages."""

    INSTALLED = bool(CHROMIUM and DRIVER)

    def __init__(self, profile):
        from selenium import webdriver

        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        if os.name == "posix" and os.geteuid() == 0:  # the sandbox does not start as root
            options.add_argument("--no-sandbox")
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
        self.resize(1200, 900)

    def open(self, path, scheme="light"):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "screen", "features": features})
        self.errors(), self.requests()  # discard those of the previous page
        self.driver.get(path.as_uri())

    def resize(self, width, height):
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
        )

    def print_preview(self):
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", "features": []})

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def press(self, *keys):
        for key in keys:
            self.driver.switch_to.active_element.send_keys(key)

    def errors(self):
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self):
        """Return all URLs requested since the last call, except data URLs."""
        messages = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        urls = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
        return [url for url in urls if not url.startswith("data:")]

    def comes_to_hold(self, condition, seconds=10):
        """Wait for a condition, and return whether it holds in time."""
        from selenium.common import TimeoutException
        from selenium.webdriver.support.ui import WebDriverWait

        try:
            return bool(WebDriverWait(self.driver, seconds, poll_frequency=0.1).until(lambda _: condition()))
        except TimeoutException:
            return False
