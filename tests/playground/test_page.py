"""The page in a real browser, as people use it."""

from __future__ import annotations

import contextlib
import functools
import json
import re
import shutil
import sys
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from asking import Playground

playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
Browser, Page, expect = playwright.Browser, playwright.Page, playwright.expect

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
AXE = Path(sys.prefix) / "node_modules" / "axe-core" / "axe.min.js"
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium; Debian's: apt-get install chromium")
NINE = "53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79"
SOLVED = "534678912672195348198342567859761423426853791713924856961537284287419635345286179"
UNEQUAL = "4:0,0,1,0,2,0R,0,0,0,0,0D,0,0,0U,0,0,"
SOON = 30_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser, playground: Playground) -> Iterator[Page]:
    yield from open_page(browser, playground)


@pytest.fixture
def phone(browser: Browser, playground: Playground) -> Iterator[Page]:
    yield from open_page(browser, playground, viewport={"width": 375, "height": 720}, has_touch=True, is_mobile=True)


def open_page(browser: Browser, playground: Playground, **options: Any) -> Iterator[Page]:
    """The page, loaded; in the end nothing was asked of other places and nothing went wrong unsaid."""
    context = browser.new_context(reduced_motion="reduce", accept_downloads=True, **options)
    page = context.new_page()
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda m: wrong.append(m.text) if m.type == "error" and "status of 4" not in m.text else None)
    page.on(
        "request",
        lambda r: wrong.append(r.url) if not r.url.startswith((playground.address, "blob:", "data:")) else None,
    )
    page.goto(playground.address)
    expect(page.locator("body")).to_have_attribute("data-ready", "true", timeout=SOON)
    yield page
    assert not wrong
    context.close()


def paste(page: Page, text: str) -> None:
    page.get_by_role("button", name="Paste…").click()
    page.locator("#paste-text").fill(text)
    page.get_by_role("button", name="Read it").click()


def solve(page: Page) -> None:
    page.get_by_role("button", name="Solve and watch").click()
    expect(page.locator(".lane .ok, .lane .no").first).to_be_visible(timeout=SOON)
    expect(page.get_by_role("button", name="Solve and watch")).to_be_visible(timeout=SOON)


def slide(page: Page, step: int) -> None:
    page.locator("#step").fill(str(step))
    expect(page.locator("#step")).to_have_value(str(step))


def values(page: Page) -> list[str]:
    """What the buttons over the cells say."""
    labels = (
        page.locator(".lane .sheet")
        .first.locator("button")
        .evaluate_all("all => all.map(b => b.getAttribute('aria-label'))")
    )
    return [label.split(": ", 1)[1] for label in labels]


def colors(page: Page) -> int:
    """How many different colors the first board's canvas shows."""
    return page.locator(".lane canvas").first.evaluate(
        """c => { const d = new Uint32Array(c.getContext('2d').getImageData(0, 0, c.width, c.height).data.buffer);
                  return new Set(d).size; }"""
    )


def test_it_opens_on_a_puzzle(page: Page) -> None:
    expect(page.get_by_role("heading", name="Outgrow", exact=True)).to_be_visible()
    assert page.title() == "Outgrow playground"
    found = values(page)
    assert len(found) == 81
    assert any(v.startswith("given") for v in found)
    assert "empty" in found
    assert colors(page) > 3
    expect(page.locator("#verdict")).to_contain_text("Nothing is wrong so far")


def test_a_new_board_of_16_is_solved_and_slid_through(page: Page) -> None:
    page.locator("#size").select_option("16")
    page.get_by_role("button", name="New puzzle").click()
    expect(page.locator(".sheet button")).to_have_count(256)
    givens = [v for v in values(page) if v.startswith("given")]
    solve(page)
    expect(page.locator(".lane .ok")).to_contain_text(re.compile(r"Solved in \d+ steps, \d+ ms"))
    expect(page.locator("#verdict")).to_have_text("Solved: every rule holds and every given is kept.")
    last = int(page.locator("#step").get_attribute("max") or 0)
    assert last > 3
    solved = values(page)
    assert [v for v in solved if v.startswith("given")] == givens
    assert "empty" not in solved
    slide(page, 1)
    expect(page.locator("#verdict")).to_contain_text(re.compile(r"Step 1: \d+ broken rules?, \d+% sure"))
    expect(page.locator("#position")).to_have_text(f"step 1 of {last}")
    first = values(page)
    assert first != solved
    sure = [int(v.split("%")[0].split(", ")[-1]) for v in first if "%" in v]
    assert min(sure) < 60
    slide(page, 0)
    expect(page.locator("#position")).to_have_text("the puzzle")
    assert "empty" in values(page)
    expect(page.locator("#curve svg.chart")).to_have_attribute(
        "aria-label", re.compile("confidence ends at .* 0 rules broken")
    )


