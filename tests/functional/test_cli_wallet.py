#!/usr/bin/env python3
"""quern-cli and quern-wallet as a user types them, against a node."""
import json
import os
import shutil
import subprocess
import unittest

import framework
from quern import rlp
from quern.devnet import QRN, Devnet, program
from quern.processes import wait_until

BOB = "0x00000000000000000000000000000000000000b0"
BID = {"task": 999, "seat": 0, "price": 1, "speedClass": 0, "bandwidthClass": 0}
LARGE = 3_000_017  # bytes of the content that is stored and fetched


def command(name, *arguments, stdin=None):
    return subprocess.run([program(name), *map(str, arguments)], capture_output=True, text=True, input=stdin, timeout=60)


class CliTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = framework.temporary_directory("quern-cli-")
        cls.network = Devnet(cls.directory, {"alice": 1000}, [], block={"min_block_ms": 50, "max_idle_ms": 200}).start()
        cls.alice = cls.network.accounts["alice"]
        cls.nonce = 0

    @classmethod
    def tearDownClass(cls):
        cls.network.stop()
        shutil.rmtree(cls.directory)

    def path(self, name):
        return os.path.join(self.directory, name)

    def cli(self, *arguments, stdin=None, code=0):
        done = command("quern-cli", f"-rpcport={self.network.port}", *arguments, stdin=stdin)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout.strip() if code == 0 else done.stderr

    def wallet(self, *arguments, stdin=None, code=0):
        done = command("quern-wallet", *arguments, stdin=stdin)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout.strip() if code == 0 else done.stderr

    def sign(self, subcommand, *arguments):
        raw = self.wallet(subcommand, "--keystore", self.alice.keystore, "--password-file", self.alice.password_file,
                          "--nonce", type(self).nonce, *arguments)
        type(self).nonce += 1
        return raw

    def settle(self, raw):
        transaction = self.cli("eth_sendRawTransaction", raw)
        return wait_until(lambda: self.network.node.eth_getTransactionReceipt(transaction), 20, "the receipt",
                          alive=[self.network.daemon])

    def test_parameters_are_guessed_from_the_declaration(self):
        self.assertEqual(int(self.cli("eth_getBalance", self.alice.address), 16) > 0, True)
        named = self.cli("-named", "eth_getBalance", "block=latest", "address=" + self.alice.address)
        self.assertEqual(named, self.cli("eth_getBalance", self.alice.address, '"latest"'))
        block = json.loads(self.cli("eth_getBlockByNumber", "0", "false"))  # a decimal number is a quantity
        self.assertEqual(block["number"], "0x0")
        self.assertEqual(json.loads(self.cli("task_get", "7777")), None)
        call = json.dumps({"from": self.alice.address, "to": BOB, "value": "0x1"})
        self.assertEqual(self.cli("eth_estimateGas", call), "0x5208")
        self.assertEqual(self.cli("eth_estimateGas", "@-", stdin=call + "\n"), "0x5208")
        self.assertEqual(self.cli("web3_sha3", "0x"),
                         "0xc5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470")

    def test_help_and_summary(self):
        self.assertIn("eth_getBalance address [block]", self.cli("help"))
        self.assertIn("Arguments:", self.cli("help", "eth_getBalance"))
        self.assertEqual(json.loads(self.cli("-getinfo"))["chainId"], 7878)

    def test_failures_have_their_exit_codes(self):
        unknown = self.cli("eth_nothing", code=1)
        self.assertIn("does not exist", unknown)
        self.assertIn("quern-cli help", unknown)
        much = json.dumps({"from": BOB, "to": self.alice.address, "value": hex(10**30)})
        for method in ("eth_call", "eth_estimateGas"):  # the code and words by which ethers and viem know it
            refused = self.cli(method, much, code=1)
            self.assertIn("error code: -32000", refused)
            self.assertIn("\ninsufficient funds for transfer\n", refused)
        self.assertIn("invalid argument 0", self.cli("eth_getBalance", "0x12", code=1))
        self.assertIn("expected JSON", self.cli("eth_call", "no json", code=2))
        self.cli(code=2)
        done = command("quern-cli", "-rpcport=1", "eth_chainId")
        self.assertEqual(done.returncode, 3)
        self.assertIn("Is quernd running?", done.stderr)

    def test_every_program_has_the_same_exit_codes_and_a_version(self):
        for name in ("quernd", "quern-worker", "quern-cli", "quern-wallet", "quern-genesis", "quern-compile", "quern-train",
                     "quern-measure"):
            self.assertEqual(command(name, "--bogus").returncode, 2, name)
            shown = command(name, "--version")
            self.assertEqual((shown.returncode, shown.stdout.split()[0]), (0, name), shown)
            shown = command(name, "--help")
            self.assertEqual(shown.returncode, 0, name)
            self.assertIn(f"Usage: {name} [OPTIONS]", shown.stdout)
        self.assertEqual(command("quern-compile", "inspect", "/no/such/file").returncode, 1)
        self.assertEqual(command("quern-genesis", "validate", "/no/such/file").returncode, 1)

    def test_every_complaint_names_the_program_and_what_it_is_about(self):
        for name, word in (("quernd", "--bogus"), ("quern-cli", "-bogus"), ("quern-worker", "no option --bogus"),
                           ("quern-train", "no option --bogus")):
            refused = command(name, "--bogus").stderr
            self.assertTrue(refused.startswith(f"{name}: "), refused)
            self.assertIn(word, refused)
            self.assertIn(f"see {name} --help", refused)
        for name in ("quern-wallet", "quern-genesis", "quern-compile"):
            self.assertEqual(command(name, "mkae").stderr, f"{name}: there is no command mkae; see {name} --help\n")
            self.assertIn("A subcommand is required", command(name).stderr)
        self.assertEqual(command("quern-wallet", "transfer", "--to", BOB, "--amount", "1").stderr,
                         "quern-wallet: --nonce is required; see quern-wallet transfer --help\n")
        # An option that is misspelled is not said to be missing.
        self.assertEqual(command("quern-wallet", "transfer", "--nonce", "0", "--to", BOB, "--amont=1").stderr,
                         "quern-wallet: there is no option --amont; see quern-wallet transfer --help\n")

    def test_a_worker_says_which_option_is_wrong(self):
        key = ["--datadir", self.path("worker"), "--key", self.alice.keystore, "--password-file", self.alice.password_file]
        for arguments, words in (([], "give --roles, or at least one of --solver"),
                                 (["--roles", "solver,miner"], "miner; known: solver, verifier, whistleblower"),
                                 (["--solver", "--roles", "auto"], "leave the other options out"),
                                 (["--solver", "--price", "much"], "--price much"),
                                 (["--solver", "--max-fees-per-day", "1.5"], "1.5 QRN is 1.5qrn"),
                                 (["--solver", "--backend", "gpu"], "known: auto"),
                                 (["--solver", "--threads", "-1"], "--threads: "),
                                 (["--solver", "--poll-ms", "-1"], "--poll-ms: -1 is below 0"),
                                 (["--solver", "--debug", "nothing"], "it is one of all, node")):
            refused = command("quern-worker", *key, *arguments)
            self.assertEqual(refused.returncode, 2, refused)
            self.assertIn(words, refused.stderr)
        self.assertIn("--task: -1 is below 0", self.wallet("accept", "--seed", "x", "--nonce", 0, "--task", -1, code=2))

    def test_a_key_has_one_worker_and_what_it_lacks_is_said(self):
        def arguments(name):
            return ["--node", f"http://127.0.0.1:{self.network.port}", "--datadir", self.path(name), "--key", self.alice.keystore,
                    "--password-file", self.alice.password_file, "--roles", "auto", "--rpc-cookie", self.path("no-cookie")]

        log = self.path("first-worker.log")
        first = subprocess.Popen([program("quern-worker"), *arguments("first"), "--logfile", log],
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(first.wait)
        self.addCleanup(first.terminate)

        def said(words):
            if not os.path.exists(log):
                return False
            with open(log) as file:
                return words in file.read()

        wait_until(lambda: said("no bond in any role"), 30, "a worker that says that it has no bond")
        self.assertTrue(said("no-cookie is not there"))
        second = command("quern-worker", *arguments("second"))
        self.assertEqual(second.returncode, 1, second.stderr)
        self.assertIn("worker.key_in_use", second.stderr)

    def test_misspelled_options_are_not_methods(self):
        self.assertIn("unknown option -rpcprot=1234", self.cli("-rpcprot=1234", "eth_chainId", code=2))
        self.assertIn("before the method", self.cli("eth_chainId", "-rpcport=1", code=2))
        self.assertIn("invalid argument 0", self.cli("eth_getBalance", "--", "-x", code=1))
        self.assertIn("invalid argument 0", self.cli("eth_getBalance", "-5", code=1))

    def test_the_port_offset_is_the_nodes(self):
        done = command("quern-cli", f"-rpcport={self.network.port - 3}", "-portoffset=3", "eth_chainId")
        self.assertEqual((done.returncode, done.stdout.strip()), (0, "0x1ec6"), done.stderr)
        with open(self.path("quern.conf"), "w") as file:
            file.write(f"rpcport={self.network.port - 4}\nportoffset=4\n")
        done = command("quern-cli", f"-datadir={self.directory}", "eth_chainId")
        self.assertEqual((done.returncode, done.stdout.strip()), (0, "0x1ec6"), done.stderr)
        self.assertEqual(command("quern-cli", "-rpcport=65535", "-portoffset=1", "eth_chainId").returncode, 2)

    def test_without_the_cookie_it_says_where_it_looked(self):
        refused = self.cli("-datadir=" + self.directory, "admin_nodeInfo", code=1)
        self.assertIn("needs the node's cookie", refused)
        self.assertIn(f"no cookie in {self.directory}/.cookie", refused)
        self.assertIn("-datadir=DIR", refused)
        self.assertIn("enode", self.cli("-datadir=" + self.network.daemons[0].datadir, "admin_nodeInfo"))

    def test_contents_go_in_and_come_out_checked(self):
        source, target = self.path("content"), self.path("content.copy")
        with open(source, "wb") as file:
            file.write(bytes(i * 7 % 251 for i in range(LARGE)))
        identifier = self.cli("content", "put", source)
        self.assertEqual(identifier, self.cli("content", "put", source))
        self.cli("content", "get", identifier, target)
        with open(source, "rb") as one, open(target, "rb") as other:
            self.assertEqual(one.read(), other.read())
        self.assertIn("content.not_found: 0x1111",
                      self.cli("content", "get", "0x" + "11" * 32, self.path("none"), code=1))
        self.assertFalse(os.path.exists(self.path("none")))
        self.cli("content", "get", "xyz", self.path("none"), code=2)
        self.cli("content", "put", self.path("missing"), code=1)

    def test_wallet_signs_what_the_node_takes(self):
        before = int(self.cli("eth_getBalance", BOB), 16)
        for kind in (0, 1, 2):
            self.assertEqual(self.settle(self.sign("transfer", "--to", BOB, "--amount", "0.25qrn", "--type", kind))["type"],
                             hex(kind))
        self.assertEqual(int(self.cli("eth_getBalance", BOB), 16) - before, 3 * QRN // 4)
        self.assertEqual(self.settle(self.sign("bond", "--role", "verifier", "--amount", "2qrn"))["status"], "0x1")
        self.assertEqual(
            self.settle(self.sign("bond", "--role", "verifier", "--amount", "3qrn", "--via-abi"))["status"], "0x1")
        bonds = json.loads(self.cli("stake_roles", self.alice.address))
        self.assertEqual([(b["roleName"], int(b["bonded"], 16)) for b in bonds], [("verifier", 5 * QRN)])
        failed = self.settle(self.sign("native", "task_bid", json.dumps(BID)))
        self.assertEqual(failed["status"], "0x0")
        self.assertIn("task.", failed["quern"]["failure"])
        transaction = {"to": BOB, "value": 5, "gas": 21000, "maxFeePerGas": "10000000000", "maxPriorityFeePerGas": 1,
                       "nonce": type(self).nonce}
        raw = self.wallet("sign", "--keystore", self.alice.keystore, "--password-file", self.alice.password_file,
                          json.dumps(transaction))
        type(self).nonce += 1
        self.assertEqual(self.settle(raw)["status"], "0x1")

    def test_stake_comes_and_goes(self):
        genesis = json.loads(self.cli("stake_epoch", "0"))["members"][0]["publicKey"]
        validator = next(v for v in json.loads(self.cli("stake_validators"))["validators"] if v["publicKey"] == genesis)
        for arguments in (("--amount", "3qrn"), ("--amount", "2qrn", "--via-abi")):
            receipt = self.settle(self.sign("delegate", "--validator", validator["address"], *arguments))
            self.assertEqual(receipt["status"], "0x1")
        mine = json.loads(self.cli("stake_delegations", self.alice.address))
        self.assertIn((validator["address"].lower(), 5 * QRN),
                      [(d["validator"].lower(), int(d["value"], 16)) for d in mine])
        self.assertEqual(self.settle(self.sign("undelegate", "--validator", validator["address"], "--amount", "1qrn"))
                         ["status"], "0x1")
        leaving = json.loads(self.cli("stake_unbondings", self.alice.address))[0]["entries"]
        self.assertEqual([int(entry["amount"], 16) for entry in leaving], [QRN])
        early = self.settle(self.sign("withdraw-stake", "--validator", validator["address"]))
        self.assertIn("stake.nothing_to_withdraw", early["quern"]["failure"])
        pool = json.loads(self.cli("stake_validator", validator["address"]))
        self.assertEqual(int(pool["stake"], 16), int(validator["stake"], 16) + 4 * QRN)

    def test_a_key_becomes_a_validator_with_its_consent(self):
        keystore = self.path("second-validator.json")
        self.wallet("new", "--keystore", keystore, "--password-file", self.alice.password_file, "--light")
        receipt = self.settle(self.sign("create-validator", "--validator-key", keystore, "--validator-password-file",
                                        self.alice.password_file, "--amount", "1qrn"))
        self.assertEqual(receipt["status"], "0x1")
        validators = json.loads(self.cli("stake_validators"))["validators"]
        self.assertEqual([v["stake"] for v in validators if v["owner"].lower() == self.alice.address.lower()],
                         [hex(QRN)])
        refused = self.wallet("submit-evidence", "--seed", "x", "--nonce", 0, "--max-fee", "0", "--tip", "0",
                              "--at-once", "--evidence", "0xc0", code=1)
        self.assertIn("rlp.", refused)

    def test_evidence_is_shown_when_its_commitment_is_old(self):
        # Two NOTARIZE of one who is in no committee: the wallet takes them, the node does not.
        votes = [[b"\x02", bytes([block]) * 32, b"\x01" * 64] for block in (1, 2)]
        evidence = "0x" + rlp.encode([b"", b"\x03", b"\x07" * 64, *votes]).hex()
        self.assertEqual(len(self.wallet("submit-evidence", "--seed", "x", "--nonce", 0, "--at-once", "--evidence",
                                         evidence).split()), 1)
        signed = self.sign("submit-evidence", "--evidence", evidence).split()
        start = self.network.node.height()
        said = self.cli("evidence", *signed, code=1)
        self.assertIn("evidence.not_in_committee", said)
        self.assertGreaterEqual(self.network.node.height(), start + 8)
        self.assertIn("usage", self.cli("evidence", signed[0], code=2))
        before = self.network.node.number("eth_getBalance", self.alice.address)
        erased = self.settle(self.sign("native", "evidence_commit", json.dumps({"commitment": "0x" + 64 * "0"})))
        self.assertEqual(erased["status"], "0x1")
        price = int(self.network.node.quern_params()["market"]["storage_deposit_per_byte"])
        fee = int(erased["gasUsed"], 16) * int(erased["effectiveGasPrice"], 16)
        self.assertEqual(self.network.node.number("eth_getBalance", self.alice.address), before + 128 * price - fee)

    def test_wallet_keeps_secrets_and_files(self):
        keystore = self.path("new.json")
        made = self.wallet("new", "--keystore", keystore, "--password-file", self.alice.password_file, "--light")
        self.assertNotIn("privateKey", made)
        self.assertEqual(os.stat(keystore).st_mode & 0o777, 0o600)
        self.assertIn("not overwritten", self.wallet("new", "--keystore", keystore, "--password-file",
                                                     self.alice.password_file, "--light", code=1))
        wrong = self.path("wrong")
        with open(os.open(wrong, os.O_CREAT | os.O_WRONLY, 0o600), "w") as file:
            file.write("something else\n")
        self.assertIn(f"wrong_password: {keystore}",
                      self.wallet("address", "--keystore", keystore, "--password-file", wrong, code=1))
        shown = json.loads(self.wallet("address", "--keystore", keystore, "--password-file", self.alice.password_file,
                                       "--show-private-key"))
        hexadecimal = self.path("key.hex")
        with open(os.open(hexadecimal, os.O_CREAT | os.O_WRONLY, 0o600), "w") as file:
            file.write(shown["privateKey"] + "\n")
        imported = json.loads(self.wallet("import", "--from", hexadecimal, "--keystore", self.path("imported.json"),
                                          "--password-file", self.alice.password_file, "--light"))
        self.assertEqual(imported["address"], shown["address"])
        os.chmod(hexadecimal, 0o644)
        self.assertIn("permissions", self.wallet("address", "--keystore", hexadecimal, code=1))

    def test_a_password_that_others_may_read_makes_no_keystore(self):
        password, keystore = self.path("open-password"), self.path("not-made.json")
        with open(password, "w") as file:
            file.write("word\n")
        os.chmod(password, 0o644)
        refused = self.wallet("new", "--keystore", keystore, "--password-file", password, "--light", code=1)
        self.assertIn(f"chmod 600 {password}", refused)
        self.assertFalse(os.path.exists(keystore))

    def test_the_address_alone_fits_into_a_shell_variable(self):
        self.assertEqual(self.wallet("address", "--keystore", self.alice.keystore, "--password-file",
                                     self.alice.password_file, "--plain"), self.alice.address)

    def test_missing_options_of_a_task_are_named_at_once(self):
        refused = self.wallet("price", "--steps", "10", code=2)
        self.assertIn("--program, --init, --data, --interval, --price-cap", refused)
        self.assertIn("--spec", refused)
        self.assertIn("--program", self.wallet("submit-task", "--seed", "x", "--nonce", "0", code=2))

    def test_a_task_whose_data_set_does_not_fit_is_not_priced_and_not_signed(self):
        short, longer = self.path("short.txt"), self.path("longer.txt")
        for name, words in ((short, 60), (longer, 90)):
            with open(name, "w") as file:
                file.write("abcdefgh " * words)
        path = {name: self.path(name) for name in ("arch.json", "program.bin", "init.st", "fits.u8", "other.u8")}
        data = json.loads(command("quern-compile", "dataset", "--out", path["fits.u8"], longer).stdout)
        command("quern-compile", "dataset", "--out", path["other.u8"], short)
        with open(path["arch.json"], "w") as file:
            json.dump({"format": "quern-arch-1", "batch": 2, "data": {"dtype": data["dtype"], "elements": data["elements"]},
                       "model": {"type": "char_transformer", "layers": 1, "d_model": 8, "heads": 2, "context": 8,
                                 "mlp_ratio": 2, "vocab": data["vocab"]},
                       "optimizer": {"type": "adamw", "lr": 1e-2, "betas": [0.9, 0.99], "eps": 1e-8, "weight_decay": 0.1,
                                     "warmup": 2, "total_steps": 10, "grad_clip": 1.0}}, file)
        command("quern-compile", "program", "--arch", path["arch.json"], "--out", path["program.bin"])
        refused = command("quern-compile", "program", "--arch", path["arch.json"], "--out", path["program.bin"], "--update",
                          self.path("update.bin"))
        self.assertIn("compile.update_file", refused.stderr)
        command("quern-compile", "init", "--arch", path["arch.json"], "--out", path["init.st"])
        task = ["--program", path["program.bin"], "--init", path["init.st"], "--steps", 10, "--interval", 5, "--price-cap", 1]
        self.assertIn("escrow", self.wallet("price", *task, "--data", path["fits.u8"]))
        # The chain's own prices count, and a limit is not held against others.
        params = json.dumps(self.network.node.quern_params())
        told = json.loads(self.wallet("price", *task, "--data", path["fits.u8"], "--params", params))
        self.assertGreater(int(told["escrow"]["grains"]), 0)
        limited = ["submit-task", "--seed", "x", "--nonce", 0, *task, "--data", path["fits.u8"], "--max-escrow"]
        self.assertIn("--params @FILE", self.wallet(*limited, "1qrn", code=1))
        self.assertIn("above_max_escrow", self.wallet(*limited, "1", "--params", params, code=1))
        self.assertIn("plan.bad_body", self.wallet("price", *task, "--data", path["fits.u8"], "--plan", "[[3]]", code=1))
        for refused in (self.wallet("price", *task, "--data", path["other.u8"], code=1),
                        self.wallet("submit-task", "--seed", "x", "--nonce", 0, *task, "--data", path["other.u8"], code=1)):
            self.assertIn("task.wrong_data_size", refused)
            self.assertIn(path["other.u8"], refused)
            self.assertIn(f"{data['elements']} elements of u8", refused)

    def test_genesis_names_the_option_that_is_wrong(self):
        def refused(*arguments):
            done = command("quern-genesis", "make", *arguments)
            self.assertEqual(done.returncode, 1, done.stdout)
            return done.stderr

        self.assertIn("--alloc 0x12: expected 40 hex digits", refused("-alloc=0x12:1qrn"))
        self.assertIn("--alloc much", refused(f"-alloc={BOB}:much"))
        self.assertIn("--bond 0x12", refused("-bond=solver:0x12:1qrn"))
        self.assertIn("--validator: none.json", refused("-validator=none.json:1qrn"))
        small = refused(f"-validator={self.alice.keystore}:1", f"-validatorpassword={self.alice.password_file}")
        self.assertRegex(small, r"stake_too_small: .* stakes 1 grains, the least is \d{10,}")
        validator = (f"-validator={self.alice.keystore}:1qrn", f"-validatorpassword={self.alice.password_file}")
        self.assertIn("bond_too_small", refused(f"-bond=solver:{BOB}:0.5qrn", *validator))
        self.assertIn("another one needs --chainid", refused("-network=mars", *validator))
        own = json.loads(command("quern-genesis", "make", "-network=mars", "-chainid=9", *validator).stdout)
        self.assertEqual((own["network"], own["chain_id"]), ("mars", 9))
        # Only a devnet may do with fewer than three verifiers.
        self.assertIn("min_verifiers", refused("-network=testnet", "-market=min_verifiers=2", *validator))
        made = {name: json.loads(command("quern-genesis", "make", f"-network={name}", *validator).stdout) for name in ("testnet", "devnet")}
        self.assertEqual([made[name]["market"]["min_verifiers"] for name in ("testnet", "devnet")], [3, 1])
        self.assertEqual([made[name]["market"]["custodians"] for name in ("testnet", "devnet")], [12, 0])
        with open(self.path("broken.json"), "w") as file:
            file.write("{,")
        done = command("quern-genesis", "validate", self.path("broken.json"))
        self.assertIn(self.path("broken.json"), done.stderr)

    def test_wallet_refuses_mistakes(self):
        for arguments in (["transfer", "--to", "0xAA", "--amount", "1"], ["transfer", "--to", BOB, "--amount", "1.5"],
                          ["transfer", "--to", BOB, "--amount", "-1"], ["transfer", "--to", BOB, "--amount", "1", "--type", "3"],
                          ["transfer", "--to", BOB, "--amount", "1", "--tip", "20gwei"],
                          ["transfer", "--to", BOB, "--amount", "1", "--gas", "20000"],
                          ["bond", "--role", "king", "--amount", "1"], ["native", "no_kind", "{}"],
                          ["native", "task_bid", '{"task": 1}'], ["native", "task_bid", json.dumps({**BID, "x": 2})],
                          ["native", "task_bid", "{"]):
            self.wallet(arguments[0], "--seed", "x", "--nonce", 0, *arguments[1:], code=1)
        self.wallet("transfer", "--seed", "x", "--to", BOB, "--amount", "1", code=2)  # the nonce is missing
        self.wallet(code=2)
        self.assertIn("no_key", self.wallet("address", code=1))
        self.assertIn("--to 0xAA: expected 40 hex digits",
                      self.wallet("transfer", "--seed", "x", "--nonce", 0, "--to", "0xAA", "--amount", "1", code=1))


if __name__ == "__main__":
    framework.main()
