"""Interrupts: what they stop, what they keep, and what they must not hit."""
import os
import random
import time

from case import KernelCase

# Name and code of cells that must end in KeyboardInterrupt once they have printed "go".
ENDLESS = {
    "loop": "print('go', flush=True)\nwhile True: pass",
    "loop that counts": "n = 0\nprint('go', flush=True)\nwhile True: n += 1",
    "sleep": "import time\nprint('go', flush=True)\ntime.sleep(100)",
    "await": "import asyncio\nprint('go', flush=True)\nawait asyncio.sleep(100)",
    "await of nothing": "import asyncio\nprint('go', flush=True)\nawait asyncio.Event().wait()",
    "asyncio.run": "import asyncio\nprint('go', flush=True)\nasyncio.run(asyncio.sleep(100))",
    "run_until_complete": "import asyncio\nprint('go', flush=True)\nasyncio.get_event_loop().run_until_complete(asyncio.sleep(100))",
    "busy async": "import asyncio\nprint('go', flush=True)\nwhile True: await asyncio.sleep(0)",
    "subprocess": "import subprocess\nprint('go', flush=True)\nsubprocess.run(['sleep', '100'])",
    "os.system": "import os\nprint('go', flush=True)\nwhile True: os.system('sleep 100')",
    "command": "!echo go; sleep 100",
    "command that ignores SIGINT": "!trap '' INT; echo go; sleep 100; sleep 100",
    "command into a variable": "print('go', flush=True)\nx = !sleep 100",
    "bash": "%%bash\necho go\nsleep 100",
    "swallowing Exception": "import time\nprint('go', flush=True)\nwhile True:\n    try:\n        time.sleep(0.01)\n    except Exception:\n        pass",
    "deep recursion": "import sys\nprint('go', flush=True)\ndef deep(n):\n    return deep(n - 1) if n else 0\nwhile True: deep(500)",
    "printing": "while True: print('go')",
    "queue": "import queue\nprint('go', flush=True)\nqueue.Queue().get()",
    "lock": "import threading\nprint('go', flush=True)\nl = threading.Lock(); l.acquire(); l.acquire()",
    "join": "import threading, time\nt = threading.Thread(target=time.sleep, args=(3,), daemon=True); t.start()\nprint('go', flush=True)\nt.join()",
    "list comprehension": "import itertools\nprint('go', flush=True)\n[None for _ in itertools.repeat(0) if _]",
    "generator in C": "import itertools\nprint('go', flush=True)\nsum(x for x in itertools.count())",
    "code of a task": "import asyncio\nasync def spin():\n    print('go', flush=True)\n    while True: pass\nawait asyncio.create_task(spin())",
}


class Endless(KernelCase):
    """Interrupts each of them. The session's names must exist afterwards."""


def add(name, code):
    def test(self):
        self.kernel.run("kept = 41")
        r = self.kernel.run(code, interrupt="go")
        self.assertEqual((r.reply["status"], r.reply.get("ename")), ("error", "KeyboardInterrupt"), r)
        self.assertEqual(len(r.messages("error")), 1, r)
        self.assertNotIn("driver/", "".join(r.error["traceback"]))
        self.assertEqual(self.kernel.run("kept + 1").value, "42")

    setattr(Endless, "test_" + name.replace(" ", "_").replace(".", "_"), test)


for name, code in ENDLESS.items():
    add(name, code)


