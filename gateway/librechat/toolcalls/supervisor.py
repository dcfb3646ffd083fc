"""Runs a program and holds its calls of tools until their results are there.

It runs in the session of the program. The folder of this file has program.json. Standard input has
one line for each step: its number, and how many milliseconds the program may run. The first step
starts the program, each later one follows a file results-NUMBER.json. Standard output has the
number of a step once the program needs results or has ended, and event-NUMBER.json says which. A
step that is repeated has no further effect.
"""

import codecs
import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time

FOLDER = os.path.dirname(os.path.abspath(__file__))
AFTER = 3600  # seconds in which the end of a killed program comes
MAX_CALLS = 100  # of one step
MAX_CALL = 1 << 20  # bytes of the arguments of a call
PATIENCE = 10  # seconds in which the program reads or writes on a connection
DRAIN = 1  # seconds in which output is read after the end of the program


class Output:
    """Collects a stream up to a limit."""

    def __init__(self, pipe, limit):
        self.pipe, self.left = pipe, limit
        self.parts, self.dropped = [], 0
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.lock = threading.Lock()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        while data := os.read(self.pipe.fileno(), 65536):
            with self.lock:
                kept = data[: self.left]
                self.left -= len(kept)
                self.dropped += len(data) - len(kept)
                self.parts.append(self.decoder.decode(kept))

    def text(self):
        with self.lock:
            return "".join(self.parts)


class Call:
    """A call whose connection waits for the result."""

    def __init__(self, connection, name, arguments):
        self.connection, self.name, self.arguments = connection, name, arguments

    def answer(self, result):
        try:
            self.connection.sendall(json.dumps(result).encode() + b"\n")
            self.connection.close()
        except OSError:
            pass  # the program has stopped waiting


class Supervisor:
    def __init__(self, program):
        self.program = program
        self.events = queue.SimpleQueue()
        self.step, self.running = 0, False
        self.deadline, self.expired = 0.0, False
        # Calls that no event has, and until when calls are collected that come at the same time.
        self.new, self.gather = [], 0.0
        self.open = {}  # calls of the last event, by id
        self.count = 0
        self.child, self.code = None, None

    def run(self):
        threading.Thread(target=self.read_steps, daemon=True).start()
        handle = {"step": self.on_step, "call": self.on_call, "exit": self.on_exit}
        while True:
            try:
                kind, *values = self.events.get(timeout=self.pause())
            except queue.Empty:
                self.on_time()
                continue
            handle[kind](*values)

    def pause(self):
        """Returns the time until on_time has work; None for never."""
        if not self.running or self.code is not None:
            return None
        until = min(self.deadline, self.gather) if self.new else self.deadline
        return max(0, until - time.monotonic())

    def read_steps(self):
        for line in sys.stdin:
            number, milliseconds = line.split()
            self.events.put(("step", int(number), int(milliseconds)))

    def on_step(self, number, milliseconds):
        if self.running or number != self.step + 1:
            return
        self.running = True
        now = time.monotonic()
        self.deadline, self.gather = now + milliseconds / 1000, now + self.program["gather"]
        if number == 1:
            self.start()
            return
        with open(f"{FOLDER}/results-{number}.json") as f:
            results = json.load(f)
        for call, result in ((self.open.pop(r["call_id"], None), r) for r in results):
            if call:
                call.answer(result)
        for call in self.open.values():
            call.answer({"is_error": True, "error_message": "the call has no result"})
        self.open = {}
        if self.code is not None:
            self.end()

    def start(self):
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(f"{FOLDER}/calls")
        listener.listen(128)
        threading.Thread(target=self.accept, args=(listener,), daemon=True).start()
        self.child = subprocess.Popen(
            self.program["argv"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | {"SANDGATE_TOOLS": FOLDER} | self.program["env"],
            start_new_session=True,
        )
        limit = self.program["max_output"]
        self.stdout = Output(self.child.stdout, limit)
        self.stderr = Output(self.child.stderr, limit)
        threading.Thread(target=self.wait, daemon=True).start()

    def wait(self):
        code = self.child.wait()
        for stream in self.stdout, self.stderr:
            stream.reader.join(DRAIN)  # a process in the background may hold the stream
        self.events.put(("exit", code))

    def accept(self, listener):
        while True:
            connection, _ = listener.accept()
            connection.settimeout(PATIENCE)
            self.read_call(connection)  # calls have the order of their connections

    def read_call(self, connection):
        try:
            stream = connection.makefile("rb")
            rest = line = stream.readline(MAX_CALL + 1)
            while rest and not rest.endswith(b"\n"):
                rest = stream.readline(MAX_CALL)
            if len(line) > MAX_CALL:
                raise ValueError(f"the arguments of a call have at most {MAX_CALL} bytes")
            name, arguments = json.loads(line)
            call = Call(connection, self.program["tools"][name], arguments)
        except (OSError, ValueError, KeyError, TypeError) as e:
            Call(connection, "", None).answer({"is_error": True, "error_message": str(e)})
            return
        self.events.put(("call", call))

    def on_call(self, call):
        self.gather = time.monotonic() + self.program["gather"]
        self.new.append(call)

    def on_exit(self, code):
        self.code = code
        if self.running:
            self.end()

    def on_time(self):
        now = time.monotonic()
        if now >= self.deadline:
            self.expired, self.deadline = True, now + AFTER
            os.killpg(self.child.pid, signal.SIGKILL)
        elif self.new and now >= self.gather:
            self.report()

    def report(self):
        calls = []
        for call in self.new[:MAX_CALLS]:
            self.count += 1
            name = f"call_{self.count}"
            self.open[name] = call
            calls.append({"id": name, "name": call.name, "input": call.arguments})
        self.new = self.new[MAX_CALLS:]
        self.emit({"calls": calls})

    def end(self):
        self.emit({"ended": True, "code": self.code, "expired": self.expired})

    def emit(self, event):
        self.step, self.running = self.step + 1, False
        event["stdout"], event["stderr"] = self.stdout.text(), self.stderr.text()
        event["dropped"] = self.stdout.dropped + self.stderr.dropped
        path = f"{FOLDER}/event-{self.step}.json"
        with open(path + ".new", "w") as f:
            json.dump(event, f)
        os.rename(path + ".new", path)
        print(self.step, flush=True)


def main():
    with open(f"{FOLDER}/program.json") as f:
        Supervisor(json.load(f)).run()


if __name__ == "__main__":
    main()
