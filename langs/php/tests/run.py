"""Runs cells/*.yaml against the driver, natively: python3 tests/run.py [-k WORD] [FILE...]

The suite in e2e runs the same files through gVisor and a server. This is the fast way.
"""
import argparse
import glob
import json
import os
import re
import subprocess
import sys
import tempfile
import time

import yaml

from harness import HERE, MESSAGE, STDERR, STDOUT, Kernel

STEPS = {"run", "complete", "inspect", "is_complete", "variables", "restart", "program", "file"}


class Wrong(Exception):
    pass


def expect(what, got, step, key=None, absent=""):
    """Compare a text: key means exactly, key~ is a regular expression, absent applies if neither is
    given."""
    key = key or what
    if f"{key}~" in step:
        if not re.search(step[f"{key}~"], got or ""):
            raise Wrong(f"{what} is {got!r}, not like {step[f'{key}~']!r}")
    elif step.get(key) != "any":
        want = step.get(key, absent)
        if got != want:
            raise Wrong(f"{what} is {got!r}, not {want!r}")


def like(what, pattern, text):
    if not re.search(pattern, text):
        raise Wrong(f"{what} is {text!r}, not like {pattern!r}")


def bundle(what, want, data):
    for mime, pattern in want.items():
        if mime not in data:
            raise Wrong(f"{what} has {sorted(data)}, no {mime}")
        like(f"{what} {mime}", pattern, data[mime] if isinstance(data[mime], str) else json.dumps(data[mime], ensure_ascii=False, separators=(",", ":")))


def order(kernel):
    found = []
    for e in kernel.events:
        if e.kind in (STDOUT, STDERR):
            name = "stdout:" if e.kind == STDOUT else "stderr:"
            text = e.body.decode("utf-8", "replace")
            if found and found[-1].startswith(name):
                found[-1] += text
            else:
                found.append(name + text)
        elif e.message["msg_type"] == "display_data":
            found.append("display:" + next(iter(e.message["content"]["data"])))
    return found


def run(kernel, step, code):
    fields = {"no_input": True} if step.get("no_input") else {}
    reply = kernel.run(code, input=step.get("input", ()), when=step.get("when"), timeout=60, **fields)
    try:
        check(kernel, step, reply)
    except Wrong as wrong:
        raise Wrong(f"{wrong}\n      reply {reply}\n      events {str(kernel.events)[:3000]}") from None


def check(kernel, step, reply):
    status = step.get("status", "error" if "error" in step else "ok")
    if reply["status"] != status:
        raise Wrong(f"status is {reply['status']}, not {status}")
    if "order" in step:
        if (got := order(kernel)) != step["order"]:
            raise Wrong(f"order is {got}")
    else:
        expect("stdout", kernel.text(STDOUT), step)
        if "stdout_bytes" in step and len(kernel.text(STDOUT)) != step["stdout_bytes"]:
            raise Wrong(f"there are {len(kernel.text(STDOUT))} bytes")
        expect("stderr", kernel.text(STDERR), step)
    results = kernel.messages("execute_result")
    expect("result", results[0]["data"]["text/plain"] if results else None, step, absent=None if "data" not in step else results[0]["data"]["text/plain"] if results else None)
    if "data" in step:
        if not results:
            raise Wrong("there is no result")
        bundle("the result", step["data"], results[0]["data"])
    shown = kernel.messages("display_data")
    if "order" not in step or "display" in step:
        want = step.get("display", [])
        if len(shown) != len(want):
            raise Wrong(f"{len(shown)} things were displayed, not {len(want)}")
        for w, s in zip(want, shown):
            bundle("the display", w, s["data"])
    if "later" in step:
        kernel.events = []
        kernel.until(lambda: re.search(step["later"]["stdout"], kernel.text(STDOUT)), timeout=60)
    errors = kernel.messages("error")
    if "error" in step:
        if len(errors) != 1:
            raise Wrong(f"there are {len(errors)} errors")
        want, trace = step["error"], "\n".join(errors[0]["traceback"])
        if "name" in want and errors[0]["ename"] != want["name"]:
            raise Wrong(f"the error is {errors[0]['ename']!r}, not {want['name']!r}")
        like("the error's value", want.get("value", ""), errors[0]["evalue"])
        like("the traceback", want.get("traceback", ""), trace)
        if "without" in want and re.search(want["without"], trace):
            raise Wrong(f"the traceback has {want['without']!r}: {trace}")
    elif errors and status == "ok":
        raise Wrong(f"there is an error: {errors}")
    if reply.get("exit_code") != step.get("exit_code") and "exit_code" in step:
        raise Wrong(f"exit_code is {reply.get('exit_code')}")
    events = kernel.messages("kernel_event")
    if "event" in step:
        found = [e for e in events if e["event"] == step["event"]["event"] and re.search(step["event"].get("message", ""), e["message"])]
        if not found:
            raise Wrong(f"the events are {events}")
    elif events:
        raise Wrong(f"there are events: {events}")


