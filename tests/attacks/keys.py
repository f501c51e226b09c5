"""What programs of attackers sign by themselves: votes for two blocks, lots of watchers. Keys are those that quern-wallet makes
of a seed. Plain Python."""
import hashlib
import hmac

P = 2**256 - 2**32 - 977
N = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141
G = (0x79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798,
     0x483ada7726a3c4655da4fbfc0e1108a8fd17b448a68554199c47d08ffb10d4b8)
MASK = (1 << 64) - 1


def _round_constants():
    bits, state = [], 1
    for _ in range(24 * 7):
        bits.append(state & 1)
        state = (state << 1) ^ (0x171 if state >> 7 else 0)
    return [sum(bits[7 * i + j] << ((1 << j) - 1) for j in range(7)) for i in range(24)]


ROUNDS = _round_constants()
# Lane by lane of rho and pi: where it goes, by how much it turns.
TURNS = []
x, y = 1, 0
for step in range(24):
    TURNS.append((x + 5 * y, y + 5 * ((2 * x + 3 * y) % 5), (step + 1) * (step + 2) // 2 % 64))
    x, y = y, (2 * x + 3 * y) % 5


def _permute(lanes):
    for constant in ROUNDS:
        columns = [lanes[i] ^ lanes[i + 5] ^ lanes[i + 10] ^ lanes[i + 15] ^ lanes[i + 20] for i in range(5)]
        for i in range(5):
            right = columns[(i + 1) % 5]
            flip = columns[(i - 1) % 5] ^ ((right << 1 | right >> 63) & MASK)
            for j in range(i, 25, 5):
                lanes[j] ^= flip
        moved = [lanes[0]] * 25
        for source, target, turn in TURNS:
            moved[target] = (lanes[source] << turn | lanes[source] >> (64 - turn)) & MASK
        for row in range(0, 25, 5):
            for i in range(5):
                lanes[row + i] = moved[row + i] ^ (~moved[row + (i + 1) % 5] & moved[row + (i + 2) % 5])
        lanes[0] ^= constant
    return lanes


def keccak256(data):
    rate = 136
    padded = bytearray(data + b"\x01" + bytes(-(len(data) + 1) % rate))
    padded[-1] |= 0x80
    lanes = [0] * 25
    for start in range(0, len(padded), rate):
        for i in range(rate // 8):
            lanes[i] ^= int.from_bytes(padded[start + 8 * i:start + 8 * i + 8], "little")
        _permute(lanes)
    return b"".join(lane.to_bytes(8, "little") for lane in lanes[:4])


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


def _double(p):
    x, y, z = p
    s, m = 4 * x * y * y % P, 3 * x * x % P
    x3 = (m * m - 2 * s) % P
    return x3, (m * (s - x3) - 8 * pow(y, 4, P)) % P, 2 * y * z % P


def _add(p, q):
    """Jacobian p, which may be None, and affine q, another point."""
    if p is None:
        return *q, 1
    x, y, z = p
    zz = z * z % P
    h, r = (q[0] * zz - x) % P, (q[1] * zz * z - y) % P
    hh = h * h % P
    hhh, v = h * hh % P, x * hh % P
    x3 = (r * r - hhh - 2 * v) % P
    return x3, (r * (v - x3) - y * hhh) % P, z * h % P


def _affine(p):
    inverse = pow(p[2], -1, P)
    return p[0] * inverse * inverse % P, p[1] * pow(inverse, 3, P) % P


def _powers():
    found = [G]
    for _ in range(255):
        found.append(_affine(_double((*found[-1], 1))))
    return found


POWERS = _powers()


def times_g(k):
    sum_ = None
    for bit, point in enumerate(POWERS):
        if k >> bit & 1:
            sum_ = _add(sum_, point)
    return _affine(sum_)


class Key:
    """The key that quern-wallet makes of `seed`; of a network's account it is "{seed}/{name}"."""

    def __init__(self, seed):
        made = hmac.new(b"quern insecure devnet key", seed.encode() + b"\0", hashlib.sha256).digest()
        self.secret = int.from_bytes(made, "big")
        self.public = times_g(self.secret)
        self.public_bytes = b"".join(part.to_bytes(32, "big") for part in self.public)
        self.address = "0x" + keccak256(self.public_bytes)[12:].hex()

    def sign(self, digest, salt=b""):
        """(r, s, y parity) with low s; each salt makes another one."""
        k = int.from_bytes(hmac.new(self.secret.to_bytes(32, "big"), digest + salt, hashlib.sha512).digest(), "big") % N
        x, y = times_g(k)
        r = x % N
        s = pow(k, -1, N) * (int.from_bytes(digest, "big") + r * self.secret) % N
        parity = y & 1
        return (r, N - s, 1 - parity) if s > N // 2 else (r, s, parity)

    def signature(self, digest, salt=b""):
        r, s, _ = self.sign(digest, salt)
        return r.to_bytes(32, "big") + s.to_bytes(32, "big")
