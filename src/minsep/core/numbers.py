"""Numbers as people write them, on the command line and in the page of `minsep serve`."""

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")


def number(text: str | float) -> float:
    """Read a number, with or without commas.

    >>> number("1,024"), number("1e-5"), number(0.5)
    (1024.0, 1e-05, 0.5)
    """
    if not isinstance(text, str):
        return text
    try:
        return float(text.replace(",", "") if _has_whole_groups(text) else text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number: write it as 1024, 1,024 or 1e-5.") from None


def count(text: str | int) -> int:
    """Read a whole number, with or without commas, or as a power of ten.

    >>> count("60,000"), count("1e6"), count("60_000"), count(7)
    (60000, 1000000, 60000, 7)
    """
    if not isinstance(text, str):
        return text
    try:
        return int(text.replace(",", "") if _has_whole_groups(text) else text)
    except ValueError:
        pass
    try:
        value = float(text)
        whole = int(value)
    except (ValueError, OverflowError):
        raise _no_count(text) from None
    if whole != value:
        raise _no_count(text)
    return whole


def in_bytes(number: int) -> str:
    """Return a number of bytes in words, in binary units.

    >>> in_bytes(0), in_bytes(4_000_000), in_bytes(16 << 30)
    ('none', '3.81 MiB', '16 GiB')
    """
    if number == 0:
        return "none"
    value, place = float(number), 0
    while value >= 1000 and place < len(_UNITS) - 1:
        value, place = value / 1024, place + 1
    return f"{value:.3g} {_UNITS[place]}"


def _no_count(text: str) -> ValueError:
    return ValueError(f"{text!r} is not a whole number: write it as 60000, 60,000 or 6e4.")


def _has_whole_groups(text: str) -> bool:
    """Whether commas separate groups of thousands: 1,5 is not a number here."""
    first, *groups = text.strip().lstrip("+-").partition(".")[0].split(",")
    return bool(groups) and 1 <= len(first) <= 3 and all(len(group) == 3 for group in groups)