class Interrupt(KernelCase):
    def test_later_calls_are_whole(self):
        """A C call in the cell behind an interrupted one is not cut by signals for that one."""
        self.kernel.run("import ctypes; usleep = ctypes.CDLL(None, use_errno=True).usleep")
        for code in (ENDLESS["sleep"], ENDLESS["loop"], "print('go', flush=True)\nusleep(900_000_000)"):
            r = self.kernel.run(code, interrupt="go")
            self.assertEqual(r.reply.get("ename"), "KeyboardInterrupt", r)
            self.assertEqual(self.kernel.run("usleep(700_000)").value, "0", code)

    def test_only_the_driver(self):
        for code in ("import subprocess\nprint('go', flush=True)\nsubprocess.run(['sleep', '100'])",
                     "!echo go; sleep 100", "%%bash\necho go\nsleep 100", "import os\nprint('go', flush=True)\nos.system('sleep 100')"):
            id, cell = self.kernel.start(code)
            self.kernel.until(lambda e: b"go" in e.body)
            self.kernel.interrupt(group=False)
            r = self.kernel.finish(id, cell)
            self.assertEqual(r.reply.get("ename"), "KeyboardInterrupt", r)

    def test_right_after_the_request(self):
        """A cell that is unread when its interrupt comes, or is about to begin, is interrupted; the
        cell after it is not."""
        for i in range(150):
            id, cell = self.kernel.start("import time\nwhile True: time.sleep(1)")
            time.sleep(random.choice((0, 0, i * 20e-6)))
            self.kernel.interrupt()
            r = self.kernel.finish(id, cell)
            self.assertEqual(r.reply.get("ename"), "KeyboardInterrupt", r)
            self.assertNotIn("driver/", "".join(r.error["traceback"]))
            self.assertEqual(self.kernel.run(f"{i}").value, str(i))
            r = self.kernel.run("In[-3], len(In) - 1")
            self.assertEqual(r.value, str(("import time\nwhile True: time.sleep(1)", r.reply["execution_count"])))

    def test_between_the_steps_of_a_task(self):
        """A task that awaits nothing is as often in the loop as in the cell."""
        for i in range(60):
            r = self.kernel.run(ENDLESS["busy async"], interrupt="go")
            self.assertEqual(r.reply.get("ename"), "KeyboardInterrupt", r)

    def test_with_nothing_to_interrupt(self):
        """An interrupt during a help request stops no cell."""
        for i in range(50):
            id = self.kernel.send("complete", code="impo", cursor=4)
            self.kernel.interrupt()
            self.kernel.wait(id)
            self.assertEqual(self.kernel.run(f"{i}").value, str(i))

    def test_finally_runs(self):
        for code in ("import time\ntry:\n    print('go', flush=True); time.sleep(100)\nfinally:\n    print('cleaned')",
                     "import asyncio\ntry:\n    print('go', flush=True); await asyncio.sleep(100)\nfinally:\n    await asyncio.sleep(0.01); print('cleaned')",
                     "import asyncio\nasync def f():\n    try:\n        print('go', flush=True); await asyncio.sleep(100)\n    finally:\n        print('cleaned')\nasyncio.run(f())"):
            r = self.kernel.run(code, interrupt="go")
            self.assertEqual(r.reply.get("ename"), "KeyboardInterrupt", r)
            self.assertIn("cleaned", r.stdout)

    def test_noted_right_before_a_call(self):
        """A signal that another thread receives leaves the main thread's call waiting, as does a
        signal right before the call."""
        start = "import threading, signal\nthreading.Timer(0.1, signal.raise_signal, [signal.SIGINT]).start()\n"
        for wait in ("import time; time.sleep(60)", "input()", "import asyncio; await asyncio.sleep(60)",
                     "import asyncio; asyncio.run(asyncio.sleep(60))", "import subprocess; subprocess.run(['sleep', '60'])",
                     "import queue; queue.Queue().get()"):
            with self.subTest(wait):
                r = self.kernel.run(start + wait)
                self.assertEqual(r.reply.get("ename"), "KeyboardInterrupt")
                self.assertEqual(self.kernel.run("6 * 7").value, "42")

    def test_noted_right_before_a_call_after_a_fork(self):
        """The waker runs again when fork returns."""
        r = self.kernel.run("import os, signal, threading, time\nfor _ in range(20):\n    if not (pid := os.fork()): os._exit(0)\n    os.waitpid(pid, 0)\n"
                            "threading.Timer(0.1, signal.raise_signal, [signal.SIGINT]).start()\ntime.sleep(60)")
        self.assertEqual(r.reply.get("ename"), "KeyboardInterrupt")

    def test_noted_right_before_a_call_after_many(self):
        """Signals that are handled late must not hide the next one."""
        start = "import threading, signal, time\nthreading.Timer(0.1, signal.raise_signal, [signal.SIGINT]).start()\ntime.sleep(60)"
        for _ in range(3):
            self.kernel.run("try:\n    import signal, time\n    for _ in range(20):\n        try: signal.raise_signal(2)\n        except KeyboardInterrupt: time.sleep(0.003)\nexcept KeyboardInterrupt: pass")
            r = self.kernel.run(start)
            self.assertEqual(r.reply.get("ename"), "KeyboardInterrupt")

    def test_command_that_runs(self):
        """A command with captured output ends the cell when it is interrupted, and is not treated
        as one that has ended."""
        for code in ("x = !touch begun; sleep 100", "!!touch begun; sleep 100", "%sx touch begun; sleep 100"):
            id, cell = self.kernel.start(code + "\nprint('went on')")
            while not os.path.exists(self.path("begun")):
                self.kernel.idle(0.05)
            self.kernel.idle(0.2)
            self.kernel.interrupt()
            r = self.kernel.finish(id, cell)
            self.assertEqual((r.reply.get("ename"), r.stdout), ("KeyboardInterrupt", ""), r)
            os.remove(self.path("begun"))

    def test_fork_does_not_warn(self):
        r = self.kernel.run("import os, warnings\nwarnings.simplefilter('error')\npid = os.fork()\n"
                            "if not pid: os._exit(3)\nos.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])")
        self.assertEqual(r.value, "3")

    def test_idle(self):
        for _ in range(5):
            self.kernel.interrupt()
            self.kernel.idle(0.02)
        r = self.kernel.run("1")
        self.assertEqual((r.reply["status"], r.stderr, r.value), ("ok", "", "1"))

    def test_late(self):
        for _ in range(30):
            self.assertEqual(self.kernel.run("2").reply["status"], "ok")
            self.kernel.interrupt()
            r = self.kernel.run("import time; time.sleep(0.001)")
            # The signal was sent before the cell.
            self.assertEqual(r.reply["status"], "ok", r)

    def swallow(self, body):
        """Interrupt a loop around body, once."""
        return self.kernel.run(f"import asyncio, time\nwhile True:\n    try:\n        print('go', flush=True)\n        {body}\n"
                               f"    except BaseException:\n        pass\n", interrupt="go")

    def test_swallowing_all(self):
        """One interrupt is enough for a loop that swallows everything."""
        self.kernel.run("kept = 43")
        for body in ("time.sleep(0.05)", "time.sleep(50)", "pass", "for i in range(1000): i * i", "asyncio.run(asyncio.sleep(5))",
                     "print('x' * 100)", "await asyncio.sleep(1)", "await asyncio.sleep(0)", "await asyncio.Event().wait()",
                     "await asyncio.create_task(asyncio.sleep(9))", "await asyncio.gather(asyncio.sleep(9), asyncio.sleep(8))",
                     "await asyncio.to_thread(time.sleep, 0.5)", "!sleep 5"):
            for _ in range(10):
                r = self.swallow(body)
                self.assertEqual(r.reply.get("ename"), "KeyboardInterrupt", (body, r))
                if r.reply["evalue"]:
                    break  # otherwise the interrupt came between two rounds, outside of try
            self.assertIn("swallowed", r.reply["evalue"], body)
            self.assertNotIn("driver/", "".join(r.error["traceback"]))
            self.assertEqual(self.kernel.run("kept").value, "43")
        self.assertEqual(self.kernel.run("import sys; sys.gettrace(), sys.monitoring.get_tool(4)").value, "(None, None)")

    def test_swallowing_in_a_function(self):
        loop = "while True:\n        try:\n            await asyncio.sleep(1)\n        except BaseException:\n            pass\n"
        for call in ("await f()", "asyncio.run(f())", "await asyncio.create_task(f())", "await asyncio.gather(f(), f())",
                     "asyncio.get_event_loop().run_until_complete(f())",
                     "async with asyncio.TaskGroup() as tg:\n    tg.create_task(f())\n    tg.create_task(f())"):
            r = self.kernel.run(f"import asyncio\nasync def f():\n    asyncio.get_running_loop().call_later(0.05, lambda: print('go', flush=True))\n    {loop}{call}", interrupt="go")
            self.assertEqual(r.reply.get("ename"), "KeyboardInterrupt", (call, r))
            self.assertEqual(self.kernel.run("[t for t in asyncio.all_tasks() if t.get_coro().__name__ == 'f']").value, "[]", call)

    def test_swallowing_below_another(self):
        """Two nested loops that both swallow interrupts; the code outside of them cleans up."""
        r = self.kernel.run("import time\ndef inner():\n    while True:\n        try:\n            time.sleep(9)\n        except BaseException:\n            pass\n"
                            "try:\n    print('go', flush=True)\n    while True:\n        try:\n            inner()\n        except BaseException:\n            pass\n"
                            "finally:\n    print('cleaned')\n    print('up')", interrupt="go")
        self.assertEqual(r.reply.get("ename"), "KeyboardInterrupt", r)
        self.assertTrue(r.stdout.endswith("cleaned\nup\n"), r)

    def test_leaving_is_not_swallowing(self):
        """Code that handles an interrupt and then moves forward may end as it likes."""
        for code in ("running = True\nwhile running:\n    try:\n        print('go', flush=True)\n        time.sleep(100)\n    except KeyboardInterrupt:\n        running = False\n"
                     "for i in range(3):\n    time.sleep(0.1)\nprint('saved')",
                     "try:\n    while True:\n        print('go', flush=True)\n        time.sleep(100)\nexcept KeyboardInterrupt:\n    for i in range(3): time.sleep(0.1)\nprint('saved')",
                     "try:\n    print('go', flush=True)\n    while True: await asyncio.sleep(1)\nexcept (asyncio.CancelledError, KeyboardInterrupt):\n    for i in range(3): await asyncio.sleep(0.1)\nprint('saved')"):
            r = self.kernel.run("import asyncio, time\n" + code, interrupt="go")
            self.assertEqual((r.reply["status"], r.stdout[-6:]), ("ok", "saved\n"), r)

    def test_second_interrupt_goes_through_a_library(self):
        with open(self.path("stubborn_library.py"), "w") as file:
            file.write("import asyncio\nasync def wait():\n    while True:\n        try:\n            await asyncio.sleep(9)\n        except BaseException:\n            pass\n")
        self.kernel.run("import sys, stubborn_library, asyncio\nstubborn_library.__spec__\n"
                        "import types\nstubborn_library.wait.__code__ = stubborn_library.wait.__code__.replace(co_filename=sys.prefix + '/lib/x.py')")
        for call in ("await stubborn_library.wait()", "await asyncio.gather(stubborn_library.wait())"):
            id, cell = self.kernel.start(f"print('go', flush=True)\n{call}")
            self.kernel.until(lambda e: b"go" in e.body)
            for _ in range(2):
                self.kernel.idle(0.3)  # by now it waits in the library
                self.kernel.interrupt()
            r = self.kernel.finish(id, cell, timeout=60)
            self.assertEqual(r.reply.get("ename"), "KeyboardInterrupt", r)

    def test_code_that_handles_it(self):
        r = self.kernel.run("import time\ntry:\n    print('go', flush=True); time.sleep(100)\nexcept KeyboardInterrupt:\n    print('handled')", interrupt="go")
        self.assertEqual((r.reply["status"], "handled" in r.stdout), ("ok", True), r)

    def test_own_handler_does_not_stay(self):
        self.kernel.run("import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)")
        r = self.kernel.run("print('go', flush=True)\nwhile True: pass", interrupt="go")
        self.assertEqual(r.reply.get("ename"), "KeyboardInterrupt", r)

    def test_flood(self):
        """Continuous output that nobody reads stops at the next frame that is read."""
        id, cell = self.kernel.start("while True: print('z' * 200)")
        self.kernel.until(lambda e: e.kind == 4)
        time.sleep(0.2)
        self.kernel.interrupt()
        r = self.kernel.finish(id, cell)
        self.assertEqual(r.reply.get("ename"), "KeyboardInterrupt")

    def test_background_task_goes_on(self):
        self.kernel.run("import asyncio\nticks = 0\nasync def tick():\n    global ticks\n    while True:\n        ticks += 1\n        await asyncio.sleep(0.01)\nt = asyncio.create_task(tick())")
        r = self.kernel.run("print('go', flush=True)\nawait asyncio.sleep(100)", interrupt="go")
        self.assertEqual(r.reply.get("ename"), "KeyboardInterrupt", r)
        before = int(self.kernel.run("ticks").value)
        self.kernel.idle(0.2)
        self.assertGreater(int(self.kernel.run("t.cancel(); ticks").value), before)

    def test_blocked_by_a_task(self):
        """A task of an earlier cell that never awaits is stopped when a cell waits."""
        self.kernel.run("import asyncio\nasync def spin():\n    await asyncio.sleep(0.05)\n    while True: pass\nt = asyncio.create_task(spin())")
        self.kernel.idle(0.2)
        id, cell = self.kernel.start("7")
        self.kernel.idle(0.1)
        self.kernel.interrupt()
        self.assertEqual(self.kernel.finish(id, cell).value, "7")

    def test_many(self):
        """Many signals at random moments leave a kernel that works."""
        for i in range(40):
            id, cell = self.kernel.start("for i in range(300): print(i); display(i)\nimport asyncio\nawait asyncio.sleep(0.01)\n1/0")
            self.kernel.idle(i * 0.0007)
            self.kernel.interrupt()
            self.kernel.interrupt()
            r = self.kernel.finish(id, cell)
            self.assertIn(r.reply.get("ename"), ("KeyboardInterrupt", "ZeroDivisionError"), r.reply)
        self.kernel.idle(0.05)
        self.assertEqual(self.kernel.run("print('fine')").stdout, "fine\n")
