"""The web page at /, in a browser, with honest and hostile texts and models."""

import json
import re

import pytest
from playwright.sync_api import expect

from keras_transformer.serving import find_models
from tests.browser import chromium, page  # noqa: F401
from tests.serving.page_models import ATTACK, LABELS, write_classifier_export, write_word_export
from tests.serving.running import RunningServer

# Names are text, too. A directory's name has no "/".
HOSTILE_NAME = "<img src=x onerror=window.ran=1>"


@pytest.fixture(scope="module")
def page_server(tmp_path_factory):
    models = tmp_path_factory.mktemp("page")
    write_word_export(models / "words" / "1")
    write_word_export(models / "stories" / "1", kind="LanguageModel")
    write_classifier_export(models / HOSTILE_NAME / "1")
    with RunningServer(find_models(models), grpc_port=None) as running:
        yield running


class WebPage:
    """The page in a browser."""

    def __init__(self, page, server):  # noqa: F811
        self.page = page
        self.address = f"http://127.0.0.1:{server.server.port}/"
        self.complaints = []
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", lambda message: self.complaints.append(message.text))

    def open(self, model="words"):
        self.page.goto(self.address)
        self.page.wait_for_function("() => document.querySelector('#model').options.length > 0")
        self.page.get_by_label("Model", exact=True).select_option(model)

    def send(self, text, second=None):
        self.page.locator("#text").fill(text)
        if second is not None:
            self.page.get_by_label("Second text").fill(second)
        self.page.get_by_role("button", name="Send").click()

    def status(self):
        """Returns the text of the live region once an answer is there."""
        region = self.page.get_by_role("status")
        expect(region).to_have_text(re.compile(r" in \d+ ms$"))
        return region.inner_text()

    def texts(self):
        return self.page.locator("#hypotheses tbody button").all_inner_texts()


@pytest.fixture
def web(page, page_server):  # noqa: F811
    web = WebPage(page, page_server)
    yield web
    # A blocked script or style is a message of the console; so is an error of the page.
    assert web.complaints == []
    assert page.evaluate("window.ran") is None


def test_translations_are_listed_with_scores_best_first(web):
    web.open()
    web.send("guten morgen")
    assert "GUTEN MORGEN" in web.status()
    # The hypotheses with the score minus infinity do not exist.
    assert web.texts() == ["GUTEN MORGEN"]
    score = web.page.locator("#hypotheses tbody td").last.inner_text()
    assert re.fullmatch(r"[-–]?\d+\.\d{3}", score)


def test_heat_map_follows_mouse_and_keyboard(web):
    web.open()
    web.send("ein roter Hund schwimmt")
    web.status()
    grid = web.page.get_by_role("grid")
    assert grid.locator("thead th[scope=col]").all_inner_texts() == [
        *("ein", "roter", "Hund", "schwimmt")
    ]
    assert grid.locator("tbody th[scope=row]").all_inner_texts() == [
        *("EIN", "ROTER", "HUND", "SCHWIMMT")
    ]
    cell = grid.get_by_role("gridcell", name="HUND attends to roter")
    cell.hover()
    readout = web.page.locator("#readout")
    expect(readout).to_have_text(re.compile(r"HUND.*roter.*: 0\.\d{3}"))
    # The darkest cell of the row is on the diagonal, and the input tokens are shaded alike.
    shades = grid.locator("thead th.shaded").evaluate_all(
        "heads => heads.map(head => Number(head.style.getPropertyValue('--weight')))"
    )
    assert max(shades) == shades[2] > shades[1] > shades[0]
    web.page.mouse.move(0, 0)
    expect(readout).to_be_empty()

    # A single stop of the tab key; inside, the arrow keys move.
    assert grid.locator("td[tabindex='0']").count() == 1
    grid.locator("td[tabindex='0']").focus()
    for key in ("ArrowDown", "ArrowRight", "ArrowRight", "End", "ArrowLeft"):
        web.page.keyboard.press(key)
    expect(readout).to_have_text(re.compile(r"ROTER.*Hund"))
    assert "ROTER attends to Hund" in web.page.evaluate("document.activeElement.ariaLabel")
    web.page.keyboard.press("Control+End")
    expect(readout).to_have_text(re.compile(r"SCHWIMMT.*schwimmt"))


