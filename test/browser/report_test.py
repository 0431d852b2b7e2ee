"""What a user does with an HTML report, done in a browser: see test/browser/run."""
import argparse
import hashlib
import json
import re
import sys
import tempfile
import time
import unittest
from pathlib import Path

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.common.actions.wheel_input import ScrollOrigin
from selenium.webdriver.support.ui import WebDriverWait

from browser import BrowserTest, start
from large import large_profile
from reports import HOSTILE, MODELS, Reports, bare, hostile

VIEWS = ["summary", "timeline", "operators", "modules", "roofline", "memory", "graph"]
FOREIGN = {
    "unit": "ticks",
    "simulated": False,
    "clock_hz": 0,
    "missing": ["memory and tensors: give the program"],
}
MANY = 2000
LOAD_SECONDS = 1.0
LOAD_TRIES = 5  # the fastest counts: other work on the machine is not the page's

folder = None


class ReportTest(BrowserTest):
    report = "ic_resnet8"

    def setUp(self):
        self.driver.set_window_size(1400, 1000)
        self.open(self.report)

    def open(self, name):
        self.profile = json.loads((folder / f"{name}.json").read_text())
        self.driver.get((folder / f"{name}.html").as_uri())

    def view(self, name):
        self.one(f"#tab-{name}").click()
        self.assertTrue(self.one(f"#panel-{name}").is_displayed())
        self.frame()

    def frame(self):
        """Until what was asked for is drawn."""
        self.driver.execute_async_script(
            "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(done));"
        )

    def selected(self):
        found = self.all("#selected-name")
        return found[0].text if found else None

    def press(self, *keys):
        ActionChains(self.driver).send_keys(*keys).perform()
        self.frame()

    def focus(self, selector):
        self.driver.execute_script("arguments[0].focus()", self.one(selector))

    def status(self, name):
        return self.one(f'[data-view="{name}"] .status').text

    def picture(self, name):
        """A number of what is drawn: tells whether it changed."""
        drawn = self.driver.execute_script(
            "return arguments[0].toDataURL()", self.one(f'[data-view="{name}"] canvas')
        )
        return hashlib.sha256(drawn.encode()).hexdigest()

    def column(self, index):
        return [
            cell.text
            for cell in self.all(f'[data-view="operators"] tbody td:nth-child({index + 1})')
        ]

    def click_canvas(self, name, x, y):
        """At a place in the drawing, in pixels from its upper left corner."""
        canvas = self.one(f'[data-view="{name}"] canvas')
        self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", canvas)
        box = canvas.rect
        ActionChains(self.driver).move_to_element_with_offset(
            canvas, int(x - box["width"] / 2), int(y - box["height"] / 2)
        ).click().perform()
        self.frame()


def figures(text):
    return [int(figure.replace(",", "")) for figure in re.findall(r"\d[\d,]*", text)]


