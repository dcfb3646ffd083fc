"""A table of cells: their output, their values, their failures."""
import base64
import re

from case import KernelCase

ANSI = re.compile(r"\x1b\[[0-9;]*m")


def trace(r):
    return ANSI.sub("", "\n".join(r.error["traceback"]))


def data(r, kind="display_data", n=0):
    return r.messages(kind)[n]["data"]


def is_png(r, n=0):
    return base64.b64decode(data(r, n=n)["image/png"]).startswith(b"\x89PNG")


# Each row: name, code or several cells of which the last counts, expectations. out, err, value and
# ename are exact; has is text in the traceback, hasnot must not be there; check is called with the
# result.
TABLE = [
    # Values.
    ("value", "1 + 1", dict(value="2")),
    ("no value", "x = 3", dict(value=None, out="")),
    ("value of the last line only", "1\n2", dict(value="2")),
    ("semicolon", "41;", dict(value=None)),
    ("None", "None", dict(value=None)),
    ("underscore", ["6 * 7", "_ + 1"], dict(value="43")),
    ("two underscores", ["1", "2", "__"], dict(value="1")),
    ("Out and In", ["'a' * 2", "Out[max(Out)], In[-2]"], dict(value="""('aa', "'a' * 2")""")),
    ("empty cell", "", dict(out="", value=None)),
    ("comment only", "# nothing", dict(out="", value=None)),
    ("Unicode", "'äöü→😀'", dict(value="'äöü→😀'")),
    ("long list is cut", "list(range(100000))", dict(check=lambda r: r.value.endswith("...]"))),
    ("huge text is cut", "'x' * 20_000_000", dict(check=lambda r: len(r.value) < 2_000_000 and "20000002 characters" in r.value)),
    ("repr that fails", "class R:\n    def __repr__(self): raise ValueError('no repr')\nR()", dict(check=lambda r: r.error["ename"] == "ValueError")),
    # Names.
    ("names stay", ["counter = 1", "counter += 1\ncounter"], dict(value="2")),
    ("main", "__name__, __import__('sys').modules['__main__'].__dict__ is globals()", dict(value="('__main__', True)")),
    ("pickle", "import pickle\nclass P:\n    def __init__(self): self.v = 5\npickle.loads(pickle.dumps(P())).v", dict(value="5")),
    ("redefine", ["def f(): return 1\ndef g(): return f()", "def f(): return 2", "g()"], dict(value="2")),
    ("type hints and dataclass", "from dataclasses import dataclass\n@dataclass\nclass D:\n    a: int\nD(1)", dict(value="D(a=1)")),
    ("working directory is importable", ["open('mymod.py', 'w').write('V = 9')", "import mymod; mymod.V"], dict(value="9")),
    ("driver's modules are not in the way", "import importlib.util\n[importlib.util.find_spec(n) for n in ('wire', 'streams', 'server', 'harness')]", dict(value="[None, None, None, None]")),
    ("user site is on the path", "import site, sys; site.getusersitepackages() in sys.path", dict(value="True")),
    ("argv and path", "import sys; sys.argv, sys.path[0]", dict(value="([''], '')")),
    # Failures.
    ("error", "1/0", dict(ename="ZeroDivisionError", has=["Cell In[", "line 1", "1/0"], hasnot=["_sandgate", "driver/", "run_code", "interactiveshell"])),
    ("error keeps what was done", ["done = 1\nraise KeyError('k')", "done"], dict(value="1")),
    ("error in a function", "def inner(v):\n    return v['a']\ninner({})", dict(ename="KeyError", has=["inner(v)", "line 3", "line 2"], hasnot=["run_code"])),
    ("chained error", "try:\n    1/0\nexcept ZeroDivisionError as e:\n    raise RuntimeError('outer') from e", dict(ename="RuntimeError", has=["direct cause", "ZeroDivisionError"])),
    ("error of an earlier cell's function", ["def boom():\n    raise LookupError('boom')", "boom()"], dict(ename="LookupError", has=["in boom()"])),
    ("error in async code", "async def af():\n    raise OSError('async')\nawait af()", dict(ename="OSError", has=["await af()"], hasnot=["driver/", "run_code"])),
    ("error through asyncio.run", "import asyncio\nasync def ar():\n    raise OSError('ar')\nasyncio.run(ar())", dict(ename="OSError", hasnot=["driver/", "_sandgate"])),
    ("exception group", "raise ExceptionGroup('g', [ValueError(1), TypeError(2)])", dict(ename="ExceptionGroup", has=["ValueError: 1", "TypeError: 2"], hasnot=["driver/", "run_code"])),
    ("syntax error", "def f(:\n    pass", dict(ename="SyntaxError", has=["Cell In[", "line 1", "^"])),
    ("indentation error", "if True:\nx = 1", dict(ename="IndentationError")),
    ("nothing of a cell with a syntax error runs", ["sx = 1", "sx = 2\n)", "sx"], dict(value="1")),
    ("recursion", "def r(): return r()\nr()", dict(ename="RecursionError")),
    ("error whose text fails", "class E(Exception):\n    def __str__(self): raise TypeError('x')\nraise E", dict(ename="E")),
    ("huge error", "raise ValueError('x' * 50_000_000)", dict(ename="ValueError", check=lambda r: len(r.reply["evalue"]) < 100_000)),
    ("raise a class of a cell", "class Mine(Exception): pass\nraise Mine('m')", dict(ename="Mine", check=lambda r: r.reply["evalue"] == "m")),
    ("unknown magic", "%nosuchmagic", dict(ename="UsageError")),
    ("exit", "exit()", dict(code=0)),
    ("exit without brackets", "exit", dict(code=0)),
    ("quit", "quit()", dict(code=0)),
    ("exit with a number", "exit(4)", dict(code=4, ename="SystemExit")),
    ("sys.exit", "import sys; sys.exit()", dict(code=0)),
    ("sys.exit with a number", "import sys; sys.exit(3)", dict(code=3, ename="SystemExit")),
    ("sys.exit with a text", "import sys; sys.exit('bad')", dict(code=1, ename="SystemExit", check=lambda r: r.reply["evalue"] == "bad")),
    ("exit ends the cell", "print('a')\nexit(0)\nprint('b')", dict(code=0, out="a\n")),
    ("the kernel lives after exit", ["kept = 8", "raise SystemExit", "kept"], dict(value="8")),
    # Output.
    ("print", "print('a', 1)", dict(out="a 1\n")),
    ("stderr", "import sys; print('e', file=sys.stderr)", dict(err="e\n", out="")),
    ("order of the streams", "import sys\nfor i in range(3):\n    print(i)\n    print(i, file=sys.stderr)",
     dict(check=lambda r: [(e.kind, e.body) for e in r.events] == [(k, b"%d\n" % i) for i in range(3) for k in (4, 5)])),
    ("output before result", "print('p')\n5", dict(check=lambda r: [e.kind for e in r.events] == [4, 6])),
    ("bytes", "import sys; sys.stdout.write('a'); sys.stdout.buffer.write(bytes([0, 255, 128])); sys.stdout.write('b');",
     dict(check=lambda r: b"".join(e.body for e in r.events) == b"a\x00\xff\x80b")),
    ("lone surrogate", r"print('\ud800x')", dict(out="\\ud800x\n")),
    ("lone surrogate as value", r"'\ud800'", dict(check=lambda r: "ud800" in r.value)),
    ("write wants text", "import sys; sys.stdout.write(1)", dict(ename="TypeError")),
    ("stream methods", "import sys; sys.stdout.reconfigure(line_buffering=True); sys.stdout.writelines(['a', 'b']); sys.stdout.fileno(), sys.stdout.isatty(), sys.stdout.encoding",
     dict(out="ab", value="(1, False, 'utf-8')")),
    ("closed stream goes on", ["import sys; sys.stdout.close()", "print('still')"], dict(out="still\n")),
    ("redirect", "import contextlib, io\nb = io.StringIO()\nwith contextlib.redirect_stdout(b): print('hidden')\nb.getvalue()", dict(out="", value="'hidden\\n'")),
    ("one big write", "import sys; sys.stdout.write('y' * 9_000_000);", dict(check=lambda r: len(r.stdout) == 9_000_000 and max(len(e.body) for e in r.events) <= 1 << 20)),
    ("C code", "import ctypes; c = ctypes.CDLL(None); print('py'); c.puts(b'from C')\nprint('py2');", dict(check=lambda r: "from C\n" in r.stdout and "py\n" in r.stdout)),
    ("descriptor 1 in order", "import os\nfor i in range(5):\n    print('p', i)\n    os.write(1, b'w %d\\n' % i);", dict(out="".join(f"p {i}\nw {i}\n" for i in range(5)))),
    ("child in order", "import subprocess\nfor i in range(3):\n    print('p', i)\n    subprocess.run(['echo', 'c', str(i)]);", dict(out="".join(f"p {i}\nc {i}\n" for i in range(3)))),
    ("os.system in order", "import os\nprint('a'); os.system('echo b; echo c >&2'); print('d')", dict(check=lambda r: r.stdout == "a\nb\nd\n" and r.stderr == "c\n")),
    ("os.system's status", "import os; os.waitstatus_to_exitcode(os.system('exit 3'))", dict(value="3")),
    ("fork", "import os\nprint('before')\npid = os.fork()\nif pid == 0:\n    print('child')\n    os._exit(0)\nos.waitpid(pid, 0)\nprint('after')", dict(out="before\nchild\nafter\n", err="")),
    ("fork without an end", "import os\npid = os.fork()\nif pid == 0:\n    print('in child')\nelse:\n    os.waitpid(pid, 0)", dict(out="in child\n")),
    ("multiprocessing", "import multiprocessing as mp\ndef sq(x): return x * x\nwith mp.get_context('fork').Pool(2) as p: print(p.map(sq, range(4)))", dict(out="[0, 1, 4, 9]\n")),
    ("multiprocessing by spawn", "with mp.get_context('spawn').Pool(1) as p: print(p.map(abs, [-1, 2]))", dict(out="[1, 2]\n", timeout=60)),
    ("executor of processes", "from concurrent.futures import ProcessPoolExecutor\nwith ProcessPoolExecutor(2) as ex: print(list(ex.map(sq, range(3))))", dict(out="[0, 1, 4]\n", timeout=60)),
    ("executor of threads", "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(2) as ex: print(list(ex.map(sq, range(3))))", dict(out="[0, 1, 4]\n")),
    ("no thread that user code could join", "import threading\nprint('x'); [t.name for t in threading.enumerate()]", dict(value="['MainThread']")),
    ("thread", "import threading\nt = threading.Thread(target=print, args=('in thread',)); t.start(); t.join()", dict(out="in thread\n", check=lambda r: all(e.cell == r.cell for e in r.events))),
    ("error in a thread", "import threading\nt = threading.Thread(target=lambda: 1/0); t.start(); t.join()", dict(check=lambda r: "ZeroDivisionError" in r.stderr)),
    ("warning", "import warnings; warnings.warn('careful')", dict(check=lambda r: "careful" in r.stderr)),
    ("logging", "import logging; logging.warning('logged')", dict(check=lambda r: "logged" in r.stderr)),
    # Display.
    ("display", "display({'a': 1}, 'b')", dict(check=lambda r: [m["data"]["text/plain"] for m in r.messages("display_data")] == ["{'a': 1}", "'b'"])),
    ("display id", "h = display('one', display_id='d1')\nh.update('two')", dict(check=lambda r: r.messages("update_display_data")[0]["transient"] == {"display_id": "d1"} and r.messages("display_data")[0]["transient"] == {"display_id": "d1"})),
    ("clear_output", "from IPython.display import clear_output\nprint('a'); clear_output(wait=True); print('b')", dict(check=lambda r: r.messages("clear_output") == [{"wait": True}] and [e.kind for e in r.events] == [4, 6, 4])),
    ("HTML", "from IPython.display import HTML\nHTML('<b>x</b>')", dict(check=lambda r: data(r, "execute_result")["text/html"] == "<b>x</b>")),
    ("SVG", "from IPython.display import SVG\nSVG('<svg xmlns=\"http://www.w3.org/2000/svg\"></svg>')", dict(check=lambda r: "<svg" in data(r, "execute_result")["image/svg+xml"])),
    ("Markdown", "from IPython.display import Markdown\ndisplay(Markdown('# t'))", dict(check=lambda r: data(r)["text/markdown"] == "# t")),
    ("Latex", "from IPython.display import Latex\ndisplay(Latex('$x$'))", dict(check=lambda r: data(r)["text/latex"] == "$x$")),
    ("JSON", "from IPython.display import JSON\nJSON({'a': [1, None]})", dict(check=lambda r: data(r, "execute_result")["application/json"] == {"a": [1, None]})),
    ("JSON that JSON lacks", "import math, datetime\ndisplay({'application/json': {1: math.nan, 'b': b'x', 'd': datetime.date(2026, 1, 1), 'i': 10**5000, 's': {1}, 'u': '\\ud800'}}, raw=True)",
     dict(check=lambda r: data(r)["application/json"]["1"] == "nan" and data(r)["application/json"]["b"] == "eA==")),
    ("JSON that is a circle", "c = []; c.append(c)\ndisplay({'application/json': c}, raw=True)", dict(check=lambda r: "application/json" in data(r))),
    ("Image", "from IPython.display import Image\nImage(data=b'\\x89PNG\\r\\n\\x1a\\n' + bytes(30))", dict(check=lambda r: base64.b64decode(data(r, "execute_result")["image/png"])[:4] == b"\x89PNG")),
    ("own rich class", "class Rich:\n    def _repr_html_(self): return '<i>r</i>'\nRich()", dict(check=lambda r: data(r, "execute_result")["text/html"] == "<i>r</i>")),
    ("own bundle", "class Bundle:\n    def _repr_mimebundle_(self, **k): return {'application/x-own': {'k': 1}, 'text/plain': 'own'}\nBundle()", dict(value="own")),
    ("bundle too big", "from IPython.display import HTML\nHTML('x' * 9_000_000)", dict(check=lambda r: "left out" in r.stderr and "<IPython.core.display.HTML object>" == r.value)),
    ("pandas", "import pandas as pd\npd.DataFrame({'a': [1, 2]})", dict(timeout=60, check=lambda r: "<table" in data(r, "execute_result")["text/html"] and "a" in r.value)),
    ("figure", "import matplotlib.pyplot as plt\nplt.plot([1, 2]);", dict(timeout=60, check=is_png)),
    ("figures are closed after the cell", "plt.get_fignums()", dict(value="[]")),
    ("plt.show", "plt.plot([1]); plt.show(); print('after')", dict(check=lambda r: is_png(r) and [e.kind for e in r.events][-1] == 4)),
    ("two figures", "plt.figure(); plt.plot([1]); plt.figure(); plt.plot([2]);", dict(check=lambda r: is_png(r) and is_png(r, 1))),
    ("figure as value", "fig, ax = plt.subplots(); ax.plot([1]); plt.close(fig)\nfig", dict(check=lambda r: "image/png" in data(r, "execute_result"))),
    ("figure of a cell that fails", "plt.plot([1])\n1/0", dict(ename="ZeroDivisionError", check=is_png)),
    ("matplotlib inline", "%matplotlib inline\nplt.plot([3]);", dict(check=is_png)),
    ("formatter for a plain type", ["get_ipython().display_formatter.formatters['text/html'].for_type(int, lambda n: f'<b>{n}</b>');", "5"], dict(value="5", check=lambda r: data(r, "execute_result")["text/html"] == "<b>5</b>")),
    ("and without it again", ["get_ipython().display_formatter.formatters['text/html'].pop(int);", "5"], dict(value="5", check=lambda r: list(data(r, "execute_result")) == ["text/plain"])),
    ("subclass of a plain type", "class Hi(str):\n    def _repr_html_(self): return '<i>hi</i>'\nHi('x')", dict(value="'x'", check=lambda r: data(r, "execute_result")["text/html"] == "<i>hi</i>")),
    ("plain type with a failing part", "class R2:\n    def __repr__(self): raise ValueError('no repr')\n[R2()]", dict(check=lambda r: r.error["ename"] == "ValueError")),
    ("numpy", "import numpy as np\nnp.arange(3)", dict(value="array([0, 1, 2])")),
    # Magics and commands.
    ("time", "%time sum(range(10))", dict(value="45", check=lambda r: "Wall time" in r.stdout)),
    ("cell time", "%%time\nv = 3\nv", dict(value="3", check=lambda r: "Wall time" in r.stdout)),
    ("timeit", "%timeit -n 2 -r 2 pass", dict(check=lambda r: "loops each" in r.stdout)),
    ("capture", ["%%capture cap\nprint('c')", "cap.stdout"], dict(value="'c\\n'")),
    ("capture a command", ["%%capture cap2\n!echo cc", "cap2.stdout"], dict(value="'cc\\n'")),
    ("bash", "%%bash\necho out; echo err >&2\nread l; echo \"[$l]\"", dict(check=lambda r: r.stdout.startswith("out\n") and "err" in r.stderr)),
    ("bash fails", "%%bash\nexit 3", dict(ename="CalledProcessError")),
    ("bash into a variable", ["%%bash --out o --err e\necho 1\necho 2\necho 3 >&2", "o, e"], dict(value="('1\\n2\\n', '3\\n')")),
    ("script of another program", "%%script python3\nprint(1 + 1)", dict(out="2\n")),
    ("no such program", "%%script nosuchprogram\nx", dict(check=lambda r: "Couldn't find program" in r.stdout)),
    ("command", "!echo hi", dict(out="hi\n", value=None)),
    ("command with a variable", ["who = 'you'", "!echo {who} $who"], dict(out="you you\n")),
    ("command with a local variable", "def lc(word):\n    !echo {word}\nlc('loc')", dict(out="loc\n")),
    ("command's status", ["!exit 7", "_exit_code"], dict(value="7")),
    ("command into a variable", "files = !printf 'a\\nb\\n'\nfiles", dict(value="['a', 'b']")),
    ("command that fails is no failure", "!false", dict(out="")),
    ("command in the background", "!(sleep 0.3; echo late) &", dict(check=lambda r: r.seconds < 5)),
    ("cd", ["%cd -q /", "%pwd"], dict(value="'/'")),
    ("env", ["%env SG_TEST=1", "!echo $SG_TEST"], dict(out="1\n")),
    ("run a file", ["open('/tmp/sg_run.py', 'w').write('ran = 5\\nprint(\"running\", __name__)')", "%run /tmp/sg_run.py", "ran"], dict(value="5")),
    ("load_ext", "%load_ext autoreload", dict(out="")),
    ("pip", "%pip --version", dict(check=lambda r: "pip" in r.stdout)),
    ("who", ["zz_only = 1", "%who_ls int"], dict(check=lambda r: "zz_only" in r.value)),
    ("writefile", ["%%writefile /tmp/sg_w.txt\nhello", "open('/tmp/sg_w.txt').read()"], dict(value="'hello\\n'")),
    ("load", "%load /tmp/sg_w.txt", dict(check=lambda r: r.reply["payload"][0]["source"] == "set_next_input")),
    # Asynchronous code.
    ("await", "import asyncio\nawait asyncio.sleep(0, 'slept')", dict(value="'slept'")),
    ("asyncio.run in a cell", "async def m(): return 5\nasyncio.run(m())", dict(value="5")),
    ("asyncio.run in an awaiting cell", "await asyncio.sleep(0)\nasyncio.run(m())", dict(value="5")),
    ("asyncio.run in asyncio.run", "async def outer(): return asyncio.run(m()) + 1\nasyncio.run(outer())", dict(value="6")),
    ("run_until_complete", "asyncio.get_event_loop().run_until_complete(m())", dict(value="5")),
    ("run_until_complete and close", ["loop = asyncio.get_event_loop(); v = loop.run_until_complete(asyncio.gather(m(), m())); loop.close(); v", "await asyncio.sleep(0, 1)"], dict(value="1")),
    ("new_event_loop", "loop = asyncio.new_event_loop()\ntry:\n    print(loop.run_forever)\nfinally:\n    loop.close()", dict(check=lambda r: "run_forever" in r.stdout)),
    ("Runner", "with asyncio.Runner() as runner: w = runner.run(m())\nw", dict(value="5")),
    ("gather and TaskGroup", "async with asyncio.TaskGroup() as tg:\n    a = tg.create_task(m())\na.result()", dict(value="5")),
    ("a task lives on", ["async def later():\n    await asyncio.sleep(0.05); global arrived; arrived = True\narrived = False; t = asyncio.create_task(later())", "await asyncio.sleep(0.2)\narrived"], dict(value="True")),
    ("to_thread", "await asyncio.to_thread(lambda: 3)", dict(value="3")),
    ("async subprocess", "p = await asyncio.create_subprocess_exec('echo', 'x', stdout=-1)\n(await p.communicate())[0]", dict(value="b'x\\n'")),
    ("async for and with", "async def ag():\n    for i in range(3): yield i\n[i async for i in ag()]", dict(value="[0, 1, 2]")),
    ("own cancel is no interrupt", "t = asyncio.current_task(); t.cancel(); await asyncio.sleep(1)", dict(ename="CancelledError")),
    ("await after a cancel", "await asyncio.sleep(0.01, 'ok')", dict(value="'ok'")),
    # Help.
    ("pager", "len?", dict(check=lambda r: r.reply["payload"][0]["source"] == "page" and "Return the number" in r.reply["payload"][0]["data"]["text/plain"])),
    ("pager with source", ["def documented():\n    'The doc.'\n    return 1", "documented??"], dict(check=lambda r: "return 1" in ANSI.sub("", r.reply["payload"][0]["data"]["text/plain"]))),
    # Magics of IPython, and their effects.
    ("timeit of a cell", "%%timeit -n 2 -r 2\nsum(range(10))", dict(check=lambda r: "2 runs, 2 loops each" in r.stdout)),
    ("timeit as a value", "t = %timeit -o -q -n 2 -r 2 pass\nt.loops", dict(value="2")),
    ("prun", "%prun sum(range(3))", dict(check=lambda r: "function calls" in r.reply["payload"][0]["data"]["text/plain"])),
    ("run with arguments", ["%%writefile /tmp/sg_args.py\nimport sys\nprint(sys.argv[1:], __name__)\nif len(sys.argv) > 2: sys.exit(3)", "%run /tmp/sg_args.py a"], dict(out="['a'] __main__\n")),
    ("run that exits", "%run /tmp/sg_args.py a b", dict(out="['a', 'b'] __main__\n", code=3, ename="SystemExit")),
    ("run that fails", ["%%writefile /tmp/sg_bad.py\ndef f():\n    raise ValueError('in file')\nf()", "%run /tmp/sg_bad.py"], dict(ename="ValueError", has=["sg_bad.py:3", "sg_bad.py:2, in f()"], hasnot=["interactiveshell", "execution.py"])),
    ("run of what is not there", "%run nosuch.py", dict(ename="Exception", has=["not found", "line 1"], hasnot=["interactiveshell.py", "core/magics"])),
    ("load gives the text", "%load /tmp/sg_args.py", dict(check=lambda r: r.reply["payload"][0]["text"].startswith("# %load /tmp/sg_args.py\nimport sys\n"))),
    ("capture all", ["%%capture cap\nimport sys\nprint('o'); print('e', file=sys.stderr); display('d'); 5", "cap.stdout, cap.stderr, [o.data['text/plain'] for o in cap.outputs]"], dict(value="""('o\\n', 'e\\n', ["'d'", '5'])""")),
    ("show what was captured", "cap.show()", dict(out="o\n", err="e\n", check=lambda r: len(r.messages("display_data")) == 2)),
    ("less", "%less /tmp/sg_args.py", dict(check=lambda r: "sys.argv" in r.reply["payload"][0]["data"]["text/plain"])),
    ("edit", "%edit", dict(ename="UsageError")),
    ("tb", ["1/0", "%tb"], dict(ename="ZeroDivisionError", has=["1/0"])),
    ("xmode", ["%xmode Minimal\n", "1/0"], dict(ename="ZeroDivisionError", check=lambda r: trace(r).strip() == "ZeroDivisionError: division by zero")),
    ("xmode back", "%xmode Context", dict(check=lambda r: "Context" in r.stdout)),
    ("precision", ["%precision 3", "3.14159"], dict(value="3.142")),
    ("precision back", ["%precision", "3.14159"], dict(value="3.14159")),
    ("history", ["hist_a = 1", "%history -l 1"], dict(check=lambda r: "hist_a = 1" in r.stdout)),
    ("rerun", ["print('again')", "%rerun"], dict(check=lambda r: "again\n" in r.stdout)),
    ("history by pattern", "%history -g hist_a*", dict(check=lambda r: "hist_a = 1" in r.stdout and "hist_b" not in r.stdout)),
    ("earlier values", ["'v' + '1'", "'v' + '2'", "'v' + '3'", "_, __, ___, _i, _ii, _ih[-2], In[-2], _oh is Out"], dict(value="""('v3', 'v2', 'v1', "'v' + '3'", "'v' + '2'", "'v' + '3'", "'v' + '3'", True)""")),
    ("cell of HTML", "%%html\n<b>x</b>", dict(check=lambda r: data(r)["text/html"] == "<b>x</b>\n")),
    ("cell of Markdown", "%%markdown\n# t", dict(check=lambda r: data(r)["text/markdown"] == "# t\n")),
    ("cell of LaTeX", "%%latex\n$x$", dict(check=lambda r: "$x$" in data(r)["text/latex"])),
    ("cell of JavaScript", "%%javascript\n1", dict(check=lambda r: data(r)["application/javascript"] == "1\n")),
    ("alias", ["%alias hello echo hi %s", "%hello bob"], dict(out="hi bob\n")),
    ("macro", ["print('in macro')", "%macro -q mm _i", "mm"], dict(check=lambda r: "in macro" in r.stdout)),
    ("sx", "%sx echo a", dict(value="['a']")),
    ("sx, short", "!!echo b", dict(value="['b']")),
    ("autoawait", "%autoawait", dict(check=lambda r: "asyncio" in r.stdout)),
    ("extension that is not there", "%load_ext nosuchext", dict(ename="ModuleNotFoundError", hasnot=["interactiveshell.py", "core/magics"])),
    # Display of all kinds.
    ("audio", "from IPython.display import *\nAudio(data=[0.0, 0.1] * 10, rate=8000)", dict(check=lambda r: "<audio" in data(r, "execute_result")["text/html"])),
    ("video", "Video(data=b'abc', embed=True, mimetype='video/mp4')", dict(check=lambda r: "video/mp4;base64,YWJj" in data(r, "execute_result")["text/html"])),
    ("math", "Math('x^2')", dict(check=lambda r: "x^2" in data(r, "execute_result")["text/latex"])),
    ("JavaScript", "Javascript('alert(1)')", dict(check=lambda r: data(r, "execute_result")["application/javascript"] == "alert(1)")),
    ("frame of a page", "IFrame('http://a', 1, 2)", dict(check=lambda r: "<iframe" in data(r, "execute_result")["text/html"])),
    ("code", "Code('print(1)', language='python')", dict(value="print(1)", check=lambda r: "text/html" in data(r, "execute_result"))),
    ("update of an id", "update_display('b', display_id='zz')", dict(check=lambda r: r.messages("update_display_data")[0]["transient"] == {"display_id": "zz"})),
    ("id of its own", "h = display('a', display_id=True); h.display_id is not None", dict(value="True")),
    ("bundle with metadata", "class V:\n    def _repr_mimebundle_(self, **k):\n        return {'application/vnd.plotly.v1+json': {'data': []}, 'text/html': '<div>'}, {'application/vnd.plotly.v1+json': {'m': 1}}\nV()",
     dict(check=lambda r: data(r, "execute_result")["application/vnd.plotly.v1+json"] == {"data": []} and r.messages("execute_result")[0]["metadata"] == {"application/vnd.plotly.v1+json": {"m": 1}})),
    ("Vega-Lite", "display({'application/vnd.vegalite.v5+json': {'mark': 'bar'}}, raw=True)", dict(check=lambda r: data(r)["application/vnd.vegalite.v5+json"] == {"mark": "bar"})),
    ("animation", "import matplotlib.pyplot as plt\nfrom matplotlib.animation import FuncAnimation\nfig, ax = plt.subplots(figsize=(2, 2)); line, = ax.plot([], [])\n"
     "anim = FuncAnimation(fig, lambda i: (line,), frames=2); plt.close(fig)\nHTML(anim.to_jshtml())", dict(timeout=60, check=lambda r: "data:image/png;base64" in data(r, "execute_result")["text/html"] and not r.messages("display_data"))),
    ("tight figure", "plt.figure(figsize=(4, 3)); plt.text(3, .5, 'far away'); plt.show()", dict(check=lambda r: int.from_bytes(base64.b64decode(data(r)["image/png"])[16:20], "big") > 1000)),
    ("figures as SVG", "%config InlineBackend.figure_format = 'svg'\nplt.plot([1]);", dict(check=lambda r: "<svg" in data(r)["image/svg+xml"])),
    ("figures for fine screens", "%config InlineBackend.figure_formats = ['retina']\nplt.plot([1]);", dict(check=lambda r: r.messages("display_data")[0]["metadata"]["image/png"]["width"] > 100)),
    ("figures as PNG", "%config InlineBackend.figure_formats = ['png']\nplt.plot([1]);", dict(check=is_png)),
    ("backend that is not there", "%matplotlib notebook\nplt.plot([1]);", dict(check=lambda r: is_png(r) and "inline" in r.stderr)),
    ("widgets' backend", "%matplotlib widget\nplt.plot([1]);", dict(check=lambda r: is_png(r) and "inline" in r.stderr)),
    ("no figure is left", "plt.get_fignums()", dict(value="[]")),
    # Failures outside of the cell.
    ("error that nothing can raise", "class U:\n    def __del__(self): raise ValueError('unraisable')\nU(); None", dict(check=lambda r: "ValueError: unraisable" in r.stderr)),
    ("error of a task that nobody awaits", "async def bg(): raise KeyError('task')\nasyncio.create_task(bg()); await asyncio.sleep(0.01)\nimport gc; gc.collect();", dict(timeout=60, check=lambda r: "KeyError: 'task'" in r.stderr)),
    ("coroutine that nobody awaits", "async def never(): pass\nnever(); None", dict(check=lambda r: "never awaited" in r.stderr)),
    ("deprecation in a cell", "import warnings\ndef old(): warnings.warn('old', DeprecationWarning, stacklevel=2)\nold()", dict(check=lambda r: "DeprecationWarning: old" in r.stderr)),
    ("warning of the compiler", "'a' is 'b'", dict(value="False", check=lambda r: "SyntaxWarning" in r.stderr)),
]