def test_steps_play_one_after_another(browser: Browser, playground: Playground) -> None:
    context = browser.new_context()  # with motion
    page = context.new_page()
    page.goto(playground.address)
    paste(page, NINE)
    page.locator("#speed").select_option("4")
    page.get_by_role("button", name="Solve and watch").click()
    expect(page.locator("#position")).to_contain_text("step 2 of", timeout=SOON)
    page.get_by_role("button", name="Pause").click()
    stopped = page.locator("#step").input_value()
    page.wait_for_timeout(600)
    assert page.locator("#step").input_value() == stopped
    page.keyboard.press(",")
    assert page.locator("#step").input_value() == str(int(stopped) - 1)
    context.close()


def test_a_game_id_is_pasted(page: Page) -> None:
    paste(page, UNEQUAL)
    expect(page.locator("#paste")).to_be_hidden()
    expect(page.locator("input[name=kind]:checked")).to_have_value("futoshiki")
    expect(page.locator(".sheet button")).to_have_count(16)
    solve(page)
    expect(page.locator("#verdict")).to_contain_text("Solved")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "holds no puzzle"),
        ("hello world", "Text:1"),
        ("12345", "Text:1"),
        ("<img src=x onerror=alert(1)>", "Text:1"),
        ("c k 3\np edge 10000 1\ne 1 2", "the page takes 1,296"),
        ("x" * 1_100_000, "at most 1,048,576 bytes"),
    ],
    ids=["nothing", "words", "cut", "markup", "huge", "long"],
)
def test_garbage_is_refused_in_words(page: Page, text: str, words: str) -> None:
    before = values(page)
    page.on("console", lambda _: None)
    page.get_by_role("button", name="Paste…").click()
    page.locator("#paste-text").evaluate("(area, text) => { area.value = text; }", text)
    page.get_by_role("button", name="Read it").click()
    expect(page.locator("#paste-error")).to_contain_text(words)
    expect(page.locator("#paste")).to_be_visible()
    page.get_by_role("button", name="Cancel").click()
    assert values(page) == before


def test_every_puzzle_is_chosen_and_solved(page: Page) -> None:
    for kind, name in (("futoshiki", "Futoshiki"), ("coloring", "Graph coloring"), ("sudoku", "Sudoku")):
        page.locator("#kinds").get_by_text(name, exact=True).click()
        expect(page.locator(".sheet")).to_have_attribute("aria-label", re.compile(f"^{name}"))
        expect(page.locator("input[name=kind]:checked")).to_have_value(kind)
        solve(page)
        expect(page.locator("#verdict")).to_contain_text("Solved")


def test_a_graph_is_drawn_in_its_colors(page: Page) -> None:
    paste(page, "c k 3\nc given 1 1\np edge 5 6\ne 1 2\ne 2 3\ne 3 4\ne 4 5\ne 5 1\ne 1 3")
    expect(page.locator(".sheet.disc button")).to_have_count(5)
    before = colors(page)
    solve(page)
    assert colors(page) > before
    shown = [v.split(",")[0] for v in values(page)]
    assert shown[0] == "given 1"
    assert {shown[1], shown[2]} == {"2", "3"}


def test_people_enter_values_and_see_what_they_break(page: Page) -> None:
    paste(page, NINE)
    expect(page.locator(".sheet button")).to_have_count(81)
    cell = page.get_by_role("button", name="row 1 column 3: empty")
    cell.click()
    page.keyboard.press("5")
    expect(page.get_by_role("button", name="row 1 column 3: 5, breaks a rule")).to_be_visible()
    expect(page.locator("#verdict")).to_contain_text("2 rules are broken: row 1 column 1 is 5 and row 1 column 3 is 5")
    page.keyboard.press("4")
    expect(page.locator("#verdict")).to_have_text("Nothing is wrong so far; 50 to go.")
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("button", name="row 1 column 4: empty")).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("9")  # a given
    expect(page.locator("#verdict")).to_contain_text("row 2 column 4 is given")
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("button", name="row 1 column 3: 5, breaks a rule")).to_be_visible()
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("button", name="row 1 column 3: empty")).to_be_visible()
    expect(page.get_by_role("button", name="Undo")).to_be_disabled()


def test_a_puzzle_is_solved_by_hand(page: Page) -> None:
    paste(page, NINE)
    expect(page.locator(".sheet button")).to_have_count(81)
    for i, (given, value) in enumerate(zip(NINE, SOLVED, strict=True)):
        if given == ".":
            page.locator(f".sheet button[data-variable='{i}']").focus()
            page.keyboard.press(value)
    expect(page.locator("#verdict")).to_have_text("Solved: every rule holds and every given is kept.")
    expect(page.locator(".lane.solved")).to_have_count(1)


