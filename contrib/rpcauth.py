#!/usr/bin/env python3
"""Makes a user of quernd's RPC: contrib/rpcauth.py USER [PASSWORD]; without a password it makes one.

The line goes into quern.conf, or on the command line as -rpcauth='...'; the password goes to the client. The node keeps a
salted hash of it (HMAC-SHA-256 with the salt as key), as Bitcoin Core does.
"""
import hashlib
import hmac
import secrets
import sys


def rpcauth(user, password, salt):
    digest = hmac.new(salt.encode(), password.encode(), hashlib.sha256).hexdigest()
    return f"{user}:{salt}${digest}"


def main(arguments):
    if len(arguments) not in (1, 2) or arguments[0] in ("-h", "--help") or not arguments[0] or ":" in arguments[0]:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    password = arguments[1] if len(arguments) == 2 else secrets.token_urlsafe(32)
    print("rpcauth=" + rpcauth(arguments[0], password, secrets.token_hex(16)))
    if len(arguments) == 1:
        print("password: " + password)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
