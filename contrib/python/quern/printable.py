"""Text of others on a terminal, as src/base/printable.h has it: what a node says may hold sequences that clear the screen,
colour it or write a question that nobody asked."""
import re

MOST = 4096  # characters of one message
# Controls (both sets), halves of pairs (what was no UTF-8), and what turns the direction of writing.
_HARMFUL = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def _escaped(found: re.Match[str]) -> str:
    is_byte = "\udc80" <= found.group() <= "\udcff"  # of what was no UTF-8
    content = found.group().encode("utf-8", "surrogateescape" if is_byte else "surrogatepass")
    return "".join(f"\\x{byte:02x}" for byte in content)


def printable(text: object, most: int = MOST) -> str:
    """The text in one line, what a terminal would obey as \\xNN, and no longer than that."""
    whole = str(text)
    cut = len(whole) - most
    return _HARMFUL.sub(_escaped, whole[:most]) + (f"... ({cut} characters more)" if cut > 0 else "")
