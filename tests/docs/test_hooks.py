"""The hooks of the site: cells of tutorials, formulas, and pages from outside of docs/."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from docs.hooks import cells

ROOT = Path(__file__).parents[2]
MECHANISMS = "src/diprime/privacy/mechanisms"
SCRIPT = '''"""Title."""

# %%
# # Title
#
# Some *text*.

import warnings

x = 1

# %%
print(x + 1)
warnings.warn("mind this", UserWarning)
'''
FIGURE = "# %%\nimport matplotlib.pyplot as plt\nplt.plot([1, 2])\n# Figure: A line\n# that rises\n"


def run(tmp_path, script):
    path = tmp_path / "script.py"
    path.write_text(script, encoding="utf-8")
    command = [sys.executable, ROOT / "docs/hooks/cells.py", path, tmp_path]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_script_is_cut_into_text_and_code():
    (text, code), (no_text, more) = cells.split(SCRIPT)
    assert text == "# Title\n\nSome *text*.\n"
    assert code == "import warnings\n\nx = 1"
    assert no_text == ""
    assert more.startswith("print(x + 1)")


def test_what_a_cell_prints_and_warns_of_is_kept(tmp_path):
    first, second = json.loads(run(tmp_path, SCRIPT).stdout)
    assert first["output"] == ""
    assert second["output"] == "2\nUserWarning: mind this\n"


def test_figures_are_written_with_what_they_show(tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed.")
    (cell,) = json.loads(run(tmp_path, FIGURE).stdout)
    assert cell["figures"] == [{"name": "script-1-1.svg", "alt": "A line that rises"}]
    assert "Figure" not in cell["code"]
    assert (tmp_path / "script-1-1.svg").read_text("utf-8").startswith("<?xml")


def test_a_figure_without_words_is_an_error(tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed.")
    done = run(tmp_path, FIGURE.replace("Figure", "Picture"))
    assert done.returncode
    assert "says what it shows" in done.stderr


# -- with MkDocs ----------------------------------------------------------------------------------------------------


def test_formulas_become_mathml():
    pytest.importorskip("latex2mathml", reason="The extra docs is not installed.")
    pytest.importorskip("mkdocs", reason="The extra docs is not installed.")
    from docs.hooks.formulas import on_page_content

    page = SimpleNamespace(file=SimpleNamespace(src_uri="privacy.md"))
    html = '<p>If <span class="arithmatex">\\(a &lt; b\\)</span></p><div class="arithmatex">\\[\\frac{1}{2}\\]</div>'
    made = on_page_content(html, page, None, None)
    assert "arithmatex" not in made
    assert made.count("<math") == 2
    assert "<mi>a</mi>" in made
    assert "<mfrac>" in made


@pytest.mark.parametrize(
    ("plain", "typeset"),
    [
        ("e^ε·q", "e<sup>ε</sup>·q"),
        ("2^(32 − q)", "2<sup>32 − q</sup>"),
        ("e^((|o_i − v′_i|)ε/Δ)", "e<sup>(|o<sub>i</sub> − v′<sub>i</sub>|)ε/Δ</sup>"),
        ("Π_{s≠r}(1 − p_s)", "Π<sub>s≠r</sub>(1 − p<sub>s</sub>)"),
        ("S_c²/(ε²n_j)", "S<sub>c</sub>²/(ε²n<sub>j</sub>)"),
        ("E*_j, M*_j", "E*<sub>j</sub>, M*<sub>j</sub>"),
        ("<code>S_c^2</code> max_depth, x86_64, tests/a_b.py", None),
        ("a_file.py", None),
    ],
)  # fmt: skip
def test_powers_and_indices_of_plain_text_are_typeset(plain, typeset):
    pytest.importorskip("latex2mathml", reason="The extra docs is not installed.")
    pytest.importorskip("mkdocs", reason="The extra docs is not installed.")
    from docs.hooks.formulas import on_page_content

    page = SimpleNamespace(file=SimpleNamespace(src_uri="privacy.md"))
    assert on_page_content(plain, page, None, None) == (typeset or plain)


@pytest.fixture
def outside():
    pytest.importorskip("mkdocs", reason="The extra docs is not installed.")
    from docs.hooks import outside

    return outside


@pytest.mark.parametrize(
    ("page", "link", "expected"),
    [
        ("privacy.md", "[p](../src/diprime/privacy/x.md)", "../src/diprime/privacy/x.md"),  # which is not there
        ("privacy.md", "[p](../src/diprime/privacy/mechanisms/laplace.md)", f"code/{MECHANISMS}/laplace.md"),
        ("design.md", "[p](../src/diprime/training/train.py)", "code/src/diprime/training/train.py.md"),
        ("start/installation.md", "[p](../../SECURITY.md#how-to-report)", "../code/SECURITY.md#how-to-report"),
        ("code/SECURITY.md", "[p](docs/audits.md)", "../audits.md"),
        ("code/benchmarks/results/oddities.md", "[p](tables.md)", "tables.md"),
        ("tutorials/index.md", "[p](../../examples)", "../code/examples/index.md"),
        ("index.md", "[p](tutorials/study.py)", "tutorials/study.md"),
        ("privacy.md", "[p](command-line.md#signatures)", "command-line.md#signatures"),
        ("privacy.md", "[p](https://example.org/x.md)", "https://example.org/x.md"),
    ],
)  # fmt: skip
def test_links_are_written_anew_where_they_leave_docs(outside, page, link, expected):
    page = SimpleNamespace(file=SimpleNamespace(src_uri=page))
    assert outside.on_page_markdown(link, page, None, None) == f"[p]({expected})"


def test_a_tutorial_that_fails_ends_the_build(outside, tmp_path):
    from mkdocs.exceptions import PluginError

    from docs.hooks.tutorials import run as run_tutorial

    script = tmp_path / "broken.py"
    script.write_text("# %%\nraise ValueError('no')\n", encoding="utf-8")
    with pytest.raises(PluginError, match=r"broken\.py fails"):
        run_tutorial(script, "")


def test_a_page_without_a_place_is_put_at_the_end_of_the_guides(tmp_path):
    pytest.importorskip("mkdocs", reason="The extra docs is not installed.")
    from docs.hooks.navigation import on_config

    for name in ("placed.md", "new.md"):
        (tmp_path / name).write_text("# Page\n", encoding="utf-8")
    nav = [{"Start": ["placed.md"]}, {"Guides": [{"Domains": "domains.md"}]}]
    config = on_config(SimpleNamespace(nav=nav, docs_dir=str(tmp_path)))
    assert config.nav == [{"Start": ["placed.md"]}, {"Guides": [{"Domains": "domains.md"}, "new.md"]}]