def test_letters_and_numbers_of_two_digits_are_typed(page: Page) -> None:
    page.locator("#size").select_option("16")
    page.get_by_role("button", name="New puzzle").click()
    expect(page.locator(".sheet button")).to_have_count(256)
    page.get_by_role("button", name=re.compile(r"empty$")).first.click()
    page.keyboard.press("c")
    assert "C" in {v.split(",")[0] for v in values(page)}
    page.locator("#kinds").get_by_text("Futoshiki", exact=True).click()
    expect(page.locator(".sheet")).to_have_attribute("aria-label", re.compile("^Futoshiki"))
    page.locator("#size").select_option("12")
    page.get_by_role("button", name="New puzzle").click()
    expect(page.locator(".sheet button")).to_have_count(144)
    page.get_by_role("button", name=re.compile(r"empty$")).first.click()
    page.keyboard.press("1")
    page.keyboard.press("2")
    assert "12" in {v.split(",")[0] for v in values(page)}


def test_the_hint_is_right(page: Page) -> None:
    paste(page, NINE)
    expect(page.locator(".sheet button")).to_have_count(81)
    page.get_by_role("button", name="Hint").click()
    expect(page.locator("#verdict")).to_contain_text("Hint: row", timeout=SOON)
    entered = [(i, v) for i, v in enumerate(values(page)) if NINE[i] == "." and v != "empty"]
    assert [(i, SOLVED[i]) for i, _ in entered] == entered
    assert len(entered) == 1


def test_givens_are_edited_and_the_puzzle_goes_along(page: Page) -> None:
    paste(page, NINE)
    expect(page.locator(".sheet button")).to_have_count(81)
    page.get_by_label("Edit the givens").check()
    page.locator(".sheet button[data-variable='2']").click()
    page.keyboard.press("4")
    expect(page.get_by_role("button", name="row 1 column 3: given 4")).to_be_visible()
    expect(page).to_have_url(re.compile(re.escape(NINE.replace("53..7", "534.7", 1))))
    page.get_by_role("button", name="How many solutions?").click()
    expect(page.locator("#verdict")).to_have_text("It has exactly one solution (proven).", timeout=SOON)
    page.locator(".sheet button[data-variable='2']").click()
    page.keyboard.press("Backspace")
    expect(page.get_by_role("button", name="row 1 column 3: empty")).to_be_visible()
    page.get_by_role("button", name="Clear the givens").click()
    expect(page.get_by_role("button", name=re.compile("given"))).to_have_count(1)  # 'Clear the givens' itself
    page.get_by_role("button", name="How many solutions?").click()
    expect(page.locator("#verdict")).to_contain_text("several solutions", timeout=SOON)


def test_a_cell_shows_its_probabilities_and_whom_it_listens_to(page: Page) -> None:
    paste(page, NINE)
    solve(page)
    slide(page, 2)
    page.locator(".sheet button[data-variable='2']").click()
    expect(page.locator("#cell h3").first).to_have_text("row 1 column 3")
    expect(page.locator("#cell svg.chart")).to_have_attribute(
        "aria-label", re.compile("Probabilities of row 1 column 3")
    )
    before = colors(page)
    page.get_by_role("button", name="Show whom").click()
    expect(page.locator("#heard td").first).to_be_visible(timeout=SOON)
    kinds = set(page.locator("#heard tbody tr td:first-child").all_inner_texts())
    assert kinds == {"row", "col", "box", "values"}
    assert colors(page) > before  # lines are drawn


def test_networks_run_side_by_side(page: Page) -> None:
    page.locator("#kinds").get_by_text("Futoshiki", exact=True).click()
    expect(page.locator(".sheet")).to_have_attribute("aria-label", re.compile("^Futoshiki"))
    page.locator("#size").select_option("6")
    page.get_by_role("button", name="New puzzle").click()
    expect(page.locator(".sheet button")).to_have_count(36)
    page.get_by_role("button", name="Compare with another").click()
    page.locator(".picker").nth(0).select_option("futoshiki-binarized")
    page.locator(".picker").nth(1).select_option("futoshiki-multivalued")
    solve(page)
    expect(page.locator(".lane")).to_have_count(2)
    for i in range(2):
        expect(page.locator(".lane .said").nth(i)).to_contain_text(
            re.compile(r"olved in \d+ steps?, \d+ ms"), timeout=SOON
        )
    titles = page.locator(".lane h2").all_inner_texts()
    assert ["BIN" in titles[0], "MV" in titles[1]] == [True, True]
    page.get_by_role("button", name="Remove network 2").click()
    expect(page.locator(".lane")).to_have_count(1)


