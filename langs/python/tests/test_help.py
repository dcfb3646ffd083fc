"""Completion, inspection, is_complete, reseed, and the kernel's end."""
import json
import os
import re
import signal

import harness
from case import KernelCase


class Help(KernelCase):
    def complete(self, code):
        return self.kernel.ask("complete", code=code, cursor=len(code))

    def test_ready(self):
        info = self.kernel.ready["info"]
        self.assertEqual((info["language"], info["file_extension"], info["mimetype"], info["pid"]),
                         ("python", ".py", "text/x-python", self.kernel.process.pid))
        self.assertTrue(info["implementation"].startswith("IPython "))

    def test_complete(self):
        self.kernel.run("alphabet = 1\nimport os")
        reply = self.complete("x = alpha")
        self.assertEqual((reply["cursor_start"], reply["cursor_end"]), (4, 9))
        self.assertEqual([m["text"] for m in reply["matches"]], ["alphabet"])
        self.assertIn(reply["matches"][0]["type"], ("variable", "instance"))
        self.assertIn("path", [m["text"].rpartition(".")[2] for m in self.complete("os.pa")["matches"]])
        self.assertIn("%timeit", [m["text"] for m in self.complete("%timei")["matches"]])
        self.assertEqual(self.complete("zzzz_none")["matches"], [])

    def test_complete_counts_characters(self):
        self.kernel.run("größe = 1")
        reply = self.complete("'😀'; grö")
        self.assertEqual((reply["matches"][0]["text"], reply["cursor_start"]), ("größe", 5))

    def test_complete_in_much_code(self):
        self.kernel.run("alphabet = 1")
        code = "x = '" + "y" * 1_000_000 + "'\nalpha"
        reply = self.complete(code)
        self.assertEqual([m["text"] for m in reply["matches"]], ["alphabet"])
        self.assertEqual((reply["cursor_start"], reply["cursor_end"]), (len(code) - 5, len(code)))

    def test_complete_keys(self):
        self.kernel.run("d = {'key1': 1, 'key2': 2}")
        self.assertIn("key1", [m["text"] for m in self.complete("d['ke")["matches"]])

    def test_complete_while_a_cell_awaits(self):
        id, cell = self.kernel.start("import asyncio\nprint('go', flush=True)\nawait asyncio.sleep(60)")
        self.kernel.until(lambda e: b"go" in e.body)
        self.assertTrue(self.complete("asyn")["matches"])
        self.assertNotIn(id, self.kernel.replies)
        self.kernel.interrupt()
        self.kernel.finish(id, cell)

    def test_inspect(self):
        self.kernel.run("def described(a, b=1):\n    'What it does.'")
        reply = self.kernel.ask("inspect", code="described(", cursor=9)
        self.assertTrue(reply["found"])
        self.assertIn("What it does.", reply["data"]["text/plain"])
        self.assertIn("(a, b=1)", re.sub(r"\x1b\[[0-9;]*m", "", reply["data"]["text/plain"]))
        reply = self.kernel.ask("inspect", code="nothing_like_this", cursor=3)
        self.assertEqual((reply["status"], reply.get("found")), ("ok", False))

    def test_is_complete(self):
        for code, status, indent in (("1 + 1", "complete", ""), ("if 1:", "incomplete", "    "), ("f(", "incomplete", ""),
                                     ("1 +* )", "invalid", ""), ("for i in x:\n    pass", "incomplete", "    ")):
            reply = self.kernel.ask("is_complete", code=code)
            self.assertEqual(reply["is_complete"], status, code)
            if status == "incomplete" and code != "f(":
                self.assertEqual(reply["indent"], indent)

    def test_terminal_and_jedi_are_held_back(self):
        r = self.kernel.run("import sys\n[n for n in ('prompt_toolkit', 'jedi', 'IPython.terminal.interactiveshell') if n in sys.modules]")
        self.assertEqual(r.value, "[]")
        r = self.kernel.run("import IPython, IPython.terminal.embed as e; e.InteractiveShellEmbed.__name__, IPython.embed.__name__", timeout=60)
        self.assertEqual(r.value, "('InteractiveShellEmbed', 'embed')")

    def test_what_is_held_back_is_there(self):
        r = self.kernel.run("import logging.config, urllib.request, pathlib\nlogging.config.dictConfig({'version': 1, 'incremental': True})\n"
                            "pathlib.Path('/tmp/sg_held').write_text('1 + 1')\nurllib.request.urlopen('file:///tmp/sg_held').read(), logging.config.__file__ is not None")
        self.assertEqual(r.value, "(b'1 + 1', True)", r)
        r = self.kernel.run("from IPython.core.magics import code\ncode.urlopen(code.Request('file:///tmp/sg_held')).read()")
        self.assertEqual(r.value, "b'1 + 1'")

    def test_unknown_operation(self):
        self.assertEqual(self.kernel.ask("nonsense")["status"], "error")

    def test_reseed(self):
        draw = "import random, numpy as np, tempfile, os\n(random.random(), np.random.random(), next(tempfile._get_candidate_names()))"
        values = []
        for seed in ("ab" * 32, "ab" * 32, "cd" * 32):
            self.assertEqual(self.kernel.ask("reseed", seed=seed, env={"SG_RESEED": seed[:2]})["status"], "ok")
            values.append(eval(self.kernel.run(draw, timeout=60).value.replace("np.float64", "")))
            self.assertEqual(self.kernel.run("os.environ['SG_RESEED']").value, repr(seed[:2]))
        self.kernel.ask("reseed", seed="ab" * 32)
        again = eval(self.kernel.run(draw).value.replace("np.float64", ""))
        self.assertEqual(again[:2], values[1][:2])
        self.assertNotEqual(values[1][0], values[2][0])
        self.assertNotEqual(values[1][1], values[2][1])
        self.assertNotEqual(values[1][2], values[2][2])

    def test_counts(self):
        first = self.kernel.run("1").reply["execution_count"]
        self.assertEqual([self.kernel.run(c).reply["execution_count"] for c in ("2", "1/0", "(", "3")],
                         [first + 1, first + 2, first + 3, first + 4])

    def test_queue(self):
        ids = [self.kernel.start(f"print({i}); {i}") for i in range(20)]
        replies = [self.kernel.wait(id) for id, _ in ids]
        self.assertEqual([r["status"] for r in replies], ["ok"] * 20)
        counts = [r["execution_count"] for r in replies]
        self.assertEqual(counts, list(range(counts[0], counts[0] + 20)))
        events, self.kernel.events = self.kernel.events, []
        self.assertEqual([e.cell for e in events if e.kind == 4], [c for _, c in ids])

    def test_descriptors_stay_with_the_driver(self):
        r = self.kernel.run("import subprocess, os\nhere = {os.readlink(f'/proc/self/fd/{n}') for n in (3, 4)}\n"
                            "there = subprocess.run(['sh', '-c', 'for f in /proc/$$/fd/*; do readlink $f; done'], capture_output=True, close_fds=False, text=True).stdout.split()\n"
                            "here & set(there)")
        self.assertEqual(r.value, "set()", r)
        r = self.kernel.run("r, w = os.pipe()\npid = os.fork()\nif pid == 0:\n    open_fds = [n for n in (3, 4) if os.path.exists(f'/proc/self/fd/{n}')]\n    os.write(w, repr(open_fds).encode()); os._exit(0)\nos.waitpid(pid, 0)\nos.read(r, 99)")
        self.assertEqual(r.value, "b'[]'", r)

    def test_warm(self):
        with open(os.path.join(os.path.dirname(harness.DRIVER), "..", "manifest.json")) as file:
            warm = json.load(file)["warm"]
        kernel = harness.Kernel()
        try:
            r = kernel.run(warm, silent=True, timeout=120)
            self.assertEqual((r.reply["status"], r.events), ("ok", []), r)
            r = kernel.run("import matplotlib.pyplot as plt\nplt.plot([1]);")
            self.assertEqual((r.reply["execution_count"], len(r.messages("display_data"))), (1, 1))
            self.assertEqual(kernel.run("[n for n in globals() if n.startswith('_f') or n in ('_np', '_pd')]").value, "[]")
        finally:
            kernel.close()