@pytest.mark.parametrize("model", ["words", "stories"])
def test_html_in_texts_and_tokens_is_shown_as_text(web, model):
    web.open(model)
    web.send(f"{ATTACK} \u202egnp.exe")
    web.status()
    assert web.texts()[0].startswith("<SCRIPT>WINDOW.RAN=1</SCRIPT>")
    heads = web.page.locator("#map th").all_inner_texts()
    assert any("<script>" in head.lower() for head in heads)
    # A character that turns the direction of writing is shown by its number.
    assert any(head.startswith(r"\u{202e}") for head in heads)
    for tag in ("img", "svg", "b", "a[href^='javascript']", "script:not([src])"):
        assert web.page.locator(f"main {tag}").count() == 0


def test_classes_are_shown_with_probabilities(web):
    web.open(HOSTILE_NAME)
    web.send("ruhig!")
    status = web.status()
    assert LABELS[1] in status
    rows = web.page.locator("#probabilities tbody tr")
    assert rows.locator("th").all_inner_texts() == [LABELS[1], "class 0"]
    assert rows.locator("td").all_inner_texts() == ["0.750", "0.250"]


def test_similarity_of_two_texts_is_the_cosine(web):
    web.open(HOSTILE_NAME)
    web.page.get_by_label("Task").select_option("Compare two texts")
    web.send("ab", "abcdef")
    web.status()
    expected = (2 * 6 + 1) / ((2 * 2 + 1) * (6 * 6 + 1)) ** 0.5
    assert web.page.locator("#cosine").inner_text() == f"{expected:.3f}"
    assert float(web.page.locator("#meter").evaluate("meter => meter.value")) == pytest.approx(
        expected
    )


def test_temperature_draws_samples(web):
    web.open()
    web.page.get_by_text("Sampling", exact=True).click()
    web.page.get_by_label("Temperature").fill("0.5")
    web.send("nacht")
    web.status()
    first = web.page.locator("#hypotheses tbody td").last.inner_text()
    web.page.get_by_label("Seed").fill("3")
    web.send("nacht")
    expect(web.page.locator("#hypotheses tbody td").last).not_to_have_text(first)


def test_language_model_is_shown_while_it_writes(web):
    """The server's answers are given, so that the events are known."""
    signatures = ["attention", "next_tokens", "sample", "serving_default"]
    model = {"name": "stories", "versions": [1], "kind": "LanguageModel", "signatures": signatures}
    listed = {"models": [model], "methods": ["predict", "stream"]}
    web.page.route("**/models", lambda route: route.fulfill(json=listed))
    asked = []

    def stream(route):
        asked.append(route.request.post_data_json)
        deltas = ({"delta": f" {ATTACK}"}, {"delta": " once"}, {"text": " upon"})
        body = "".join(f"data: {json.dumps(each)}\n\n" for each in deltas)
        body += f"event: done\ndata: {json.dumps({'text': ' upon a time', 'tokens': 3})}\n\n"
        route.fulfill(body=body, headers={"Content-Type": "text/event-stream"})

    web.page.route("**/*:stream", stream)
    web.open("stories")
    # Each change of the text is noted.
    web.page.evaluate(
        "window.seen = []; new MutationObserver(() => seen.push(document.querySelector('#stream')"
        ".textContent)).observe(document.querySelector('#stream'), {childList: true})"
    )
    web.send("Es war")
    web.status()
    assert web.page.locator("#stream").inner_text() == "Es war upon a time"
    assert asked == [{"text": "Es war"}]
    assert web.page.evaluate("seen")[0] == "Es war"
    assert web.page.locator("#map tbody th").all_inner_texts() == ["Es", "war", "upon", "a", "time"]
    web.page.get_by_text("Sampling", exact=True).click()
    web.page.get_by_label("Temperature").fill("0.5")
    web.send("Es war")
    web.status()
    assert asked[1] == {"text": "Es war", "temperature": 0.5, "seed": 0}
    web.page.unroute_all(behavior="ignoreErrors")


