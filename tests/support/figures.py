"""Figures that a test measures and asserts nothing on: shown in the summary of the run, also of tests that pass."""

import pytest

_NAME = "figure"
_running: list[pytest.Item] = []


def note(figure: str) -> None:
    """Have `figure` shown below the name of the test that runs."""
    _running[-1].user_properties.append((_NAME, figure))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Whose figures those are that come."""
    _running[:] = [item]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show them all, in the order of the tests; reports bring them, from other processes too."""
    ended = [each for reports in terminalreporter.stats.values() for each in reports if _is_last(each)]
    told = {report.nodeid: _figures(report) for report in ended if _figures(report)}
    if told:
        terminalreporter.section("figures")
    for test, figures in told.items():
        terminalreporter.write_line(test)
        for figure in figures:
            terminalreporter.write_line(f"    {figure}")


def _is_last(report: object) -> bool:
    return isinstance(report, pytest.TestReport) and report.when == "teardown"


def _figures(report: pytest.TestReport) -> list[str]:
    return [str(value) for name, value in report.user_properties if name == _NAME]