def test_a_slow_solve_is_stopped(page: Page) -> None:
    page.locator("#size").select_option("25")
    page.get_by_role("button", name="New puzzle").click()
    expect(page.locator(".sheet button")).to_have_count(625, timeout=SOON)
    page.get_by_role("button", name="Solve and watch").click()
    expect(page.locator("#position")).to_contain_text("step", timeout=SOON)
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_role("button", name="Solve and watch")).to_be_visible()
    expect(page.locator(".lane .no, .lane .ok")).to_be_visible()


def test_the_exact_solver_finishes_and_says_so(page: Page) -> None:
    paste(page, "123....4........")  # 4 is left for a cell whose column has one
    expect(page.locator(".sheet button")).to_have_count(16)
    page.get_by_label("Let the exact solver finish").check()
    page.locator("#attempts").select_option("1")
    solve(page)
    expect(page.locator(".lane .said")).to_contain_text("exact solver: has no solution (proven)", timeout=SOON)


def test_a_link_brings_the_puzzle_back(page: Page, browser: Browser) -> None:
    for kind in ("Sudoku", "Futoshiki", "Graph coloring"):
        page.locator("#kinds").get_by_text(kind, exact=True).click()
        expect(page.locator(".sheet")).to_have_attribute("aria-label", re.compile(f"^{kind}"))
        page.get_by_role("button", name="New puzzle").click()
        expect(page.locator("#new")).to_be_enabled()
        page.get_by_role("button", name="Share…").click()
        link = page.locator("#share-link").input_value()
        page.get_by_role("button", name="Close").click()
        other = browser.new_page()
        other.goto(link)
        expect(other.locator("body")).to_have_attribute("data-ready", "true", timeout=SOON)
        assert values(other) == values(page)
        expect(other.locator("#notice")).to_be_hidden()
        other.close()


def test_a_link_of_the_page_itself_needs_no_notes(page: Page) -> None:
    page.locator("#size").select_option("8")
    page.get_by_role("button", name="New puzzle").click()
    expect(page.locator(".sheet button")).to_have_count(64)
    before = values(page)
    page.reload()
    expect(page.locator("body")).to_have_attribute("data-ready", "true", timeout=SOON)
    assert values(page) == before
    expect(page.locator("#notice")).to_be_hidden()  # nothing about how the line was read


def test_a_damaged_link_is_said(page: Page, playground: Playground, browser: Browser) -> None:
    other = browser.new_page()
    other.goto(f"{playground.address}#p=%E0%A4%A")
    expect(other.locator("body")).to_have_attribute("data-ready", "true", timeout=SOON)
    expect(other.locator("#notice")).to_be_visible()
    expect(other.locator("#notice")).to_contain_text("cannot be read")
    assert len(values(other)) == 81
    other.close()


def test_the_run_is_saved_as_pictures_and_text(page: Page, tmp_path: Path) -> None:
    paste(page, NINE)
    solve(page)
    page.get_by_role("button", name="Share…").click()
    expect(page.locator("#share-text")).to_have_value(NINE)
    page.get_by_label("with what the board shows").check()
    expect(page.locator("#share-text")).to_have_value(SOLVED)
    for button, begin in (("Save as GIF", b"GIF89a"), ("Save as SVG", b"<svg"), ("Save as a file", SOLVED.encode())):
        with page.expect_download(timeout=SOON) as waiting:
            page.get_by_role("button", name=button).click()
        path = tmp_path / waiting.value.suggested_filename
        waiting.value.save_as(path)
        assert path.read_bytes().startswith(begin)


def test_how_it_outgrows_its_training(page: Page) -> None:
    page.get_by_role("button", name="How it outgrows").click()
    label = page.locator("#growth-chart svg.chart").get_attribute("aria-label") or ""
    catalog = json.loads((Path(__file__).resolve().parents[2] / "src/outgrow/weights/catalog.json").read_text())[
        "weights"
    ]
    for name, entry in catalog.items():
        assert (name in label) == (entry["puzzle"] == "sudoku")
    page.get_by_text("The figures as a table").click()
    expect(page.locator("#growth-table")).to_contain_text("27.3%")  # the paper's, at 16
    page.locator("#growth-kind").select_option("futoshiki")
    page.get_by_role("button", name="Solve one of each size").click()
    expect(page.locator("#gallery li")).to_have_count(7, timeout=60_000)
    expect(page.locator("#growth-status")).to_contain_text(re.compile(r"\d of 7 solved by futoshiki"), timeout=60_000)
    assert page.locator("#gallery .beyond").count() == 2  # 11 and 12 of 4 to 12, where 9 was the most
    expect(page.locator("#gallery")).not_to_contain_text(re.compile(r"\b1 steps"))