class Figures(ReportTest):
    """What the page says is what the JSON says."""

    def test_summary(self):
        for name in MODELS:
            with self.subTest(name):
                self.open(name)
                text = self.one("#panel-summary").text
                self.assertIn(f"{self.profile['total_cycles']:,}", text)
                self.assertIn(f"{self.profile['planned_bytes']:,} bytes", text)
                self.assertIn(f"{self.profile['flash_bytes']:,} bytes", text)
                self.assertIn("imulated", text)
                self.assertIn("docs/npu.md", text)
                self.assertIn("324 MHz", text)
                for kind, cycles in self.profile["spent"].items():
                    self.assertEqual(
                        figures(self.one(f"#spent-{kind} td:nth-child(2)").text), [cycles]
                    )
                milliseconds = float(re.search(r"([\d.]+) ms", text)[1])
                self.assertAlmostEqual(
                    milliseconds,
                    self.profile["milliseconds"],
                    delta=self.profile["milliseconds"] / 1000,
                )
                self.assertGreater(len(self.all(".advice li")), 0)
                for word in ("undefined", "NaN", "[object", "false", "null"):
                    self.assertNotIn(word, text)

    def test_timeline(self):
        self.view("timeline")
        self.focus('[data-view="timeline"] canvas')
        self.press(Keys.HOME)
        self.press(*[Keys.ARROW_UP] * 2, Keys.HOME)
        cycles, before = {}, None
        while before != self.status("timeline"):
            before = self.status("timeline")
            kind, took = re.search(r"; ([^:;]+): [^;]*; cycles .*: ([\d,]+)", before).groups()
            cycles[kind] = cycles.get(kind, 0) + figures(took)[0]
            self.press(Keys.ARROW_RIGHT)
        spent = self.profile["spent"]
        self.assertEqual(
            cycles,
            {
                "host starts calls and copies": spent["host"],
                "waiting for flash": spent["stall"],
                "Cortex-M kernels": spent["cpu"],
            },
        )

    def test_advice(self):
        self.open("quantized")
        text = self.one("#panel-summary .advice").text
        conversions = [
            span["end"] - span["start"]
            for span in self.profile["spans"]
            if "quantize_per_" in span["kernel"]
        ]
        inside = sum(conversions[1:-1])  # without those of the input and of the output
        self.assertGreater(inside, 0)
        # Told where they are more than a quarter of the CPU's cycles.
        sentence = f"{inside:,} of them convert between float and int8 inside of the network"
        self.assertEqual(sentence in text, inside > 0.25 * self.profile["spent"]["cpu"])
        self.assertIn("The NPU does not run hardswish: ", text)
        self.view("placement")
        refusals = json.loads((folder / "quantized.compile.json").read_text())["refusals"]
        lost = {each["name"]: each["cycles_lost"] for each in refusals}
        cells = self.all('[data-view="placement"] tbody td:first-child')
        names = [cell.text for cell in cells]
        self.assertEqual(sorted(names), sorted(lost))
        shown = [lost[name] for name in names]
        self.assertEqual(shown, sorted(shown, reverse=True))
        cells[names.index("hardswish")].click()
        self.assertEqual(self.selected(), "hardswish")
        self.assertIn("Why not on the NPU", self.one("#details").text)

    def test_operators(self):
        self.view("operators")
        rows = sorted(self.profile["rows"], key=lambda row: -row["cycles"])
        self.assertEqual(
            [figures(text)[0] for text in self.column(1)], [row["cycles"] for row in rows]
        )
        self.assertEqual(self.column(0), [row["name"] for row in rows])
        self.assertEqual(
            [figures(text) for text in self.column(7)],
            [[row["macs"]] if row["macs"] else [] for row in rows],
        )

    def test_every_operator_says_what_is_known(self):
        self.view("operators")
        for line in self.all('[data-view="operators"] tbody tr'):
            row = self.profile["rows"][int(line.get_attribute("data-row"))]
            line.find_element(By.TAG_NAME, "td").click()
            self.assertEqual(self.selected(), row["name"])
            details = self.one("#details").text
            for kind in ("npu", "host", "stall", "cpu", "macs", "copying"):
                if row[kind] > 0:
                    self.assertIn(f"{row[kind]:,}", details)
            self.assertIn(row["source_line"], details)
            for word in ("undefined", "NaN", "[object"):
                self.assertNotIn(word, details)

    def test_modules(self):
        self.view("modules")
        self.one("#panel-modules .toolbar button").click()
        text = self.one("#panel-modules .tree").text
        top = {}
        for row in self.profile["rows"]:
            path = row["module"].split(".")[0] or "outside of any module"
            top[path] = top.get(path, 0) + row["cycles"]
        for name, cycles in top.items():
            self.assertIn(f"{cycles:,}", text, name)
        self.assertEqual(len(self.all("#panel-modules .leaf")), len(self.profile["rows"]))

    def test_accuracy_and_placement(self):
        layers = json.loads((folder / f"{self.report}.verify.json").read_text())["layers"]
        self.view("accuracy")
        own = sorted(
            (layer for layer in layers if not layer["fused"]), key=lambda layer: layer["sqnr_db"]
        )
        shown = [cell.text for cell in self.all('[data-view="accuracy"] tbody td:nth-child(1)')]
        self.assertEqual(shown, [layer["name"] for layer in own])
        self.view("placement")
        self.assertEqual(
            len(self.all('[data-view="placement"] tbody tr')),
            len(json.loads((folder / f"{self.report}.compile.json").read_text())["refusals"]),
        )

    def test_memory(self):
        self.view("memory")
        live = [
            sum_of_live(self.profile["memory"], step)
            for step in range(1 + max(buffer["last_step"] for buffer in self.profile["memory"]))
        ]
        text = self.one("#panel-memory").text
        self.assertIn(f"most live bytes: {max(live):,}", text)
        self.assertIn(f"step {live.index(max(live))}", text)
        self.assertIn(f"{self.profile['planned_bytes']:,}", text)
        names = set()
        self.focus('[data-view="memory"] canvas')
        self.press(Keys.HOME)
        for _ in self.profile["memory"]:
            names.add(self.status("memory").split(";")[0])
            self.press(Keys.ARROW_RIGHT)
        self.assertEqual(names, {buffer["name"] for buffer in self.profile["memory"]})

    def test_graph(self):
        self.view("graph")
        nodes, edges = figures(self.one("#panel-graph > div > p.muted").text)[:2]
        self.assertGreaterEqual(nodes, sum(1 for row in self.profile["rows"] if row["sources"]))
        self.assertGreaterEqual(edges, nodes - 1)  # a network is connected