def cursor(text):
    at = text.rindex("|")
    return {"code": text[:at] + text[at + 1:], "cursor": at}


def other(kernel, step, home):
    if "complete" in step:
        matches = [m["text"] for m in kernel.ask("complete", **cursor(step["complete"])).get("matches", [])]
        for m in step.get("matches", []):
            if m not in matches:
                raise Wrong(f"{m!r} is not in {matches[:50]}")
        for m in step.get("without", []):
            if m in matches:
                raise Wrong(f"{m!r} is in the matches")
    elif "inspect" in step:
        reply = kernel.ask("inspect", **cursor(step["inspect"]), detail=0)
        if reply.get("found", False) != step.get("found", True):
            raise Wrong(f"found is {reply}")
        if "text" in step:
            like("the text", step["text"], reply["data"]["text/plain"])
    elif "is_complete" in step:
        reply = kernel.ask("is_complete", code=step["is_complete"])
        if reply["is_complete"] != step["gives"]:
            raise Wrong(f"it is {reply['is_complete']}")
    elif "variables" in step:
        listed = {v["name"]: v for v in kernel.ask("variables")["variables"]}
        for name, want in step["variables"].items():
            for key, pattern in want.items():
                if name not in listed or not re.fullmatch(pattern, listed[name][key]):
                    raise Wrong(f"{name} is {listed.get(name)}")
    elif "program" in step:
        p = step["program"]
        with open(os.path.join(home, p["file"]), "w") as f:
            f.write(p["content"])
        done = subprocess.run(["php", p["file"], *p.get("args", [])], cwd=home, input=p.get("stdin", "").encode(), capture_output=True, timeout=60)
        like("stdout", p.get("stdout", ""), done.stdout.decode())
        like("stderr", p.get("stderr", ""), done.stderr.decode())
        if done.returncode != p.get("exit", 0):
            raise Wrong(f"it exits with {done.returncode}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-k", default="", help="only cases with this in their name")
    parser.add_argument("files", nargs="*")
    options = parser.parse_args()
    passed, failed, names, proved = 0, 0, set(), set()
    for path in options.files or sorted(glob.glob(f"{HERE}/cells/*.yaml")):
        with open(path) as f:
            cases = yaml.safe_load(f)
        if os.path.basename(path) == "not.yaml":
            proved |= set(cases or {})
            continue
        with tempfile.TemporaryDirectory() as home:
            kernel = Kernel(cwd=home, env={"HOME": home})
            for case in cases:
                name = case["case"]
                if name in names:
                    raise SystemExit(f"there are two cases {name!r}")
                names.add(name)
                proved |= set(case.get("proves", []))
                if case.get("fresh"):
                    kernel.close()
                    kernel = Kernel(cwd=home, env={"HOME": home})
                begun = time.monotonic()
                try:
                    for step in case["steps"]:
                        unknown = len(STEPS & set(step)) != 1
                        if unknown:
                            raise Wrong(f"this step is none: {step}")
                        if "file" in step:
                            full = os.path.join(home, step["file"]["path"])
                            os.makedirs(os.path.dirname(full), exist_ok=True)
                            with open(full, "w") as f:
                                f.write(step["file"]["content"])
                        elif "restart" in step:
                            kernel.close()
                            kernel = Kernel(cwd=home, env={"HOME": home})
                        elif "run" in step:
                            for i in range(1, step.get("repeat", 1) + 1):
                                run(kernel, step, step["run"].replace("{i}", str(i)) if "repeat" in step else step["run"])
                        else:
                            other(kernel, step, home)
                    passed += 1
                except (Wrong, AssertionError, TimeoutError, EOFError) as wrong:
                    if options.k and options.k not in name:
                        continue
                    failed += 1
                    print(f"FAIL {os.path.basename(path)}: {name}: {wrong}")
                    if isinstance(wrong, EOFError):
                        kernel = Kernel(cwd=home, env={"HOME": home})
                    if isinstance(wrong, TimeoutError):
                        kernel.close()
                        kernel = Kernel(cwd=home, env={"HOME": home})
                if (took := time.monotonic() - begun) > 3:
                    print(f"     {name}: {took:.1f} s")
            kernel.close()
    print(f"{passed} passed, {failed} failed; {len(proved)} keys proved")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