def test_another_puzzle_ends_the_growing_one(page: Page) -> None:
    page.get_by_role("button", name="How it outgrows").click()
    page.get_by_role("button", name="Solve one of each size").click()
    expect(page.locator("#gallery li")).to_have_count(2, timeout=SOON)
    page.locator("#growth-kind").select_option("coloring")
    expect(page.get_by_role("button", name="Solve one of each size")).to_be_visible()
    page.wait_for_timeout(500)
    expect(page.locator("#gallery li")).to_have_count(0)


def test_a_phone_shows_all_of_it(phone: Page) -> None:
    width = phone.evaluate("document.documentElement.scrollWidth")
    assert width <= 375
    box = phone.locator(".sheet").bounding_box()
    assert box is not None
    assert box["width"] > 300
    phone.locator(".sheet button[aria-label$='empty']").first.tap()
    phone.get_by_role("button", name="Enter 1", exact=True).tap()
    assert any(v.startswith("1") for v in values(phone))
    phone.get_by_role("button", name="Solve and watch").tap()
    expect(phone.locator(".lane .ok")).to_be_visible(timeout=SOON)
    phone.locator("#size").select_option("25")
    phone.get_by_role("button", name="New puzzle").tap()
    expect(phone.locator(".sheet button")).to_have_count(625, timeout=SOON)
    cell = phone.locator(".sheet button").first.bounding_box()
    assert cell is not None
    assert min(cell["width"], cell["height"]) >= 23.5  # it scrolls in its frame instead
    assert phone.evaluate("document.documentElement.scrollWidth") <= 375


def test_light_and_dark(page: Page, browser: Browser, playground: Playground) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.get_by_role("button", name="Dark").click()
    dark = page.evaluate(ground)
    assert light != dark
    other = browser.new_page(color_scheme="dark")
    other.goto(playground.address)
    expect(other.locator("body")).to_have_attribute("data-ready", "true", timeout=SOON)
    assert other.evaluate(ground) == dark
    other.close()


def test_keys_alone_do(page: Page) -> None:
    """From the top of the page to a solved puzzle without a mouse."""
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "solve":
            break
    page.keyboard.press("Enter")
    expect(page.locator(".lane .ok, .lane .no")).to_be_visible(timeout=SOON)
    at = page.locator("#position").inner_text()
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.dataset.variable") is not None:
            break
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.dataset.variable") == "10"
    page.keyboard.press(",")
    assert page.locator("#position").inner_text() != at


# ---- answers that come late, or not at all


def hold(page: Page, name: str) -> list[Any]:
    """Requests of that name wait from now on: `release` lets them go."""
    held: list[Any] = []
    page.route(f"**/api/{name}", lambda route: held.append(route))
    return held


def release(page: Page, name: str, held: list[Any]) -> None:
    page.unroute(f"**/api/{name}")
    assert held
    for route in held:
        with contextlib.suppress(playwright.Error):  # the page does not wait for it any more
            route.continue_()
    page.wait_for_timeout(400)


def until_held(page: Page, held: list[Any]) -> None:
    for _ in range(100):
        if held:
            return
        page.wait_for_timeout(20)
    raise AssertionError("nothing was asked")


def answer(body: str, route: Any) -> None:
    route.fulfill(body=body)


def test_only_the_puzzle_asked_for_last_is_shown(page: Page) -> None:
    held = hold(page, "new")
    page.locator("#kinds").get_by_text("Futoshiki", exact=True).click()
    until_held(page, held)
    paste(page, NINE)
    expect(page.locator("#paste")).to_be_hidden()
    release(page, "new", held)
    assert "given 5" in values(page)[0]
    assert NINE in unquote(page.url)
    expect(page.locator("#new")).to_be_enabled()


def test_a_late_edit_does_not_bring_the_puzzle_before_back(page: Page) -> None:
    paste(page, NINE)
    expect(page.locator(".sheet button").first).to_have_attribute("aria-label", "row 1 column 1: given 5")
    held = hold(page, "change")
    page.get_by_label("Edit the givens").check()
    page.locator(".sheet button[data-variable='2']").click()
    page.keyboard.press("4")
    expect(page.get_by_role("button", name="row 1 column 3: given 4")).to_be_visible()  # without waiting
    until_held(page, held)
    paste(page, SOLVED)
    expect(page.locator("#verdict")).to_contain_text("Solved")
    release(page, "change", held)
    assert all(v.startswith("given") for v in values(page))
    assert SOLVED in unquote(page.url)


