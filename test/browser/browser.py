"""Tests of pages in headless Chromium: its own complaints and requests to others fail each."""
import json
import unittest

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By


def start():
    options = Options()
    options.binary_location = "/usr/bin/chromium"
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--window-size=1400,1000",
        "--force-prefers-reduced-motion",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))


class BrowserTest(unittest.TestCase):
    own = ("file://", "data:")  # how addresses begin that a page may ask for

    @classmethod
    def setUpClass(cls):
        cls.driver = start()

    @classmethod
    def tearDownClass(cls):
        cls.driver.quit()

    def tearDown(self):
        complaints = [
            entry
            for entry in self.driver.get_log("browser")
            if entry["level"] in ("SEVERE", "WARNING")
        ]
        self.assertEqual(complaints, [])
        self.assertEqual([url for url in self.requests() if not url.startswith(self.own)], [])

    def requests(self):
        """Addresses that pages asked for since the last call."""
        messages = [
            json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")
        ]
        return [
            message["params"]["request"]["url"]
            for message in messages
            if message["method"] == "Network.requestWillBeSent"
        ]

    def one(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)