def sum_of_live(buffers, step):
    taken, end = 0, 0
    for start, stop in sorted(
        (buffer["offset"], buffer["offset"] + buffer["bytes"])
        for buffer in buffers
        if buffer["first_step"] <= step <= buffer["last_step"]
    ):
        taken += max(0, stop - max(start, end))
        end = max(end, stop)
    return taken


class Mouse(ReportTest):
    def test_selection_is_everywhere(self):
        self.view("timeline")
        canvas = self.one('[data-view="timeline"] canvas').rect
        span = max(
            (each for each in self.profile["spans"] if each["track"] == "npu"),
            key=lambda each: each["end"] - each["start"],
        )
        middle = (span["start"] + span["end"]) / 2
        self.click_canvas(
            "timeline",
            65 + middle / self.profile["total_cycles"] * (canvas["width"] - 67),
            8 + 74 + 32,
        )
        name = self.profile["rows"][span["row"]]["name"]
        self.assertEqual(self.selected(), name)
        self.view("operators")
        self.assertEqual(self.one('tr[aria-selected="true"] td').text, name)
        self.view("modules")
        self.assertIn(name, self.one(".tree .selected").text)
        before = self.picture_of_selection("graph")
        self.assertNotEqual(before[0], before[1])
        before = self.picture_of_selection("memory")
        self.assertNotEqual(before[0], before[1])

    def picture_of_selection(self, view):
        self.view(view)
        chosen = self.picture(view)
        self.press(Keys.ESCAPE)
        empty = self.picture(view)
        self.assertIsNone(self.selected())
        self.view("operators")
        self.one('[data-view="operators"] tbody tr:nth-child(2) td').click()
        return chosen, empty

    def test_sort(self):
        self.view("operators")
        head = lambda index: self.one(f'[data-view="operators"] th:nth-child({index + 1})')
        self.assertEqual(head(1).get_attribute("aria-sort"), "descending")
        head(0).find_element(By.TAG_NAME, "button").click()
        self.assertEqual(self.column(0), sorted(row["name"] for row in self.profile["rows"]))
        self.assertEqual(head(0).get_attribute("aria-sort"), "ascending")
        head(1).find_element(By.TAG_NAME, "button").click()
        head(1).find_element(By.TAG_NAME, "button").click()
        self.assertEqual(
            [figures(text)[0] for text in self.column(1)],
            sorted(row["cycles"] for row in self.profile["rows"]),
        )

    def test_filter(self):
        self.view("operators")
        self.one('[data-view="operators"] input').send_keys("RELU")
        fitting = [row for row in self.profile["rows"] if "relu" in row["name"]]
        self.assertEqual(len(self.all('[data-view="operators"] tbody tr')), len(fitting))
        self.assertIn(
            f"{len(fitting)} of {len(self.profile['rows'])}",
            self.one('[data-view="operators"] .toolbar').text,
        )
        self.one('[data-view="operators"] input').send_keys("no such operator")
        self.assertEqual(self.all('[data-view="operators"] tbody tr'), [])

    def test_fold(self):
        self.view("modules")
        unfold, fold = self.all("#panel-modules .toolbar button")
        unfold.click()
        self.assertTrue(all(leaf.is_displayed() for leaf in self.all("#panel-modules .leaf")))
        fold.click()
        self.assertEqual(
            [leaf for leaf in self.all("#panel-modules .leaf") if leaf.is_displayed()], []
        )
        self.one("#panel-modules summary").click()
        self.assertEqual(len(self.all("#panel-modules details[open]")), 1)

    def test_zoom(self):
        for name in ("timeline", "roofline", "memory", "graph"):
            with self.subTest(name):
                self.view(name)
                whole = self.picture(name)
                for button in ("Zoom in", "Zoom in", "Move right", "Zoom out"):
                    before = self.picture(name)
                    self.one(f'[data-view="{name}"] button[aria-label="{button}"]').click()
                    self.frame()
                    self.assertNotEqual(self.picture(name), before, button)
                canvas = self.one(f'[data-view="{name}"] canvas')
                before = self.picture(name)
                self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", canvas)
                ActionChains(self.driver).scroll_from_origin(
                    ScrollOrigin.from_element(canvas), 0, -200
                ).perform()
                self.frame()
                self.assertNotEqual(self.picture(name), before, "wheel")
                before = self.picture(name)
                ActionChains(self.driver).move_to_element(canvas).click_and_hold().move_by_offset(
                    -80, 10
                ).release().perform()
                self.frame()
                self.assertNotEqual(self.picture(name), before, "drag")
                self.one(f'[data-view="{name}"] button[aria-label="Show all"]').click()
                self.frame()
                if name != "graph":  # which opens at reading size
                    self.assertEqual(self.picture(name), whole)

    def test_tensors_of_the_graph(self):
        tensor = next(
            each
            for each in self.profile["tensors"]
            if "scale" in each and each["place"] == "inside the delegate"
        )
        self.view("operators")
        name = next(
            row["name"] for row in self.profile["rows"] if set(row["sources"]) & set(tensor["from"])
        )
        next(
            line
            for line in self.all('[data-view="operators"] tbody tr')
            if line.find_element(By.TAG_NAME, "td").text == name
        ).find_element(By.TAG_NAME, "td").click()
        next(link for link in self.all("#details li button") if link.text == tensor["name"]).click()
        details = self.one("#details").text
        for text in (
            tensor["name"],
            f"{tensor['scale']:.5f}"[:6],
            str(tensor["zero_point"]),
            tensor["layout"],
            tensor["place"],
        ):
            self.assertIn(text, details)

    def test_advice_selects(self):
        link = self.one(".advice button")
        name = link.text
        link.click()
        self.assertEqual(self.selected(), name)

    def test_theme(self):
        ground = lambda: self.driver.execute_script(
            "return getComputedStyle(document.body).backgroundColor"
        )
        button = self.one("#theme")
        seen = {}
        for _ in range(3):
            seen[button.text] = ground()
            button.click()
        self.assertNotEqual(seen["Theme: light"], seen["Theme: dark"])
        for system in ("dark", "light"):  # the page hears of it with its next frame
            self.driver.execute_cdp_cmd(
                "Emulation.setEmulatedMedia",
                {"features": [{"name": "prefers-color-scheme", "value": system}]},
            )
            WebDriverWait(self.driver, 5).until(lambda _: ground() == seen[f"Theme: {system}"])

    def test_narrow_window(self):
        self.driver.set_window_size(500, 800)
        for name in VIEWS:
            self.view(name)
            self.assertLessEqual(
                self.driver.execute_script(
                    "return document.documentElement.scrollWidth - innerWidth"
                ),
                0,
                name,
            )


