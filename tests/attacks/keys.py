"""What programs of attackers sign by themselves: votes for two blocks, lots of watchers and of proposers. Keys are those that
quern-wallet makes of a seed. Plain Python, and slow."""
import hashlib
import hmac
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "unit", "crypto"))

from vrf_reference import K256, nonce, prove  # noqa: E402


class Key:
    """The key that quern-wallet makes of `seed`."""

    def __init__(self, seed):
        made = hmac.new(b"quern insecure devnet key", seed.encode() + b"\0", hashlib.sha256).digest()
        self.secret = int.from_bytes(made, "big")
        self.public = b"".join(part.to_bytes(32, "big") for part in K256.mul(self.secret, K256.g))

    def signature(self, digest):
        """ECDSA, r || s with low s."""
        k = nonce(K256, self.secret, digest)
        r = K256.mul(k, K256.g)[0] % K256.n
        s = pow(k, -1, K256.n) * (int.from_bytes(digest, "big") + r * self.secret) % K256.n
        return r.to_bytes(32, "big") + min(s, K256.n - s).to_bytes(32, "big")

    def lot(self, message):
        """(proof, output) of the VRF."""
        _, proof, output = prove(K256, self.secret, message)
        return proof, output
