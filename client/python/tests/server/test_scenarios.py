"""Scenarios of client/scenarios.json that the other modules lack: one test for each."""

from __future__ import annotations

import http.server
import tempfile
import threading
import time
import unittest
from pathlib import Path
from typing import Any, ClassVar, List, Tuple

from sandgate import (
    Client, Conflict, InvalidArgument, NotFound, PermissionDenied, Sandbox, SandgateError,
    Template, Unauthenticated, verify_webhook,
)  # fmt: skip


class ScenariosTest(unittest.TestCase):
    """Scenarios with one session, which the tests share."""

    client: ClassVar[Client]
    s: ClassVar[Sandbox]

    @classmethod
    def setUpClass(cls) -> None:
        """Create the session."""
        cls.client = Client().__enter__()
        cls.s = Sandbox(client=cls.client)

    @classmethod
    def tearDownClass(cls) -> None:
        """Delete it."""
        cls.s.delete()
        cls.client.__exit__()

    def test_wait_port(self) -> None:
        """The wait ends when a server listens, or with an error if nobody does."""
        self.s.start("sleep 0.5; python3 -m http.server 8401", cwd="/tmp")
        self.s.wait_port(8401)
        self.assertIn(8401, [p["port"] for p in self.s.ports()])
        with self.assertRaises(SandgateError) as raised:
            self.s.wait_port(8402, timeout=1)
        self.assertEqual(raised.exception.kind, "deadline_exceeded")

    def test_file_changes(self) -> None:
        """The files that a command changed since a cursor are reported, and no others."""
        self.s.files["before.txt"] = "x"
        cursor = self.s.files.changes()["cursor"]
        self.s.exec("echo 1 > after.txt", files=False)
        found = self.s.files.changes(cursor)
        paths = [(f["path"], f["change"]) for f in found["files"]]
        self.assertEqual(paths, [("/home/user/after.txt", "created")])

    def test_presence(self) -> None:
        """A watcher of a session gets the news that another one came, and that it left."""

        def until(number: int) -> None:
            while True:
                present = next(watch)
                if present["viewers"] + present["drivers"] == number:
                    return

        with self.client.sandbox() as s:
            watch = s.presence()
            until(1)
            with Client() as other:
                there = Sandbox.connect(s.id, client=other).presence()
                next(there)
                until(2)
                there.close()
            until(1)
            watch.close()

    def test_interrupt(self) -> None:
        """A run that would last is stopped from outside, and the variables stay."""
        self.s.run("kept = 5")
        started = threading.Event()
        results: List[Any] = []

        def run() -> None:
            code = "import time\nprint('on', flush=True)\ntime.sleep(600)"
            results.append(self.s.run(code, on_stdout=lambda _: started.set()))

        thread = threading.Thread(target=run)
        thread.start()
        self.assertTrue(started.wait(30))
        self.s.interrupt()
        thread.join(30)
        self.assertEqual(results[0].error.name, "KeyboardInterrupt")
        self.assertEqual(self.s.run("kept").text, "5")

    def test_reconnect(self) -> None:
        """Output written while the connection was lost arrives once, from the offset on."""
        with Client() as client:
            there = Sandbox.connect(self.s.id, client=client)
            p = there.start("for i in $(seq 40); do echo $i; sleep 0.05; done")
            logs = p.logs()
            lines = [next(logs)]
            client._link.connection.drop_link()
            lines += list(logs)
            self.assertEqual(lines, [f"{i}\n" for i in range(1, 41)])
            self.assertGreaterEqual(client.reconnects, 1)

    def test_flow_control(self) -> None:
        """A reader that stops gets one window ahead, delays nobody, and then gets every byte."""
        size = 8_000_000
        slow = self.s.start(f"head -c {size} /dev/zero | tr '\\0' x")
        events = slow.events()
        first = next(events)
        while slow.running():
            time.sleep(0.02)
        self.assertEqual(self.s.run("6 * 7").text, "42")
        held = events.gi_frame.f_locals["program"].attachment
        self.assertLessEqual(held.received - held.position["offset"], 2 * (256 << 10))
        got = len(first["text"]) + sum(len(e["text"]) for e in events if e["type"] == "stdout")
        self.assertEqual(got, size)

    def test_share_link(self) -> None:
        """The holder of a share link reads the output and cannot run code."""
        self.s.run("print('shown')")
        link = self.s.share("10m")
        with Client(self.client.url, link["token"]) as guest:
            there = Sandbox.connect(self.s.id, client=guest)
            kernel = self.s.kernel()
            self.assertIn("shown", there.text(kernel.id))
            with self.assertRaises(PermissionDenied):
                there.run("1")
        self.s.unshare(link["id"])
        with Client(self.client.url, link["token"]) as guest:
            with self.assertRaises(Unauthenticated):
                guest.sessions()

    def test_tickets(self) -> None:
        """A ticket opens one WebSocket without the token."""
        ticket = self.client.tickets.create()["ticket"]
        with Client(self.client.url, "", ticket=ticket) as guest:
            guest.connect()
            self.assertIn(self.s.id, [x["id"] for x in guest.sessions()])
        with Client(self.client.url, "", ticket=ticket) as guest:
            with self.assertRaises(Unauthenticated):
                guest.connect()

    def test_run_ticket(self) -> None:
        """A ticket that names a session runs code in it, where variables stay."""
        import httpx

        origin = "https://chat.example"
        ticket = self.client.tickets.create_run(origin, uses=2, session=self.s.id)
        for code in ("from_button = 41", "print(from_button + 1)"):
            answer = httpx.post(
                f"{self.client.url}/v1/run", json={"code": code}, timeout=30,
                headers={"Authorization": f"Bearer {ticket['ticket']}", "Origin": origin},
            )  # fmt: skip
            self.assertEqual(answer.status_code, 200, answer.text)
        self.assertEqual(answer.json()["stdout"], "42\n")
        self.assertEqual(self.s.run("from_button").text, "41")

    def test_keys(self) -> None:
        """A new key works, a rotated one has another secret, and a revoked one is refused."""
        keys = self.client.keys
        made = keys.create("driver", name="scenario", expires="1h")
        with Client(self.client.url, made["secret"]) as other:
            other.sessions()
        turned = keys.rotate(made["key"]["id"])
        self.assertNotEqual(turned["secret"], made["secret"])
        self.assertIn(made["key"]["id"], [k["id"] for k in keys.list()])
        keys.revoke(made["key"]["id"])
        for secret in (made["secret"], turned["secret"]):
            with Client(self.client.url, secret) as other, self.assertRaises(Unauthenticated):
                other.sessions()

    def test_errors(self) -> None:
        """A missing name and a bad value are errors with the kind and the field."""
        with self.assertRaises(NotFound) as missing:
            self.client.get_sandbox("there-is-none")
        error: SandgateError = missing.exception
        self.assertEqual((error.kind, error.field), ("not_found", "session"))
        with self.assertRaises(SandgateError) as bad:
            self.s.update(idle_pause_seconds="soon")
        self.assertIn("idle_pause_seconds", str(bad.exception))
        with self.assertRaises(InvalidArgument) as wrong:
            Sandbox("two\nlines", client=self.client)
        error = wrong.exception
        self.assertEqual((error.kind, error.field), ("invalid_argument", "name"))


