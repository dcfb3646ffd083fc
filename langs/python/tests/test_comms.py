"""Widgets and other comms."""
import base64
import unittest

from case import KernelCase


class Comms(KernelCase):
    """The package comm, without widgets."""

    def setUp(self):
        if self.kernel.run("import importlib.util; importlib.util.find_spec('comm') is None").value == "True":
            raise unittest.SkipTest("the package comm is not there")

    def tell(self, kind, **content):
        """Send a message; return the events until the end of the next cell."""
        self.kernel.send("comm", reply=False, comm={"msg_type": kind, "content": content})
        self.kernel.ask("is_complete", code="")
        events, self.kernel.events = self.kernel.events, []
        return events

    def open(self, code=""):
        r = self.kernel.run("import comm\nc = comm.create_comm(target_name='t', data={'a': 1}, buffers=[b'\\x00\\xff'])\n" + code)
        return r, r.messages("comm_open")[0]["comm_id"]

    def test_open(self):
        r, name = self.open()
        self.assertEqual(r.messages("comm_open"), [{"comm_id": name, "data": {"a": 1}, "target_name": "t", "target_module": None, "buffers": ["AP8="]}])

    def test_message(self):
        r, name = self.open("@c.on_msg\ndef _(m):\n    print(m['content']['data'], [bytes(b) for b in m['buffers']], m['metadata'])\n    c.send({'echo': 2})")
        events = self.tell("comm_msg", comm_id=name, data={"v": 7}, buffers=[base64.b64encode(b"raw").decode()], metadata={"m": 1})
        self.assertEqual([(e.cell, e.kind) for e in events], [(r.cell, 4), (r.cell, 6)])
        self.assertEqual(events[0].body, b"{'v': 7} [b'raw'] {'m': 1}\n")
        self.assertEqual(events[1].message, {"msg_type": "comm_msg", "content": {"comm_id": name, "data": {"echo": 2}}})

    def test_close(self):
        r, name = self.open("c.on_close(lambda m: print('closed'))")
        self.assertEqual([e.body for e in self.tell("comm_close", comm_id=name, data={})], [b"closed\n"])
        self.assertEqual(self.tell("comm_close", comm_id=name, data={}), [])

    def test_unknown_is_closed(self):
        for message in ({"kind": "comm_msg", "comm_id": "nowhere", "data": {}}, {"kind": "comm_open", "comm_id": "nowhere", "target_name": "none"}):
            events = self.tell(**message)
            self.assertEqual([e.message for e in events], [{"msg_type": "comm_close", "content": {"comm_id": "nowhere", "data": {}}}])

    def test_target(self):
        self.kernel.run("def opened(c, m):\n    print('opened', m['content']['data'])\n    c.on_msg(lambda m: c.send({'got': m['content']['data']}))\n"
                        "get_ipython().kernel.comm_manager.register_target('mine', opened)")
        self.assertEqual([e.body for e in self.tell("comm_open", comm_id="x1", target_name="mine", data={"q": 1})], [b"opened {'q': 1}\n"])
        events = self.tell("comm_msg", comm_id="x1", data=5)
        self.assertEqual(events[0].message["content"], {"comm_id": "x1", "data": {"got": 5}})

    def test_handler_that_fails(self):
        r, name = self.open("c.on_msg(lambda m: 1/0)")
        events = self.tell("comm_msg", comm_id=name, data={})
        self.assertIn(b"ZeroDivisionError", b"".join(e.body for e in events))
        self.assertEqual({e.cell for e in events}, {r.cell})
        self.assertEqual(self.kernel.run("1").reply["status"], "ok")

    def test_malformed(self):
        for message in (None, 1, {}, [], {"msg_type": "comm_msg"}, {"msg_type": "comm_msg", "content": 1},
                        {"msg_type": "nonsense", "content": {"comm_id": "a"}}, {"msg_type": "comm_msg", "content": {"comm_id": {}}}):
            self.kernel.send("comm", reply=False, comm=message)
        self.assertEqual(self.kernel.run("1").value, "1")
        self.kernel.events.clear()

    def test_handler_during_an_await(self):
        r, name = self.open("import asyncio\ncame = asyncio.Event()\nc.on_msg(lambda m: (print('in between'), came.set()))")
        id, cell = self.kernel.start("print('go', flush=True)\nawait came.wait()\nprint('end')")
        self.kernel.until(lambda e: b"go" in e.body)
        self.kernel.send("comm", reply=False, comm={"msg_type": "comm_msg", "content": {"comm_id": name, "data": {}}})
        got = self.kernel.finish(id, cell)
        self.assertEqual([(e.cell, e.body) for e in got.events], [(cell, b"go\n"), (r.cell, b"in between\n"), (cell, b"end\n")])

    def test_endless_handler_is_interrupted(self):
        r, name = self.open("@c.on_msg\ndef _(m):\n    print('go', flush=True)\n    while True: pass")
        self.kernel.send("comm", reply=False, comm={"msg_type": "comm_msg", "content": {"comm_id": name, "data": {}}})
        self.kernel.until(lambda e: b"go" in e.body)
        self.kernel.interrupt()
        self.kernel.ask("is_complete", code="")
        self.assertIn(b"KeyboardInterrupt", b"".join(e.body for e in self.kernel.events))
        self.kernel.events.clear()