class Keyboard(ReportTest):
    """Without a mouse."""

    def tab_to(self, wanted, most=40):
        for _ in range(most):
            ActionChains(self.driver).send_keys(Keys.TAB).perform()
            if self.driver.switch_to.active_element.get_attribute(wanted[0]) == wanted[1]:
                return
        self.fail(f"the Tab key does not lead to {wanted}")

    def test_through_the_page(self):
        self.tab_to(("id", "tab-summary"))
        self.press(Keys.ARROW_RIGHT)
        self.assertTrue(self.one("#panel-timeline").is_displayed())
        self.tab_to(("role", "application"))
        self.press(Keys.HOME, Keys.ARROW_DOWN)
        first = self.status("timeline")
        self.assertIn("cycles", first)
        self.press(Keys.ARROW_RIGHT)
        self.assertNotEqual(self.status("timeline"), first)
        self.press(Keys.ENTER)
        self.assertTrue(self.status("timeline").startswith(self.selected()))
        before = self.picture("timeline")
        self.press("+")
        self.assertNotEqual(self.picture("timeline"), before)
        self.press("0")
        self.assertEqual(self.picture("timeline"), before)
        self.press(Keys.ESCAPE)
        self.assertIsNone(self.selected())

    def test_tabs(self):
        self.focus("#tab-summary")
        for name in VIEWS[1:]:
            self.press(Keys.ARROW_RIGHT)
            self.assertTrue(self.one(f"#panel-{name}").is_displayed())
        self.press(Keys.HOME)
        self.assertTrue(self.one("#panel-summary").is_displayed())

    def test_table(self):
        self.focus("#tab-operators")
        self.press(Keys.ENTER)
        self.tab_to(
            (
                "data-row",
                str(
                    max(
                        range(len(self.profile["rows"])),
                        key=lambda i: self.profile["rows"][i]["cycles"],
                    )
                ),
            )
        )
        self.press(Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ENTER)
        self.assertEqual(
            self.selected(), sorted(self.profile["rows"], key=lambda row: -row["cycles"])[2]["name"]
        )

    def test_graph_follows_edges(self):
        self.view("graph")
        self.focus('[data-view="graph"] canvas')
        self.press(Keys.HOME)
        seen = []
        while not seen or self.status("graph") != seen[-1]:
            seen.append(self.status("graph"))
            self.press(Keys.ARROW_DOWN)
        self.assertIn("input", seen[0])
        self.assertIn("output", seen[-1])
        self.assertGreater(len(seen), 8)

    def test_roofline(self):
        self.view("roofline")
        self.focus('[data-view="roofline"] canvas')
        points = set()
        self.press(Keys.HOME)
        while self.status("roofline") not in points:
            points.add(self.status("roofline"))
            self.press(Keys.ARROW_RIGHT)
        expected = [
            row
            for row in self.profile["rows"]
            if row["macs"] > 0 and row["sram_bytes"] > 0 and row["npu"] > 0
        ]
        self.assertEqual(len(points), len(expected))
        for row in expected:
            text = f"{row['name']}; {row['macs'] / row['sram_bytes']:.2f} MACs per byte"
            self.assertTrue(any(point.startswith(text) for point in points), text)


