"""The hooks of the site: cells of tutorials, formulas, and pages from outside of docs/."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

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


def test_output_and_warnings_of_a_cell_are_captured(tmp_path):
    first, second = json.loads(run(tmp_path, SCRIPT).stdout)
    assert first["output"] == ""
    assert second["output"] == "2\nUserWarning: mind this\n"


def test_figures_are_saved_with_alternative_text(tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed.")
    (cell,) = json.loads(run(tmp_path, FIGURE).stdout)
    assert cell["figures"] == [{"name": "script-1-1.svg", "alt": "A line that rises"}]
    assert "Figure" not in cell["code"]
    assert (tmp_path / "script-1-1.svg").read_text("utf-8").startswith("<?xml")


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
def test_plain_text_powers_and_indices_are_typeset(plain, typeset):
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
        ("architecture.md", "[p](../src/diprime/forest/train.py)", "code/src/diprime/forest/train.py.md"),
        ("start/installation.md", "[p](../../SECURITY.md#how-to-report)", "../code/SECURITY.md#how-to-report"),
        ("code/SECURITY.md", "[p](docs/audits.md)", "../audits.md"),
        ("code/benchmarks/results/oddities.md", "[p](tables.md)", "tables.md"),
        ("tutorials/index.md", "[p](../../examples)", "../code/examples/index.md"),
        ("index.md", "[p](tutorials/study.py)", "tutorials/study.md"),
        ("privacy.md", "[p](saving.md#signatures)", "saving.md#signatures"),
        ("privacy.md", "[p](https://example.org/x.md)", "https://example.org/x.md"),
    ],
)  # fmt: skip
def test_links_out_of_docs_are_rewritten(outside, page, link, expected):
    page = SimpleNamespace(file=SimpleNamespace(src_uri=page))
    assert outside.on_page_markdown(link, page, None, None) == f"[p]({expected})"


def test_failing_tutorial_stops_the_build(outside, tmp_path):
    from mkdocs.exceptions import PluginError

    from docs.hooks.tutorials import run as run_tutorial

    script = tmp_path / "broken.py"
    script.write_text("# %%\nraise ValueError('no')\n", encoding="utf-8")
    with pytest.raises(PluginError, match=r"broken\.py fails"):
        run_tutorial(script, "")