class Memory(KernelCase):
    LIMIT = "import resource\nsize = int(open('/proc/self/statm').read().split()[0]) * 4096\nresource.setrlimit(resource.RLIMIT_AS, (size + (200 << 20), -1))"

    def test_there_is_a_bound(self):
        r = self.kernel.run("import resource; 0 < resource.getrlimit(resource.RLIMIT_AS)[0] < 1 << 50")
        self.assertEqual(r.value, "True")

    def test_programs_are_not_bound(self):
        for code in ("!ulimit -v", "import subprocess; subprocess.run(['sh', '-c', 'ulimit -v']);", "import os; os.system('ulimit -v');"):
            self.assertEqual(self.kernel.run(code).stdout, "unlimited\n", code)
        self.assertEqual(self.kernel.run("import resource; resource.getrlimit(resource.RLIMIT_AS)[0] > 0").value, "True")

    def test_running_out(self):
        """The error is reported, existing values stay, and the memory is released with its
        function."""
        for fill in ("parts.append(bytearray(1 << 24))", "parts.append(object())", "parts.append(str(len(parts)) * 9)"):
            self.kernel.run(self.LIMIT + "\nkept = 5")
            r = self.kernel.run(f"def fill():\n    parts = []\n    while True: {fill}\nfill()", timeout=60)
            self.assertEqual((r.reply.get("ename"), "fill" in "".join(r.error["traceback"])), ("MemoryError", True), r)
            self.assertEqual(self.kernel.run("len(bytearray(100 << 20)), kept").value, f"({100 << 20}, 5)")

    def test_recursion_without_limit(self):
        self.kernel.run("kept = 6")
        r = self.kernel.run("import sys; sys.setrecursionlimit(10**9)\ndef down(n): return down(n + 1)\ndown(0)", timeout=60)
        self.assertEqual(r.reply.get("ename"), "RecursionError", r.reply)
        self.assertEqual(self.kernel.run("sys.setrecursionlimit(3000); kept").value, "6")

    def test_running_out_in_the_session(self):
        self.kernel.run(self.LIMIT)
        self.assertEqual(self.kernel.run("parts = []\nwhile True: parts.append(object())", timeout=60).reply.get("ename"), "MemoryError")
        self.assertEqual(self.kernel.run("print(len(parts) > 1000)").stdout, "True\n")
        self.assertEqual(self.kernel.run("del parts\nlen(bytearray(100 << 20))").value, str(100 << 20))


class End(KernelCase):
    def end(self, code):
        kernel = harness.Kernel()
        kernel.start(code)
        with self.assertRaises(EOFError):
            kernel.idle(10)
        status = kernel.process.wait(5)
        kernel.close()
        return status, kernel.events

    def test_os_exit(self):
        self.assertEqual(self.end("import os; os._exit(5)")[0], 5)

    def test_crash(self):
        status, events = self.end("import ctypes; ctypes.string_at(0)")
        self.assertEqual(status, -signal.SIGSEGV)
        self.assertIn(b"Segmentation fault", b"".join(e.body for e in events))

    def test_end_of_requests(self):
        kernel = harness.Kernel()
        kernel.run("import atexit; atexit.register(lambda: open('ended', 'w').close())")
        self.assertEqual(kernel.close(), 0)
        os.remove("ended")
