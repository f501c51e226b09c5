#!/usr/bin/env python3
"""Tasks whose contents lie at https and s3 alone, servers that misbehave, and results delivered to both."""
import json
import os
import socket
import unittest
import unittest.mock
import urllib.error
import urllib.request

import framework
import npm
from quern.market import TextJob, spec_options, submit
from test_train import Run, Trains
from uri_servers import KEY_ID, SECRET, S3rver, Server, SignedServer, make_certificate

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "s3")
BUCKET = "quern-test"
STEPS, INTERVAL = 20, 10
CUT = 20_000  # bytes after which a connection breaks


class UrisTest(framework.MarketTest, Trains):
    @classmethod
    def setUpClass(cls):
        npm.install(SOURCE)
        super().setUpClass()
        cls.certificate = make_certificate(cls.directory)
        cls.bucket = S3rver(SOURCE, os.path.join(cls.directory, "s3"), BUCKET)
        cls.addClassCleanup(cls.bucket.close)
        cls.net.wait_until(lambda: cls.listens(cls.bucket.port), 30, "s3rver")
        cls.credentials = os.path.join(cls.directory, "credentials")
        with open(cls.credentials, "w") as file:
            file.write(f"[default]\naws_access_key_id = {KEY_ID}\naws_secret_access_key = {SECRET}\n")
        cls.made = 0

    @staticmethod
    def listens(port):
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    def server(self, kind=Server, secure=True):
        server = kind(self.certificate if secure else None)
        self.addCleanup(server.close)
        return server

    def new_job(self):
        """One that no node has anything of."""
        type(self).made += 1
        own = os.path.join(self.directory, f"text{self.made}")
        with open(own, "w") as file:
            file.write(f"This is the text of job {self.made} alone.\n")
        return TextJob(os.path.join(self.directory, f"job{self.made}"), None, [*framework.licence_texts()[:4], own], layers=1,
                       d_model=32, context=32, batch=4, total_steps=STEPS + self.made, seed=self.made)

    def into_bucket(self, key, file):
        with open(file, "rb") as body:
            request = urllib.request.Request(f"{self.bucket.url}/{BUCKET}/{key}", body.read(), method="PUT")
        with urllib.request.urlopen(request, timeout=10) as answer:
            self.assertEqual(answer.status, 200)

    def rest_into_bucket(self, job):
        """All but the data, by their content ids."""
        for file, content in [*zip(job.programs, job.contents["programs"]), (job.init, job.contents["init"])]:
            self.into_bucket("contents/" + content.removeprefix("0x"), file)
        return f"s3://{BUCKET}/contents/"

    def fetching(self, *more):
        return " ".join(["--uris=https,s3", "--uris-private", f"--ca-file={self.certificate[0]}",
                         f"--s3-endpoint={self.bucket.url}", f"--s3-credentials={self.credentials}", *more])

    def submit_at(self, job, *uris, **windows):
        spec = spec_options(self.net, job, STEPS, INTERVAL, **{**framework.WINDOWS, "bid_s": 20, **windows})
        return submit(self.net, self.net.accounts["submitter"], [*spec, *(word for uri in uris for word in ("--uri", uri))])

    def has(self, content):
        """Whether the node has it itself."""
        try:
            with urllib.request.urlopen(urllib.request.Request(f"{self.net.node.url}/content/{content}", method="HEAD"),
                                        timeout=10) as answer:
                return answer.status == 200
        except urllib.error.HTTPError as error:
            self.assertEqual(error.code, 404)
            return False

    def log(self, name):
        with open(os.path.join(self.directory, name + ".log")) as file:
            return file.read()

    def read(self, path):
        with open(path, "rb") as file:
            return file.read()

    def test_a_task_whose_contents_lie_elsewhere_alone_is_trained(self):
        job, server = self.new_job(), self.server()
        server.files["/data.u8"] = data = self.read(job.data[0])
        self.assertGreater(len(data), CUT)
        self.workers(solver1=self.fetching())
        self.verifiers(self.fetching())
        content = job.contents["data"][0]
        self.assertFalse(self.has(content))
        number = self.submit_at(job, f"{server.url}/cut/{CUT}/data.u8#{content.removeprefix('0x')}", self.rest_into_bucket(job))
        self.settled(number)
        self.assertTrue(self.has(content))
        asked = [first for _, first in server.requests]
        self.assertEqual(asked, list(range(0, len(data), CUT)), "each went on where the last one broke")
        self.assertEqual(os.listdir(os.path.join(self.net.directory, "workers", "solver1", "sources")), [])
        for name in ("solver1", "verifier1"):
            self.assertNotIn(SECRET + " ", self.log(name))

    def test_servers_that_misbehave_cost_time_alone(self):
        job, server = self.new_job(), self.server()
        server.files["/data.u8"] = self.read(job.data[0])
        plain = self.server(secure=False)
        plain.files = server.files
        server.leads = {"file": "file://" + job.data[0], "http": plain.url + "/data.u8"}
        self.workers(solver1=self.fetching("--uris-patience-s=6"))
        self.verifiers(self.fetching())
        number = self.submit_at(
            job, *(f"{server.url}/{mode}/data.u8" for mode in ("wrong", "short", "endless", "drip")),
            f"{server.url}/to/file", f"{server.url}/to/http",
            f"{server.url}/data.u8", self.rest_into_bucket(job), bid_s=90)
        self.settled(number)
        for mode in ("wrong", "short", "endless", "drip", "to/file", "to/http"):
            self.assertTrue(server.asked("/" + mode), mode)
        self.assertEqual(plain.requests, [], "from https nobody is led to http")

    def test_by_default_nothing_leads_to_this_machine(self):
        job, server = self.new_job(), self.server()
        for file, content in [*zip(job.programs, job.contents["programs"]), (job.init, job.contents["init"]),
                              (job.data[0], job.contents["data"][0])]:
            server.files["/" + content.removeprefix("0x")] = self.read(file)
        plain = self.server(secure=False)
        plain.files = server.files
        self.workers(solver1=f"--ca-file={self.certificate[0]}")
        number = self.submit_at(job, server.url + "/", plain.url + "/", f"s3://{BUCKET}/contents/",
                                "file://" + os.path.dirname(job.init) + "/", bid_s=8)
        self.assertEqual(self.wait(number)["stateName"], "expired")
        self.assertEqual((server.requests, plain.requests), ([], []))
        self.assertIn("transfer.forbidden_address", self.log("solver1"))
        self.assertFalse(self.has(job.contents["init"]))

    def trained(self, *outputs, endpoint, secret=SECRET, region="us-east-1", model, more=("--local",)):
        """A quern-train that delivers, with S3's keys from the environment."""
        given = {"AWS_ACCESS_KEY_ID": KEY_ID, "AWS_SECRET_ACCESS_KEY": secret, "AWS_REGION": region,
                 "AWS_ENDPOINT_URL_S3": endpoint}
        with unittest.mock.patch.dict(os.environ, given):
            return Run([*model, *more, f"--ca-file={self.certificate[0]}",
                        *(word for output in outputs for word in ("--output", output))])

    def on_market(self):
        account = self.net.accounts["submitter"]
        return ["--node", self.net.nodes[0].url, "--rpc-cookie", self.net.daemons[0].datadir + "/.cookie", "--keystore",
                account.keystore, "--password-file", account.password_file, "--budget", "5qrn", "--poll-ms", 200,
                "--interval", INTERVAL, "--stride", 5, "--tax", "0.01qrn", "--yes",
                *(f"--{name.replace('_', '-')}={seconds}" for name, seconds in framework.WINDOWS.items())]

    def test_quern_train_takes_data_from_https_and_delivers_to_s3_and_https(self):
        server, model = self.server(), self.make_model("delivered")
        server.files["/data.u8"] = self.read(model[3])
        self.workers(solver1=self.fetching())
        self.verifiers(self.fetching())
        task = [*self.on_market(), "--uri", f"{server.url}/cut/{CUT}/data.u8", "--data-elsewhere"]
        outputs = (f"s3://{BUCKET}/results/", f"{server.url}/model?X-Signature=private")
        running = self.trained(*outputs, endpoint=self.bucket.url, model=model, more=task)
        self.assertEqual(running.end(), 0, running.said)
        self.assertTrue(server.asked("/cut/"))
        self.assertNotIn(model[3], [event["file"] for event in running.events if event["event"] == "uploading"])
        delivered = [event for event in running.events if event["event"] == "delivered"]
        self.assertEqual([(event["to"], event["before"], event["verified"]) for event in delivered],
                         [(f"s3://{BUCKET}/results/delivered.safetensors", False, True), (f"{server.url}/model", False, True)])
        result = self.read(model[5])
        self.assertEqual(server.files["/model"], result)
        with urllib.request.urlopen(f"{self.bucket.url}/{BUCKET}/results/delivered.safetensors", timeout=10) as answer:
            self.assertEqual(answer.read(), result)
        # The same command sends nothing that is there.
        del server.files["/model"]
        again = self.trained(*outputs, endpoint=self.bucket.url, model=model, more=task)
        self.assertEqual(again.end(), 0, again.said)
        self.assertEqual([event["before"] for event in again.events if event["event"] == "delivered"], [True, False])
        self.assertNotIn("private", json.dumps([*running.events, *again.events]))
        self.assertNotIn(SECRET, running.said + again.said)

    def test_signatures_are_amazons(self):
        model, s3 = self.make_model("signed"), self.server(SignedServer, secure=False)
        target = "s3://some.bucket/a%20b/c+d=e(1)/model.safetensors"
        given = dict(endpoint=s3.url, model=model, region=s3.region)
        refused = self.trained(target, secret="another", **given)
        error = self.error(refused)
        self.assertEqual(error["name"], "transfer.refused")
        self.assertNotIn("another", json.dumps(refused.events) + refused.said)
        self.assertEqual(s3.files, {})
        self.assertTrue(os.path.exists(model[5]), "the result is here all the same")
        running = self.trained(target, **given)
        self.assertEqual(running.end(), 0, running.said)
        self.assertTrue(running.last("delivered")["verified"])
        self.assertEqual(s3.files, {"/some.bucket/a%20b/c%2Bd%3De%281%29/model.safetensors": self.read(model[5])})

    def test_what_cannot_be_delivered_is_refused_before_it_is_paid(self):
        model = self.make_model("undeliverable")
        for output, name in ((f"s3://{BUCKET}/a", "transfer.no_credentials"), ("ftp://a/b", "uri.unknown_scheme"),
                             ("http://example.org/a", "transfer.insecure"), ("https://me:word@example.org/a", "uri.has_credentials")):
            with self.subTest(output):
                found = self.error(Run([*model, "--local", "--output", output]))
                self.assertEqual(found["name"], name)
        self.assertFalse(os.path.exists(model[5]))
        server = self.server()  # of an authority that nobody named
        running = Run([*model, "--local", "--output", server.url + "/a"])
        self.assertEqual(self.error(running)["name"], "transfer.tls_failed")
        self.assertEqual(server.files, {})


if __name__ == "__main__":
    framework.main()
