"""Recursive length prefix, as Ethereum's yellow paper has it in appendix B: encoding alone."""


def encode(item):
    """Of bytes, numbers from 0 on, and lists of them."""
    if isinstance(item, int):
        item = item.to_bytes((item.bit_length() + 7) // 8, "big")
    head, body = (0x80, item) if isinstance(item, bytes) else (0xc0, b"".join(map(encode, item)))
    if head == 0x80 and len(body) == 1 and body[0] < 0x80:
        return body
    if len(body) < 56:
        return bytes([head + len(body)]) + body
    length = len(body).to_bytes((len(body).bit_length() + 7) // 8, "big")
    return bytes([head + 55 + len(length)]) + length + body