class Widgets(Comms):
    """ipywidgets on top."""

    def setUp(self):
        if self.kernel.run("import importlib.util; importlib.util.find_spec('ipywidgets') is None").value == "True":
            raise unittest.SkipTest("ipywidgets is not there")

    def test_slider(self):
        r = self.kernel.run("import ipywidgets as w\ns = w.IntSlider(value=3, max=10)\n"
                            "s.observe(lambda change: print('now', change['new']), 'value')\ns", timeout=60)
        opened = r.messages("comm_open")
        model = opened[-1]["comm_id"]
        self.assertEqual((opened[-1]["data"]["state"]["value"], opened[-1]["metadata"]["version"][:2]), (3, "2."))
        view = r.messages("execute_result")[0]["data"]
        self.assertEqual(view["application/vnd.jupyter.widget-view+json"]["model_id"], model)
        events = self.tell("comm_msg", comm_id=model, data={"method": "update", "state": {"value": 8}, "buffer_paths": []})
        self.assertIn((r.cell, b"now 8\n"), [(e.cell, e.body) for e in events])
        self.assertEqual(self.kernel.run("s.value").value, "8")
        r = self.kernel.run("s.value = 2")
        self.assertEqual([m["data"]["state"] for m in r.messages("comm_msg")], [{"value": 2}])

    def test_states(self):
        """A page that reconnects requests all states."""
        self.kernel.run("import ipywidgets as w\nlabel = w.Label('kept')", timeout=60)
        self.tell("comm_open", comm_id="control", target_name="jupyter.widget.control", data={}, metadata={"version": "1.0.0"})
        events = self.tell("comm_msg", comm_id="control", data={"method": "request_states"})
        states = events[0].message["content"]["data"]["states"].values()
        self.assertIn("kept", [s["state"].get("value") for s in states])

    def test_interact_and_output(self):
        r = self.kernel.run("from ipywidgets import interact\n@interact(n=(0, 9))\ndef show(n=4): print('n is', n)", timeout=60)
        output = [m["data"]["state"].get("msg_id") for m in r.messages("comm_msg") if "msg_id" in m["data"]["state"]]
        self.assertEqual(output, [str(r.cell), ""])
        self.assertIn("n is 4\n", r.stdout)

    def test_button_that_fails(self):
        r = self.kernel.run("import ipywidgets as w\nb = w.Button()\nb.on_click(lambda b: 1/0)\nb", timeout=60)
        model = r.messages("execute_result")[0]["data"]["application/vnd.jupyter.widget-view+json"]["model_id"]
        events = self.tell("comm_msg", comm_id=model, data={"method": "custom", "content": {"event": "click"}})
        error = [e for e in events if e.kind == 6 and e.message["msg_type"] == "error"]
        self.assertEqual([(e.cell, e.message["content"]["ename"]) for e in error], [(r.cell, "ZeroDivisionError")])
        self.assertEqual(self.kernel.run("1").reply["status"], "ok")