class Limits(ReportTest):
    def test_many_operators(self):
        fastest = LOAD_SECONDS + 1
        for _ in range(LOAD_TRIES):
            self.open("many")
            fastest = min(
                fastest,
                self.driver.execute_script(
                    "return performance.getEntriesByType('navigation')[0].loadEventEnd"
                )
                / 1000,
            )
            if fastest < LOAD_SECONDS:
                break
        self.assertLess(fastest, LOAD_SECONDS)
        print(f"  {MANY} operators: loaded in {fastest:.2f} s", file=sys.stderr)
        for name in VIEWS:
            started = time.monotonic()
            self.view(name)
            self.assertLess(time.monotonic() - started, 5, name)
        self.view("operators")
        self.one('[data-view="operators"] input').send_keys("conv2d_1999")
        self.assertEqual(self.column(0), ["conv2d_1999"])
        self.one('[data-view="operators"] tbody td').click()
        self.view("graph")
        self.assertEqual(self.selected(), "conv2d_1999")
        self.view("operators")
        self.one('[data-view="operators"] input').clear()
        self.one('[data-view="operators"] input').send_keys(" ", Keys.BACKSPACE)
        self.assertEqual(len(self.column(0)), 200)
        self.focus('[data-view="operators"] tbody tr')
        self.press(Keys.END)
        self.assertEqual(
            self.driver.switch_to.active_element.find_element(
                By.CSS_SELECTOR, "td:nth-child(2)"
            ).text,
            f"{min(row['cycles'] for row in self.profile['rows']):,}",
        )

    def test_hostile_names(self):
        self.open("hostile")
        for name in VIEWS:
            self.view(name)
            self.assertEqual(self.all("img, body b:not(.tile b)"), [])
        self.view("operators")
        self.one('[data-view="operators"] tbody td').click()
        self.assertEqual(self.selected(), HOSTILE)
        self.assertNotEqual(self.driver.title, "broken")

    def test_partial_run(self):
        self.open("partial")
        self.assertIn("Partial: 3 events", self.one("#warning").text)
        self.open(self.report)
        self.assertFalse(self.one("#warning").is_displayed())

    def test_foreign_trace(self):
        self.open("foreign")
        self.assertEqual(
            self.one("#warning").text, "Not known: memory and tensors: give the program."
        )
        summary = self.one("#panel-summary").text
        self.assertIn("Ticks", summary)
        for word in ("cycles", "Cycles", "simulated"):
            self.assertNotIn(word, summary)

    def test_without_program(self):
        self.open("bare")
        for name in VIEWS:
            self.view(name)
            self.assertEqual(
                "--program" in self.one(f"#panel-{name}").text, name in ("memory", "graph"), name
            )