@pytest.mark.parametrize(
    ("name", "button"), [("exact", "How many solutions?"), ("solve", "Hint")], ids=["solutions", "hint"]
)
def test_what_was_asked_about_another_puzzle_is_not_said(page: Page, name: str, button: str) -> None:
    paste(page, NINE)
    expect(page.locator(".sheet button").first).to_have_attribute("aria-label", "row 1 column 1: given 5")
    held = hold(page, name)
    page.get_by_role("button", name=button).click()
    until_held(page, held)
    paste(page, UNEQUAL)
    expect(page.locator(".sheet button")).to_have_count(16)
    release(page, name, held)
    page.wait_for_timeout(800)
    expect(page.locator("#verdict")).to_have_text("Nothing is wrong so far; 14 to go.")
    expect(page.get_by_role("button", name=button)).to_be_enabled()


def test_a_canceled_paste_is_not_shown(page: Page) -> None:
    before = values(page)
    held = hold(page, "read")
    paste(page, UNEQUAL)
    until_held(page, held)
    page.get_by_role("button", name="Cancel").click()
    release(page, "read", held)
    assert values(page) == before


def test_a_server_that_goes_away_is_said(page: Page) -> None:
    page.route("**/api/solve", lambda route: route.fulfill(body='{"event": "waiting", "ahead": 1}\n'))
    page.get_by_role("button", name="Solve and watch").click()
    expect(page.locator("#notice")).to_contain_text("The server does not answer")
    expect(page.get_by_role("button", name="Solve and watch")).to_be_visible()
    expect(page.locator("#verdict")).to_contain_text("Nothing is wrong so far")


# ---- what is said is about what is shown


def test_the_verdict_follows_the_slider(page: Page) -> None:
    paste(page, NINE)
    solve(page)
    expect(page.locator("#verdict")).to_contain_text("Solved")
    slide(page, 0)
    expect(page.locator("#verdict")).to_have_text("Nothing is wrong so far; 51 to go.")
    expect(page.locator(".lane.solved")).to_have_count(0)


def test_a_run_that_plays_again_is_not_called_solved(browser: Browser, playground: Playground) -> None:
    page = browser.new_page()  # with motion
    page.goto(playground.address)
    expect(page.locator("body")).to_have_attribute("data-ready", "true", timeout=SOON)
    paste(page, NINE)
    expect(page.locator("#paste")).to_be_hidden()
    page.locator("#speed").select_option("60")
    page.get_by_role("button", name="Solve and watch").click()
    expect(page.locator("#verdict")).to_contain_text("Solved", timeout=SOON)
    page.locator("#speed").select_option("4")
    page.get_by_role("button", name="Play", exact=True).click()
    expect(page.locator("#verdict")).to_have_text("Passing messages …")
    expect(page.locator("#verdict")).to_contain_text("Solved", timeout=SOON)
    page.close()


def test_how_far_beyond_its_training_a_puzzle_is(page: Page) -> None:
    expect(page.locator("#about-network")).not_to_contain_text("this puzzle has")
    page.locator("#size").select_option("16")
    page.get_by_role("button", name="New puzzle").click()
    expect(page.locator("#about-network")).to_contain_text("; this puzzle has 16")


def test_a_solved_board_shows_one_value_each(page: Page) -> None:
    """However unsure the network still is of some: a step that solves it is the last one."""
    paste(page, NINE)
    expect(page.locator("#paste")).to_be_hidden()
    shown = []
    for belief in (28, 255):
        step = {"event": "step", "run": 0, "step": 1, "attempt": 0, "guess": None, "solved": True, "broken": 0}
        step |= {"values": [int(v) for v in SOLVED], "beliefs": b64encode(bytes([belief] * 729)).decode()}
        step |= {"confidence": 1, "pairs": [], "milliseconds": 1}
        end = {"event": "end", "run": 0, "status": "solved", "steps": 1, "attempts": 1, "milliseconds": 1, "words": ""}
        lines = "".join(json.dumps(event) + "\n" for event in (step, end, {"event": "done"}))
        page.route("**/api/solve", functools.partial(answer, lines))
        solve(page)
        page.wait_for_timeout(200)
        shown.append(page.locator(".lane canvas").evaluate("c => c.toDataURL()"))
    assert shown[0] == shown[1]


def test_a_cell_is_that_of_the_network_whose_board_was_chosen(page: Page) -> None:
    paste(page, NINE)
    expect(page.locator("#paste")).to_be_hidden()
    page.get_by_role("button", name="Compare with another").click()
    page.locator(".picker").nth(1).select_option("sudoku-6-grouped")
    solve(page)
    slide(page, 1)
    page.locator(".lane").nth(1).locator("button[data-variable='2']").click()
    expect(page.locator("#cell h3").first).to_have_text("row 1 column 3, sudoku-6-grouped")
    expect(page.locator("#verdict")).to_contain_text("sudoku-grouped: Step 1")
    page.locator(".lane").nth(0).locator("button[data-variable='2']").click()
    expect(page.locator("#cell h3").first).to_have_text("row 1 column 3, sudoku-grouped")
    before = colors(page)
    page.get_by_role("button", name="Show whom").click()
    expect(page.locator("#heard td").first).to_be_visible(timeout=SOON)
    assert page.evaluate("document.activeElement.id") == "listen"  # keys go on from there
    assert colors(page) > before
    page.locator(".lane").nth(0).locator("button[data-variable='3']").click()
    page.wait_for_timeout(200)
    assert colors(page) <= before + 2  # whom another cell listens to is not shown any more


