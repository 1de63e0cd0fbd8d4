"""Says how many cases were run."""


def pytest_terminal_summary(terminalreporter):
    reports = terminalreporter.getreports("passed") + terminalreporter.getreports("failed")
    counts = [value for report in reports for name, value in report.user_properties if name == "fuzz_cases"]
    if counts:
        terminalreporter.write_line(f"Fuzzing: {sum(counts):,} cases in {len(counts)} tests.")