def make_pictures(target):
    """Every view in both themes and a narrow window, to be looked at."""
    target.mkdir(parents=True, exist_ok=True)
    driver = start()
    for theme, width in (("light", 1400), ("dark", 1400), ("light", 500)):
        driver.set_window_size(width, 1000)
        driver.get((folder / "ic_resnet8.html").as_uri())
        while driver.find_element(By.ID, "theme").text != f"Theme: {theme}":
            driver.find_element(By.ID, "theme").click()
        for name in VIEWS + ["placement", "accuracy"]:
            driver.find_element(By.ID, f"tab-{name}").click()
            time.sleep(0.2)
            driver.save_screenshot(str(target / f"{name}_{theme}_{width}.png"))
    driver.quit()


def main():
    global folder
    parser = argparse.ArgumentParser()
    parser.add_argument("deuteron")
    parser.add_argument("--pictures", type=Path)
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="deuteron-browser-") as made:
        folder = Path(made)
        reports = Reports(arguments.deuteron, folder)
        for name in MODELS:
            reports.make_report(name)
        reports.make_quantized_report()
        reports.with_profile("digits_cnn", "many", lambda profile: large_profile(profile, MANY))
        reports.with_profile("ic_resnet8", "hostile", hostile)
        reports.with_profile(
            "ic_resnet8", "partial", lambda profile: profile | {"complete": False, "lost_events": 3}
        )
        reports.with_profile("ic_resnet8", "bare", bare)
        reports.with_profile("ic_resnet8", "foreign", lambda profile: bare(profile) | FOREIGN)
        if arguments.pictures:
            make_pictures(arguments.pictures)
        patterns = [option for name in arguments.names for option in ("-k", name)]
        result = unittest.main(argv=["test-browser", *patterns], exit=False).result
    sys.exit(0 if result.wasSuccessful() else 1)


if __name__ == "__main__":
    main()