def test_stopping_what_is_paused_says_so(page: Page) -> None:
    page.locator("#size").select_option("25")
    page.get_by_role("button", name="New puzzle").click()
    expect(page.locator(".sheet button")).to_have_count(625, timeout=SOON)
    page.get_by_role("button", name="Solve and watch").click()
    expect(page.locator("#position")).to_contain_text("step", timeout=SOON)
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".lane .no")).to_have_text("Stopped.")


# ---- what was entered is not lost


def test_back_returns_to_the_puzzle_before(page: Page) -> None:
    paste(page, NINE)
    expect(page.locator("#paste")).to_be_hidden()
    page.locator(".sheet button[data-variable='2']").click()
    page.keyboard.press("4")
    expect(page.locator("#verdict")).to_have_text("Nothing is wrong so far; 50 to go.")
    paste(page, UNEQUAL)
    expect(page.locator(".sheet button")).to_have_count(16)
    page.go_back()
    expect(page.get_by_role("button", name="row 1 column 3: 4")).to_be_visible()
    page.reload()
    expect(page.get_by_role("button", name="row 1 column 3: 4")).to_be_visible(timeout=SOON)
    page.go_forward()
    expect(page.locator(".sheet button")).to_have_count(16)


def test_cleared_givens_are_taken_back(page: Page) -> None:
    paste(page, NINE)
    expect(page.locator("#paste")).to_be_hidden()
    page.get_by_label("Edit the givens").check()
    page.get_by_role("button", name="Clear the givens").click()
    expect(page.locator("#verdict")).to_have_text("Nothing is wrong so far; 81 to go.")
    page.get_by_role("button", name="Undo").click()
    expect(page.locator("#verdict")).to_have_text("Nothing is wrong so far; 51 to go.")
    expect(page).to_have_url(re.compile(re.escape(NINE)))


def test_typing_goes_to_the_chosen_cell_wherever_the_focus_is(page: Page) -> None:
    paste(page, NINE)
    expect(page.locator("#paste")).to_be_hidden()
    page.locator(".sheet button[data-variable='2']").click()
    page.get_by_role("button", name="Enter 5").click()
    page.keyboard.press("4")
    expect(page.get_by_role("button", name="row 1 column 3: 4")).to_be_visible()
    page.get_by_role("button", name="Undo").click()
    page.keyboard.press("1")
    expect(page.get_by_role("button", name="row 1 column 3: 1")).to_be_visible()


def test_zero_erases(page: Page) -> None:
    paste(page, NINE)
    expect(page.locator("#paste")).to_be_hidden()
    page.locator(".sheet button[data-variable='2']").click()
    page.keyboard.press("4")
    expect(page.get_by_role("button", name="row 1 column 3: 4")).to_be_visible()
    page.keyboard.press("0")
    expect(page.get_by_role("button", name="row 1 column 3: empty")).to_be_visible()


# ---- room


def test_the_board_and_its_buttons_are_on_the_screen(browser: Browser, playground: Playground) -> None:
    for page in open_page(browser, playground, viewport={"width": 1280, "height": 900}):
        box = page.locator("#pad").bounding_box()
        assert box is not None
        assert box["y"] + box["height"] <= 900


@pytest.mark.parametrize("width", [1280, 1024, 375, 360])
def test_the_board_stays_where_it_is(browser: Browser, playground: Playground, width: int) -> None:
    top = "e => Math.round(e.getBoundingClientRect().top + scrollY)"
    for page in open_page(browser, playground, viewport={"width": width, "height": 720}):
        paste(page, NINE)
        expect(page.locator("#paste")).to_be_hidden()
        where = [page.locator(".sheet").evaluate(top)]
        solve(page)
        where.append(page.locator(".sheet").evaluate(top))
        page.locator("#position").evaluate("e => { e.textContent = 'step 2048 of 2048'; }")
        where.append(page.locator(".sheet").evaluate(top))
        assert len(set(where)) == 1
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_large_graph_is_shown_whole(page: Page) -> None:
    edges = "\n".join(f"e {i} {i + 1}" for i in range(1, 800))
    paste(page, f"c k 3\np edge 800 799\n{edges}")
    expect(page.locator(".sheet button")).to_have_count(800, timeout=SOON)
    assert page.locator(".board").evaluate("e => e.scrollWidth <= e.clientWidth")


