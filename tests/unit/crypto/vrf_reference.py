#!/usr/bin/env python3
"""ECVRF of RFC 9381 with SHA-256 and try-and-increment, over P-256 and secp256k1, in plain Python and slow.

Checks itself against the RFC's P-256 example (appendix B.1) and prints the secp256k1 vectors of doc/consensus.md, which
vrf_test.cpp holds: an implementation that shares no code with src/crypto/vrf.cpp.
"""
import hashlib
import hmac


class Curve:
    def __init__(self, p, a, b, n, gx, gy, suite):
        self.p, self.a, self.b, self.n, self.g, self.suite = p, a, b, n, (gx, gy), bytes([suite])

    def add(self, P, Q):
        if P is None: return Q
        if Q is None: return P
        if P[0] == Q[0]:
            if (P[1] + Q[1]) % self.p == 0: return None
            m = (3 * P[0] * P[0] + self.a) * pow(2 * P[1], -1, self.p)
        else:
            m = (Q[1] - P[1]) * pow(Q[0] - P[0], -1, self.p)
        x = (m * m - P[0] - Q[0]) % self.p
        return x, (m * (P[0] - x) - P[1]) % self.p

    def mul(self, k, P):
        R = None
        while k:
            if k & 1: R = self.add(R, P)
            P = self.add(P, P)
            k >>= 1
        return R

    def enc(self, P):
        return bytes([2 + (P[1] & 1)]) + P[0].to_bytes(32, "big")

    def dec(self, s):
        x = int.from_bytes(s[1:], "big")
        if x >= self.p: return None
        y2 = (x**3 + self.a * x + self.b) % self.p
        y = pow(y2, (self.p + 1) // 4, self.p)
        if y * y % self.p != y2: return None
        return x, y if (y & 1) == (s[0] & 1) else self.p - y


P256 = Curve(0xffffffff00000001000000000000000000000000ffffffffffffffffffffffff, -3,
             0x5ac635d8aa3a93e7b3ebbd55769886bc651d06b0cc53b0f63bce3c3e27d2604b,
             0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551,
             0x6b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296,
             0x4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5, 0x01)
K256 = Curve(2**256 - 2**32 - 977, 0, 7, 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141,
             0x79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798,
             0x483ada7726a3c4655da4fbfc0e1108a8fd17b448a68554199c47d08ffb10d4b8, 0xFE)


def nonce(curve, x, message):  # RFC 6979, 3.2
    h1 = (int.from_bytes(hashlib.sha256(message).digest(), "big") % curve.n).to_bytes(32, "big")
    v, k = b"\x01" * 32, b"\x00" * 32
    mac = lambda key, m: hmac.new(key, m, hashlib.sha256).digest()
    seed = x.to_bytes(32, "big") + h1
    k = mac(k, v + b"\x00" + seed); v = mac(k, v)
    k = mac(k, v + b"\x01" + seed); v = mac(k, v)
    while True:
        v = mac(k, v)
        t = int.from_bytes(v, "big")
        if 0 < t < curve.n: return t
        k = mac(k, v + b"\x00"); v = mac(k, v)


def prove(curve, sk, alpha):
    Y = curve.enc(curve.mul(sk, curve.g))
    for ctr in range(256):
        H = curve.dec(b"\x02" + hashlib.sha256(curve.suite + b"\x01" + Y + alpha + bytes([ctr]) + b"\x00").digest())
        if H: break
    h = curve.enc(H)
    gamma = curve.enc(curve.mul(sk, H))
    k = nonce(curve, sk, h)
    c = hashlib.sha256(curve.suite + b"\x02" + Y + h + gamma + curve.enc(curve.mul(k, curve.g)) +
                       curve.enc(curve.mul(k, H)) + b"\x00").digest()[:16]
    s = (k + int.from_bytes(c, "big") * sk) % curve.n
    return Y, gamma + c + s.to_bytes(32, "big"), hashlib.sha256(curve.suite + b"\x03" + gamma + b"\x00").digest()


if __name__ == "__main__":
    sk = 0xc9afa9d845ba75166b5c215767b1d6934e50c3db36e89b127b8a622b120f6721
    _, pi, beta = prove(P256, sk, b"sample")
    assert pi.hex() == ("035b5c726e8c0e2c488a107c600578ee75cb702343c153cb1eb8dec77f4b5071b4a53f0a46f018bc2c56e58d383f2305"
                        "e0975972c26feea0eb122fe7893c15af376b33edf7de17c6ea056d4d82de6bc02f"), pi.hex()
    assert beta.hex() == "a3ad7b0ef73d8fc6655053ea22f9bede8c743f08bbed3d38821f0e16474b505e", beta.hex()
    for sk, alpha in ((1, b""), (sk, b"sample"), (K256.n - 1, b"test"), (sk, bytes(range(32)))):
        Y, pi, beta = prove(K256, sk, alpha)
        print(f"key    {sk:064x}\npublic {Y.hex()}\nalpha  {alpha.hex()}\nproof  {pi.hex()}\noutput {beta.hex()}\n")
