"""What programs of attackers sign by themselves: votes for two blocks, lots of watchers and of proposers. Keys are those that
quern-wallet makes of a seed. Plain Python, and slow."""
import hashlib
import hmac
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "unit", "crypto"))

from vrf_reference import K256, prove  # noqa: E402


def rlp(item):
    """Of bytes, numbers and lists of them."""
    if isinstance(item, int):
        item = item.to_bytes((item.bit_length() + 7) // 8, "big")
    head, body = (0x80, item) if isinstance(item, bytes) else (0xc0, b"".join(map(rlp, item)))
    if head == 0x80 and len(body) == 1 and body[0] < 0x80:
        return body
    if len(body) < 56:
        return bytes([head + len(body)]) + body
    length = len(body).to_bytes((len(body).bit_length() + 7) // 8, "big")
    return bytes([head + 55 + len(length)]) + length + body


class Key:
    """The key that quern-wallet makes of `seed`."""

    def __init__(self, seed):
        made = hmac.new(b"quern insecure devnet key", seed.encode() + b"\0", hashlib.sha256).digest()
        self.secret = int.from_bytes(made, "big")
        self.public = b"".join(part.to_bytes(32, "big") for part in K256.mul(self.secret, K256.g))

    def signature(self, digest):
        """ECDSA, r || s with low s."""
        k = int.from_bytes(hmac.new(self.secret.to_bytes(32, "big"), digest, hashlib.sha512).digest(), "big") % K256.n
        r = K256.mul(k, K256.g)[0] % K256.n
        s = pow(k, -1, K256.n) * (int.from_bytes(digest, "big") + r * self.secret) % K256.n
        return r.to_bytes(32, "big") + min(s, K256.n - s).to_bytes(32, "big")

    def lot(self, message):
        """(proof, output) of the VRF."""
        _, proof, output = prove(K256, self.secret, message)
        return proof, output
