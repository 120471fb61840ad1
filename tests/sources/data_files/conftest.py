"""The data, domains and models of the tests of commands."""

from tests.cli.conftest import folder, parts  # noqa: F401 -- fixtures