class LifeScenariosTest(unittest.TestCase):
    """Scenarios with sessions of their own."""

    def setUp(self) -> None:
        """Make a client."""
        self.client = Client().__enter__()
        self.addCleanup(self.client.__exit__)

    def test_fork(self) -> None:
        """Two copies continue with the variables of the original and then differ."""
        with self.client.sandbox() as s:
            s.run("x = 1")
            a, b = s.fork(2)
            with a, b:
                a.run("x += 1")
                self.assertEqual([c.run("x").text for c in (s, a, b)], ["1", "2", "1"])

    def test_snapshot(self) -> None:
        """A new session starts with the state of a snapshot, after the original is deleted."""
        with self.client.sandbox() as s:
            s.run("x = 7")
            saved = s.snapshot()
        self.addCleanup(self.client.snapshots.delete, saved["id"])
        with self.client.sandbox(snapshot=saved["id"]) as started:
            self.assertEqual(started.run("x").text, "7")

    def test_pause_resume(self) -> None:
        """A paused and a hibernated session have their variables in the next run."""
        with self.client.sandbox() as s:
            s.run("x = 7")
            for state in ("paused", "hibernated"):
                frozen = s.pause() if state == "paused" else s.hibernate()
                self.assertEqual(frozen["state"], state)
                self.assertEqual(s.run("x").text, "7")
            s.hibernate()
            self.assertEqual(s.resume()["state"], "running")

    def test_volumes(self) -> None:
        """A file in a volume is there for a second session."""
        name = f"scenario-{id(self)}"
        self.client.volumes.ensure(name)
        self.addCleanup(self.client.volumes.delete, name)
        with self.client.sandbox(volumes=[name]) as s:
            s.exec(f"echo kept > /volumes/{name}/x")
        with self.client.sandbox(volumes={name: "~/data"}) as s:
            self.assertEqual(s.exec("cat data/x").stdout, "kept\n")
        self.assertIn(name, [v["name"] for v in self.client.volumes.list()])

    def test_notebooks(self) -> None:
        """A saved notebook outlives its file, in versions: listed, named, read whole, deleted."""
        first, second = '{"cells": []}', '{"cells": [], "x": "' + "ä" * 200_000 + '"}'
        notebooks = self.client.notebooks
        with self.client.sandbox() as s:
            s.files["n.ipynb"] = first
            (saved,) = notebooks.list(s.id)
            self.assertEqual(saved["path"], "/home/user/n.ipynb")
            (old,) = notebooks.versions(saved["id"])
            notebooks.name(saved["id"], old["id"], "", closed=True)
            s.files["n.ipynb"] = second
            self.assertEqual([v["id"] for v in notebooks.versions(saved["id"])][1:], [old["id"]])
            named = notebooks.name(saved["id"], old["id"], "empty")
            self.assertEqual(named.get("name"), "empty")
            self.assertEqual(notebooks.read(saved["id"], old["id"]), first)
            self.assertEqual(notebooks.read(saved["id"]), second)
            notebooks.delete(saved["id"])
            with self.assertRaises(NotFound):
                notebooks.read(saved["id"])

    def built(self, template: Any, **options: Any) -> str:
        """Build a template that is deleted after the test."""
        name = f"scenario-{id(template)}"
        self.addCleanup(self.client.templates.delete, name)
        self.client.templates.build(name, template, **options)
        return name

    def test_template_builder(self) -> None:
        """A template described by code has its files, services and variables."""
        t = (
            Template("python").describe("a scenario").env(A="b").run("echo 5 > five")
            .file("lib/mine.py", "n = 7").code("import sys; sys.path.insert(0, 'lib')")
            .code("from mine import n").service("web", "python3 -m http.server 8500")
            .limits(cpus=1).bare()
        )  # fmt: skip
        with self.client.sandbox(template=self.built(t)) as s:
            r = s.run("import os; n, os.environ['A'], open('five').read()")
            self.assertEqual(r.text, "(7, 'b', '5\\n')")
            self.assertEqual([x["name"] for x in s.services.list()], ["web"])

    def test_template_yaml(self) -> None:
        """A template that YAML describes is built, and its sessions have its variables."""
        text = "languages: [python]\nbare: true\nenv:\n  A: b\ncode: |\n  import lib\n  x = lib.n\n"
        t = Template.from_yaml(text).file("lib.py", "n = 7")
        with self.client.sandbox(template=self.built(t)) as s:
            self.assertEqual(s.run("import os; x, os.environ['A']").text, "(7, 'b')")
        with self.assertRaises(InvalidArgument) as bad:
            self.client.templates.build("none", Template.from_yaml("lang: [python]"))
        self.assertEqual(bad.exception.field, "lang")
        with self.assertRaisesRegex(InvalidArgument, "code"):
            self.client.templates.build("none", Template.from_yaml("{}").code("1"))

    def test_template_upload(self) -> None:
        """A folder of several MiB is sent in parts with a template and arrives byte for byte."""
        import hashlib
        import os

        with tempfile.TemporaryDirectory() as name:
            for n in range(3):
                (Path(name) / f"{n}.bin").write_bytes(os.urandom(3 << 20))
            files = sorted(Path(name).iterdir())
            sums = [hashlib.sha256(f.read_bytes()).hexdigest() for f in files]
            template = self.built(Template("python").bare().folder(name, "data"))
        with self.client.sandbox(template=template) as s:
            out = s.exec("cd data && sha256sum 0.bin 1.bin 2.bin | cut -d' ' -f1").stdout
            self.assertEqual(out.split(), sums)

    def test_template_progress(self) -> None:
        """The output of a build is reported while it is built."""
        states: List[Tuple[str, str]] = []

        def take(text: str) -> None:
            states.append((self.client.templates.get(name)["state"], text))

        t = Template("python").bare().run("echo first; sleep 2; echo second")
        name = f"scenario-{id(t)}"
        self.built(t, on_log=take)
        text = "".join(part for _, part in states)
        self.assertLess(text.index("first"), text.index("second"))
        self.assertEqual(next(state for state, part in states if "first" in part), "building")
        with self.assertRaisesRegex(Conflict, "broken"):
            self.built(Template("python").bare().run("echo broken; exit 3"))

    def test_usage(self) -> None:
        """The use of a session is reported under its label."""
        mark = f"n{id(self)}"
        with self.client.sandbox(labels={"scenario": mark}) as s:
            s.run("1")
        sums = self.client.usage("label:scenario", since=time.time() - 3600)
        mine = [x for x in sums if x["key"] == mark]
        self.assertEqual([x["sessions"] for x in mine], [1])
        self.assertEqual(self.client.usage(until=time.time() - 86400), [])

    def test_audit(self) -> None:
        """The creation of a session is in the audit log."""
        with self.client.sandbox() as s:
            entries = list(self.client.audit(event="session.create", since=time.time() - 600))
            self.assertIn(s.id, [e.get("session") for e in entries])
            self.assertTrue(all(e["session"] == s.id for e in self.client.audit(session=s.id)))

    def test_webhooks(self) -> None:
        """A webhook gets an event whose signature the client verifies, and is deleted."""
        got: List[Tuple[bytes, str]] = []
        arrived = threading.Event()

        class Receiver(http.server.BaseHTTPRequestHandler):
            """Keeps the requests."""

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                got.append((body, self.headers["Sandgate-Signature"]))
                self.send_response(204)
                self.end_headers()
                arrived.set()

            def log_message(self, *_: Any) -> None:
                pass

        receiver = http.server.HTTPServer(("127.0.0.1", 0), Receiver)
        threading.Thread(target=receiver.serve_forever).start()
        self.addCleanup(receiver.server_close)
        self.addCleanup(receiver.shutdown)
        hooks = self.client.webhooks
        made = hooks.create(f"http://127.0.0.1:{receiver.server_port}/", types=["session.*"])
        try:
            hooks.test(made["id"])
            self.assertTrue(arrived.wait(30), hooks.deliveries(made["id"]))
            body, signature = got[0]
            event = verify_webhook(body, signature, made["secret"])
            self.assertEqual(event["type"], "webhook.test")
            later = signature.replace("t=", "t=1")
            for wrong in ((body + b" ", signature, made["secret"]), (body, signature, "other"),
                          (body, later, made["secret"])):  # fmt: skip
                with self.assertRaises(Unauthenticated):
                    verify_webhook(*wrong)
            self.assertTrue(hooks.update(made["id"], disabled=True)["disabled"])
            self.assertNotEqual(hooks.rotate(made["id"])["secret"], made["secret"])
            self.assertEqual(hooks.resend(made["id"]), 0)
        finally:
            hooks.delete(made["id"])
        with self.assertRaises(NotFound):
            hooks.get(made["id"])

    def test_series(self) -> None:
        """The use of a session in minutes is a list of points that are in order."""
        with self.client.sandbox() as s:
            s.run("1")
            times = [p["time"] for p in s.series()]
            self.assertEqual(times, sorted(times))

    def test_idempotent_create(self) -> None:
        """A creating request that is sent twice with one key creates one thing."""
        link, mark = self.client._link, {"scenario": f"n{id(self)}"}
        calls = [
            link.go(link.connection.call, "session.create", {"labels": labels}, key=f"k{id(self)}")
            for labels in (mark, mark)
        ]
        self.addCleanup(self.client.delete_session, calls[0]["id"])
        self.assertEqual(calls[0]["id"], calls[1]["id"])
        self.assertEqual(len(self.client.sessions(labels=mark)), 1)
        with self.assertRaises(Conflict):
            link.go(link.connection.call, "session.create", {}, key=f"k{id(self)}")
        with self.client.sandbox(labels=mark):
            self.assertEqual(len(self.client.sessions(labels=mark)), 2)

    def test_run_input(self) -> None:
        """An interactive run without a session is answered, and another one is stopped."""
        out = []
        for e in self.client.stream("print('hello', input('n? '))", interactive=True):
            if e["type"] == "start":
                start = e
            elif e["type"] == "input_request":
                self.client.run_input(start, "Ada")
            elif e["type"] == "stdout":
                out.append(e["text"])
        self.assertEqual("".join(out), "hello Ada\n")
        code = "import time; print(1, flush=True); time.sleep(600)"
        for e in self.client.stream(code, interactive=True):
            if e["type"] == "start":
                start = e
            elif e["type"] == "stdout":
                self.client.run_interrupt(start)
        self.assertNotEqual(e["status"], "ok")
