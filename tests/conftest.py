import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

# Each worker of pytest-xdist has a core: threads of linear algebra would only wait for each other.
for library in ("OMP", "OPENBLAS", "MKL"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A real Chromium, without a window."""
    programs = (os.environ.get("CHROMIUM", ""), "chromium", "chromium-browser", "google-chrome")
    program = next((found for name in programs if name and (found := shutil.which(name))), None)
    if program is None:
        pytest.skip(
            "No Chromium was found: install it (Debian: apt-get install chromium), or set CHROMIUM to its path."
        )
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # Chromium's own sandbox does not start in many containers; the pages are our own.
        opened = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield opened
        opened.close()
