"""Output: when it arrives, and which cell it belongs to."""
import json
import os
import tempfile
import time

from case import KernelCase


class Output(KernelCase):
    def streams(self, code, text):
        """Run a cell that waits until the file {go} exists. The file is created when text has
        arrived."""
        go = os.path.join(tempfile.mkdtemp(), "go")
        id, cell = self.kernel.start(code.replace("{go}", go))
        self.kernel.until(lambda e: text in e.body)
        self.assertNotIn(id, self.kernel.replies)
        open(go, "w").close()
        self.assertEqual(self.kernel.finish(id, cell).reply["status"], "ok")

    def test_progress_line_in_a_busy_loop(self):
        self.streams("import os\nprint('50%', end='\\r')\nwhile not os.path.exists('{go}'): pass", b"50%")

    def test_print_before_sleep(self):
        self.streams("import os, time\nprint('a')\nprint('b')\nwhile not os.path.exists('{go}'): time.sleep(0.2)", b"b")

    def test_command_streams(self):
        self.streams("!echo s1; until [ -e {go} ]; do sleep 0.1; done", b"s1")
        self.streams("%%bash\necho s1; until [ -e {go} ]; do sleep 0.1; done", b"s1")
        self.streams("!python3 -c 'import os; print(\"s1\"); any(iter(lambda: os.path.exists(\"{go}\"), True))'", b"s1")

    def test_display_streams(self):
        self.streams("import os, time\ndisplay('d1')\ndisplay('d2')\nwhile not os.path.exists('{go}'): time.sleep(0.2)", b"d2")

    def test_task_of_an_earlier_cell(self):
        r = self.kernel.run("import asyncio\ngo = asyncio.Event()\nasync def talk():\n    await go.wait(); print('from task')\nt = asyncio.create_task(talk())")
        first = r.cell
        r = self.kernel.run("print('now'); go.set(); await t; print('end')")
        self.assertEqual([(e.cell, e.body) for e in r.events],
                         [(r.cell, b"now\n"), (first, b"from task\n"), (r.cell, b"end\n")])

    def test_thread_of_an_earlier_cell(self):
        r = self.kernel.run("import threading, time\ndef talk():\n    go.wait(); print('from thread')\ngo = threading.Event(); t = threading.Thread(target=talk); t.start()")
        first = r.cell
        r = self.kernel.run("print('now'); go.set(); t.join(); print('end')")
        self.assertIn((first, b"from thread\n"), [(e.cell, e.body) for e in r.events])
        self.assertEqual("".join(e.body.decode() for e in r.events if e.cell == r.cell), "now\nend\n")

    def test_late_output_comes_while_idle(self):
        r = self.kernel.run("import threading\nthreading.Timer(0.1, print, ('late',)).start()")
        event = self.kernel.until(lambda e: b"late" in e.body, 5)
        self.assertEqual(event.cell, r.cell)
        self.kernel.events.clear()

    def test_background_command_goes_on(self):
        self.kernel.run("!(sleep 0.3; echo background) &")
        self.kernel.until(lambda e: b"background" in e.body, 5)
        self.kernel.events.clear()

    def test_threads_lose_nothing(self):
        r = self.kernel.run("import threading\ndef many(n):\n    for i in range(2000): print(f'{n}:{i}')\nts = [threading.Thread(target=many, args=(n,)) for n in range(4)]\n[t.start() for t in ts]; [t.join() for t in ts];")
        self.assertEqual(r.stdout.count("\n"), 8000)
        for n in range(4):
            self.assertEqual(r.stdout.count(f"{n}:"), 2000)

    def test_flood(self):
        begun = time.monotonic()
        r = self.kernel.run("for i in range(200_000): print(i, 'x' * 90)", timeout=60)
        lines = r.stdout.splitlines()
        self.assertEqual((len(lines), lines[-1].split()[0]), (200_000, "199999"))
        self.assertLess(time.monotonic() - begun, 30)

    def test_flood_of_displays(self):
        r = self.kernel.run("for i in range(2000): display(i)")
        self.assertEqual([m["data"]["text/plain"] for m in r.messages("display_data")], [str(i) for i in range(2000)])

    def test_binary_flood(self):
        r = self.kernel.run("import sys\nfor i in range(1000): sys.stdout.buffer.write(bytes(range(256)) * 8);")
        self.assertEqual(b"".join(e.body for e in r.events), bytes(range(256)) * 8000)

    def test_print_while_finalizing(self):
        r = self.kernel.run("import gc\nclass F:\n    def __init__(self): self.me = self\n    def __del__(self): print('deleted')\nfor i in range(500): F(); print('x' * 500)\ngc.collect();")
        self.assertEqual(r.stdout.count("deleted"), 500)

    def test_many_small_frames_are_few_writes(self):
        r = self.kernel.run("for i in range(1000): print(i)")
        self.assertLess(len(r.events), 50)

    def test_expressions(self):
        r = self.kernel.run("n = 20", expressions={"twice": "2 * n", "missing": "m", "text": "'é'"})
        values = r.reply["user_expressions"]
        self.assertEqual(values["twice"]["data"]["text/plain"], "40")
        self.assertEqual(values["text"]["data"]["text/plain"], "'é'")
        self.assertEqual((values["missing"]["status"], values["missing"]["ename"]), ("error", "NameError"))
        self.assertNotIn("user_expressions", self.kernel.run("1/0", expressions={"n": "n"}).reply)
        # An expression that is interrupted ends.
        id, cell = self.kernel.start("print('runs')", expressions={"ever": "next(i for i in iter(int, 1) if i)"})
        self.kernel.until(lambda e: b"runs" in e.body)
        self.kernel.interrupt()
        self.kernel.finish(id, cell)
        self.assertEqual(self.kernel.run("n").value, "20")

    def test_no_history(self):
        count = self.kernel.run("1").reply["execution_count"]
        r = self.kernel.run("hidden = 4\nhidden", no_history=True)
        self.assertEqual(r.value, "4")
        r = self.kernel.run("hidden")
        self.assertEqual((r.value, r.reply["execution_count"]), ("4", count + 1))
        self.assertNotIn("hidden = 4", json.loads(json.dumps(self.kernel.run("str(In)").value)))

    def test_silent(self):
        before = self.kernel.run("0").reply["execution_count"]
        r = self.kernel.run("silent_name = 4\nprint('out')\nsilent_name", silent=True)
        self.assertEqual((r.value, r.stdout, r.reply.get("execution_count")), (None, "out\n", None))
        r = self.kernel.run("silent_name")
        self.assertEqual((r.value, r.reply["execution_count"]), ("4", before + 1))
        self.assertNotIn("silent_name = 4", json.loads(json.dumps(self.kernel.run("str(In)").value)))