def test_the_chart_is_as_wide_as_its_place(phone: Page) -> None:
    phone.get_by_role("button", name="How it outgrows").tap()
    chart = phone.locator("#growth-chart svg.chart")
    assert chart.evaluate("e => e.getBoundingClientRect().width / e.viewBox.baseVal.width") > 0.95  # letters of 11 px


def test_a_puzzle_without_generator_and_weights_is_there_to_be_solved_by_hand(
    browser: Browser, playground: Playground
) -> None:
    """As one that was just added."""
    context = browser.new_context()
    page = context.new_page()

    def bare(route: Any) -> None:
        answer = route.fetch()
        about = answer.json()
        about["weights"] = [w for w in about["weights"] if w["puzzle"] != "futoshiki"]
        next(p for p in about["puzzles"] if p["name"] == "futoshiki")["sizes"] = []
        route.fulfill(response=answer, json=about)

    page.route("**/api/about", bare)
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto(playground.address)
    expect(page.locator("body")).to_have_attribute("data-ready", "true", timeout=SOON)
    page.locator("#kinds").get_by_text("Futoshiki", exact=True).click()
    expect(page.locator(".sheet")).to_have_attribute("aria-label", re.compile("^Futoshiki"))
    expect(page.get_by_role("button", name="Solve and watch")).to_be_disabled()
    expect(page.get_by_role("button", name="New puzzle")).to_be_hidden()
    page.get_by_role("button", name=re.compile(r"empty$")).first.click()
    page.keyboard.press("1")
    assert any(v.startswith("1") for v in values(page))
    page.locator("#kinds").get_by_text("Sudoku", exact=True).click()
    expect(page.locator(".sheet")).to_have_attribute("aria-label", re.compile("^Sudoku"))
    expect(page.get_by_role("button", name="New puzzle")).to_be_visible()
    solve(page)
    assert not wrong
    context.close()


# ---- accessibility


@pytest.fixture
def axe() -> str:
    if not AXE.exists():
        pytest.skip("no axe-core: npm install --prefix .venv axe-core")
    return AXE.read_text()


def violations(page: Page, axe: str) -> list[str]:
    page.evaluate(axe)
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [f"{v['id']}: {v['help']}: {v['nodes'][0]['html'][:120]}" for v in found["violations"]]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_no_view_has_an_accessibility_error(page: Page, axe: str, dark: bool) -> None:
    if dark:
        page.get_by_role("button", name="Dark").click()
    assert violations(page, axe) == []
    for kind in ("Futoshiki", "Graph coloring", "Sudoku"):
        page.locator("#kinds").get_by_text(kind, exact=True).click()
        expect(page.locator(".sheet")).to_have_attribute("aria-label", re.compile(f"^{kind}"))
        assert violations(page, axe) == []
    page.get_by_role("button", name="Compare with another").click()
    solve(page)
    slide(page, 2)
    page.get_by_role("button", name=re.compile(r"row \d column \d: \d, \d+%")).first.click()
    page.get_by_role("button", name="Show whom").click()
    expect(page.locator("#heard td").first).to_be_visible(timeout=SOON)
    assert violations(page, axe) == []
    page.get_by_role("button", name="Paste…").click()
    page.get_by_role("button", name="Read it").click()
    expect(page.locator("#paste-error")).not_to_be_empty()
    assert violations(page, axe) == []
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Share…").click()
    assert violations(page, axe) == []
    page.get_by_role("button", name="Close").click()
    page.get_by_role("button", name="How it outgrows").click()
    page.get_by_text("The figures as a table").click()
    assert violations(page, axe) == []
    page.get_by_role("button", name="Solve one of each size").click()
    expect(page.locator("#gallery li")).to_have_count(3, timeout=SOON)
    assert violations(page, axe) == []


def test_a_phone_has_no_accessibility_error(phone: Page, axe: str) -> None:
    assert violations(phone, axe) == []
    phone.locator("#size").select_option("25")
    phone.get_by_role("button", name="New puzzle").tap()
    expect(phone.locator(".sheet button")).to_have_count(625, timeout=SOON)
    assert violations(phone, axe) == []


def test_axe_sees_what_is_wrong(page: Page, axe: str) -> None:
    page.evaluate("document.querySelector('#size').parentElement.replaceWith(document.querySelector('#size'))")
    assert any(v.startswith("select-name") for v in violations(page, axe))


def test_addresses_are_of_this_server_alone(page: Page, playground: Playground) -> None:
    links = page.locator("[href], [src]").evaluate_all("all => all.map(e => e.href || e.src)")
    assert {urlsplit(link).netloc for link in links} == {f"127.0.0.1:{playground.port}"}
