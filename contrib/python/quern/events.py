"""The market's events as eth_getLogs gives them, decoded from the Solidity ABI."""
import struct

# name: (group address' last byte, indexed fields, other fields); types as in the signature
EVENTS = {
    "EvidenceCommitted": (1, [("reporter", "address")], [("commitment", "bytes32"), ("deposit", "uint256")]),
    "EvidenceReleased": (1, [("reporter", "address")], [("deposit", "uint256")]),
    "CheckpointPosted": (3, [("task", "uint64")], [("step", "uint64"), ("stateRoot", "bytes32"), ("loss", "uint32")]),
    "TaskStateChanged": (3, [("task", "uint64")], [("from", "uint8"), ("to", "uint8"), ("reason", "string"),
                                                   ("deadline", "uint64")]),
    "ClaimStateChanged": (3, [("task", "uint64")], [("seat", "uint16"), ("stretch", "uint32"), ("round", "uint32"),
                                                    ("from", "uint8"), ("to", "uint8"), ("reason", "string"),
                                                    ("deadline", "uint64")]),
    "Paid": (3, [("task", "uint64"), ("to", "address")], [("amount", "uint256"), ("reason", "string")]),
    "CustodianDrawn": (4, [("task", "uint64"), ("custodian", "address")], [("stretch", "uint32"), ("place", "uint8")]),
    "LimitsFound": (3, [("task", "uint64")], [("limits", "bytes")]),
    "ProfilerDrawn": (4, [("task", "uint64"), ("profiler", "address")], []),
    "ProfileCommitted": (4, [("task", "uint64"), ("profiler", "address")], [("commitment", "bytes32")]),
    "CustodyReceived": (4, [("task", "uint64"), ("from", "address")], [("stretch", "uint32"), ("dataOk", "bool")]),
    "WatchSealed": (4, [("task", "uint64"), ("watcher", "address")], [("stretch", "uint32"), ("report", "uint8"), ("deposit", "uint256")]),
    "ReportOpened": (4, [("task", "uint64"), ("verifier", "address")],
                     [("stretch", "uint32"), ("choice", "uint8"), ("trueRoot", "bytes32")]),
    "ErrorFound": (4, [("task", "uint64"), ("watcher", "address")], [("stretch", "uint32"), ("report", "uint8")]),
    "DisputeMoved": (5, [("dispute", "uint64"), ("mover", "address")], [("phase", "uint8"), ("round", "uint64")]),
    "DisputeOpened": (5, [("dispute", "uint64"), ("task", "uint64")],
                      [("stretch", "uint32"), ("target", "uint32"), ("defender", "address"), ("rival", "address")]),
    "ChallengeCommitted": (5, [("task", "uint64"), ("challenger", "address")],
                           [("stretch", "uint32"), ("commitment", "bytes32"), ("role", "uint8"), ("stake", "uint256"),
                            ("deposit", "uint256")]),
    "DataChallenged": (5, [("task", "uint64"), ("submitter", "address")],
                       [("slot", "uint32"), ("tile", "uint64"), ("prepaid", "uint256"), ("until", "uint64")]),
    "DataAnswered": (5, [("task", "uint64"), ("from", "address")], [("slot", "uint32"), ("tile", "uint64")]),
    "BondLocked": (2, [("account", "address"), ("task", "uint64")], [("role", "uint8"), ("amount", "uint256"), ("locked", "uint256")]),
    "BondReleased": (2, [("account", "address"), ("task", "uint64")],
                     [("role", "uint8"), ("amount", "uint256"), ("locked", "uint256")]),
    "Slashed": (2, [("account", "address"), ("task", "uint64")], [("role", "uint8"), ("amount", "uint256"), ("reason", "string")]),
}
CHOICES = {1: "truth", 2: "forced"}
ROLES = {1: "solver", 2: "verifier", 3: "whistleblower", 4: "custodian", 5: "relay"}


def f32(bits):
    """The float whose binary32 bits these are."""
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def reserved_address(group):
    return "0x" + "00" * 18 + "51" + f"{group:02x}"


def _value(word, kind):
    if kind.startswith("uint"):
        return int(word, 16)
    if kind == "bool":
        return int(word, 16) != 0
    return "0x" + (word[24:] if kind == "address" else word)


def _decode(data, fields):
    words = [data[i:i + 64] for i in range(0, len(data), 64)]
    values = {}
    for index, (name, kind) in enumerate(fields):
        if kind in ("string", "bytes"):
            at = int(words[index], 16) // 32
            length = int(words[at], 16)
            value = bytes.fromhex("".join(words[at + 1:]))[:length]
            values[name] = value.decode(errors="replace") if kind == "string" else "0x" + value.hex()
        else:
            values[name] = _value(words[index], kind)
    return values


def find(node, name, first_block=0, **indexed):
    """Events called `name`, oldest first, as dicts with "block" and "transaction" besides their fields.

    indexed: values of indexed fields to match, e.g. task=3.
    """
    group, topics, rest = EVENTS[name]
    signature = f"{name}({','.join(kind for _, kind in topics + rest)})"
    wanted = [node.web3_sha3("0x" + signature.encode().hex())]
    for field, kind in topics:
        if field not in indexed:
            wanted.append(None)
        elif kind == "address":
            wanted.append("0x" + indexed[field].lower().removeprefix("0x").rjust(64, "0"))
        else:
            wanted.append(f"0x{indexed[field]:064x}")
    logs = node.eth_getLogs({"fromBlock": hex(first_block), "toBlock": "latest", "address": reserved_address(group),
                             "topics": wanted})
    found = []
    for log in logs:
        event = _decode(log["data"].removeprefix("0x"), rest)
        for (field, kind), topic in zip(topics, log["topics"][1:]):
            event[field] = _value(topic.removeprefix("0x"), kind)
        event["block"] = int(log["blockNumber"], 16)
        event["transaction"] = log["transactionHash"]
        found.append(event)
    return found