def test_error_of_the_server_is_an_alert_with_its_text(web, page_server):
    web.open()
    web.send("a" * (page_server.server.settings.limits.text_bytes + 1))
    alert = web.page.get_by_role("alert")
    expect(alert).to_contain_text("are allowed")
    expect(alert).to_contain_text("status 400")
    # The browser itself writes failed requests to the console.
    assert len(web.complaints) == 1
    web.complaints.clear()
    web.send("guten")
    web.status()
    expect(alert).to_be_empty()


def test_unreachable_server_is_an_alert(web):
    web.open()
    web.page.context.set_offline(True)
    web.send("guten")
    expect(web.page.get_by_role("alert")).to_contain_text("cannot be reached")
    web.complaints.clear()


def test_slow_answer_can_be_stopped(web):
    web.open()
    web.page.route("**/*:predict", lambda route: None)  # never answered
    web.send("guten")
    web.page.get_by_role("button", name="Stop").click()
    expect(web.page.get_by_role("status")).to_have_text("Stopped.")
    web.page.unroute_all(behavior="ignoreErrors")


def test_page_has_a_name_for_every_control_and_fits_a_phone(web):
    web.page.set_viewport_size({"width": 360, "height": 640})
    web.open()
    web.send("ein sehr langer Satz " * 12 + "Donaudampfschifffahrtsgesellschaft" * 8)
    web.status()
    width = "document.documentElement.scrollWidth"
    assert web.page.evaluate(f"{width} <= innerWidth")
    unnamed = web.page.evaluate(
        "[...document.querySelectorAll('select, textarea, input, button')].filter(each => "
        "!(each.labels?.length || each.textContent.trim() || each.ariaLabel))"
        ".map(each => each.id)"
    )
    assert unnamed == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_enough_contrast(web, scheme):
    web.page.emulate_media(color_scheme=scheme)
    web.open()
    web.send("guten")
    web.status()
    # WCAG 2.2, 1.4.3: at least 4.5 to 1.
    ratios = web.page.evaluate("""() => {
      const numbers = color => color.match(/[\\d.]+/g).map(Number);
      const light = color => {
        const [r, g, b] = numbers(color).map(each => each / 255)
          .map(each => each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
      };
      const back = each => {
        for (; each; each = each.parentElement) {
          const color = getComputedStyle(each).backgroundColor;
          if (numbers(color)[3] !== 0) return color;
        }
      };
      const seen = [...document.querySelectorAll('h1, h2, label, p, button, a, td, th, select')]
        .filter(each => each.checkVisibility() && each.textContent.trim());
      return seen.map(each => {
        const [a, b] = [light(getComputedStyle(each).color), light(back(each))];
        return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), each.outerHTML];
      });
    }""")
    assert len(ratios) > 10
    assert [each for each in ratios if each[0] < 4.5] == []


def test_policy_forbids_inline_scripts_and_other_hosts(page_server):
    for path in ("/", "/page.js", "/page.css", "/icon.svg"):
        answer = page_server.get(path)
        assert answer.status == 200
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
    html = page_server.get("/").body.decode()
    assert not re.search(r"https?://|\sstyle=|\son\w+=|<style", html)


def test_script_inserted_as_html_does_not_run(page, page_server):  # noqa: F811
    page.goto(f"http://127.0.0.1:{page_server.server.port}/")
    # Even if a text became HTML by a mistake in the page: trusted types refuse it.
    refused = page.evaluate(
        "html => { try { document.body.innerHTML = html; return false } catch { return true } }",
        ATTACK,
    )
    assert refused
    page.evaluate("document.body.append(Object.assign(document.createElement('img'), {}))")
    assert page.evaluate("window.ran") is None


def test_page_of_a_server_with_a_key_asks_for_it(page, written_export):  # noqa: F811
    key = "0123456789abcdef"
    sources = find_models(written_export.parent)
    with RunningServer(sources, grpc_port=None, api_key=key) as running:
        page.goto(f"http://127.0.0.1:{running.server.port}/")
        expect(page.get_by_role("alert")).to_contain_text("API key")
        field = page.locator("#key")
        expect(field).to_be_visible()
        field.fill(key)
        field.blur()
        expect(page.get_by_role("alert")).to_be_empty()
        page.locator("#text").fill("guten")
        page.get_by_role("button", name="Send").click()
        expect(page.locator("#hypotheses tbody button").first).to_have_text("GUTEN")