class Table(KernelCase):
    """Runs the rows in order, in one session."""


def add(number, name, codes, want):
    def test(self):
        for code in codes[:-1]:
            self.kernel.run(code)
        r = self.run_cell(codes[-1], timeout=want.get("timeout", 20))
        # Background tasks of a row print "late", possibly during another row.
        r.events = [e for e in r.events if e.body != b"late\n"]
        failed = "ename" in want
        if "check" not in want or failed:
            self.assertEqual(r.reply["status"], "error" if failed else "ok", r)
        if failed:
            self.assertEqual(r.reply["ename"], want["ename"], r)
            self.assertEqual(len(r.messages("error")), 1, r)
            self.assertEqual(r.error["ename"], want["ename"])
        for key, got in (("out", r.stdout), ("err", r.stderr), ("value", r.value)):
            if key in want:
                self.assertEqual(got, want[key], r)
        if "code" in want:
            self.assertEqual(r.reply.get("exit_code"), want["code"], r)
        for text in want.get("has", ()):
            self.assertIn(text, trace(r))
        for text in want.get("hasnot", ()):
            self.assertNotIn(text, trace(r))
        if "check" in want:
            self.assertTrue(want["check"](r), r)
        for event in r.events:
            if not event.plain:
                self.assertEqual(event.cell, r.cell, r)

    test.__doc__ = name
    setattr(Table, f"test_{number:03}_{re.sub(r'[^a-zA-Z0-9]+', '_', name)}", test)


for i, (name, code, want) in enumerate(TABLE):
    add(i, name, code if isinstance(code, list) else [code], want)
