"""input() and its relatives."""
from case import KernelCase


class Input(KernelCase):
    def test_input(self):
        r = self.kernel.run("name = input('Name? ')\nprint('hi', name)", inputs=["Ada"])
        self.assertEqual(r.stdout, "hi Ada\n")
        self.assertEqual(r.messages("input_request"), [{"prompt": "Name? ", "password": False}])

    def test_output_comes_before_the_prompt(self):
        r = self.kernel.run("print('q'); input()", inputs=["a"])
        self.assertEqual([e.kind for e in r.events], [4, 6, 6])

    def test_getpass(self):
        r = self.kernel.run("import getpass; getpass.getpass()", inputs=["s"])
        self.assertEqual(r.messages("input_request"), [{"prompt": "Password: ", "password": True}])
        self.assertEqual(r.value, "'s'")

    def test_readline(self):
        r = self.kernel.run("import sys; sys.stdin.readline()", inputs=["line"])
        self.assertEqual(r.value, "'line\\n'")

    def test_read(self):
        r = self.kernel.run("import sys; sys.stdin.read()", inputs=["a", "b", None])
        self.assertEqual(r.value, "'a\\nb\\n'")

    def test_lines(self):
        r = self.kernel.run("import sys; [l for l in sys.stdin]", inputs=["1", "2", None])
        self.assertEqual(r.value, "['1\\n', '2\\n']")

    def test_bytes(self):
        r = self.kernel.run("import sys; sys.stdin.buffer.readline()", inputs=["ä"])
        self.assertEqual(r.value, "b'\\xc3\\xa4\\n'")

    def test_end(self):
        self.assertEqual(self.kernel.run("input()", inputs=[None]).reply["ename"], "EOFError")
        self.assertEqual(self.kernel.run("import sys; sys.stdin.readline()", inputs=[None]).value, "''")

    def test_interrupt(self):
        r = self.kernel.run("input('x')", inputs=[KeyboardInterrupt])
        self.assertEqual(r.reply["ename"], "KeyboardInterrupt")
        self.assertEqual(self.kernel.run("input('y')", inputs=["later"]).value, "'later'")

    def test_forbidden(self):
        for code in ("input()", "import getpass; getpass.getpass()", "import sys; sys.stdin.readline()"):
            r = self.kernel.run(code, no_input=True)
            self.assertEqual(r.reply["ename"], "StdinNotImplementedError")
            self.assertIn("no_input", r.reply["evalue"])
            self.assertNotIn("driver/", "".join(r.error["traceback"]))

    def test_stale_answer(self):
        self.kernel.send("input", reply=False, value="too late")
        self.kernel.idle(0.05)
        self.assertEqual(self.kernel.run("input()", inputs=["right"]).value, "'right'")

    def test_input_in_async_code(self):
        r = self.kernel.run("import asyncio\nawait asyncio.sleep(0.01)\ninput()", inputs=["z"])
        self.assertEqual(r.value, "'z'")

    def test_input_in_a_thread(self):
        r = self.kernel.run("import asyncio\nawait asyncio.to_thread(input, 'T')", inputs=["t"])
        self.assertEqual(r.value, "'t'")

    def test_complete_while_waiting(self):
        id, cell = self.kernel.start("input()")
        self.kernel._await_input()
        self.assertEqual(self.kernel.ask("is_complete", code="if 1:")["is_complete"], "incomplete")
        later = self.kernel.start("'next'")
        self.kernel.send("input", reply=False, value="v")
        first = self.kernel.wait(id)
        r = self.kernel.finish(*later)
        self.assertEqual((first["status"], r.reply["status"]), ("ok", "ok"))
        self.assertEqual([(e.cell, e.message["content"]["data"]["text/plain"]) for e in r.events
                          if e.message["msg_type"] == "execute_result"], [(cell, "'v'"), (later[1], "'next'")])

    def test_debugger(self):
        r = self.kernel.run("def bug():\n    local = 77\n    1/0\nbug()")
        self.assertEqual(r.reply["ename"], "ZeroDivisionError")
        r = self.kernel.run("%debug", inputs=["p local + 1", "q"])
        self.assertIn("78", r.stdout)
        self.assertEqual(r.messages("input_request")[0]["prompt"], "ipdb> ")

    def test_breakpoint(self):
        r = self.kernel.run("v = 3\nbreakpoint()\nv", inputs=["p v + 100", "c"])
        self.assertIn("103", r.stdout)

    def test_debugger_at_an_error(self):
        r = self.kernel.run("def bug(x):\n    1/0\n%pdb on\nbug(76)", inputs=["p x + 1", "u", "q"])
        self.assertEqual((r.reply["ename"], "77\n" in r.stdout), ("ZeroDivisionError", True))
        self.kernel.run("%pdb off")

    def test_debugger_steps(self):
        r = self.kernel.run("def g():\n    a = 40\n    breakpoint()\n    b = 2\n    return a + b\ng()", inputs=["n", "p a", "w", "c"])
        self.assertEqual(r.value, "42")
        self.assertIn("-> b = 2", r.stdout)

    def test_debugger_is_left(self):
        for inputs in (["q"], [None]):
            r = self.kernel.run("breakpoint()\nafter_quit = 1", inputs=inputs)
            self.assertEqual((r.reply["ename"], r.error["traceback"]), ("BdbQuit", ["BdbQuit: the debugger was quit"]))
        self.assertEqual(self.kernel.run("after_quit").reply["ename"], "NameError")

    def test_interrupt_of_debuggers(self):
        self.kernel.run("1/0")
        for code in ("breakpoint()", "%debug", "import pdb; pdb.set_trace()", "from IPython.core.debugger import set_trace; set_trace()"):
            r = self.kernel.run(f"{code}\nafter_debugger = 1", inputs=[KeyboardInterrupt])
            self.assertEqual(r.reply.get("ename"), "KeyboardInterrupt", r)
            self.assertNotIn("bdb.py", "".join(r.error["traceback"]))
        self.assertEqual(self.kernel.run("after_debugger").reply["ename"], "NameError")
        self.assertEqual(self.kernel.run("import sys; sys.gettrace()").value, None)

    def test_interrupt_after_continue(self):
        r = self.kernel.run("breakpoint()\nprint('go', flush=True)\nwhile True: pass", inputs=["c"], interrupt="go")
        self.assertEqual(r.reply.get("ename"), "KeyboardInterrupt", r)
