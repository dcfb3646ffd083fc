"""A program that ends without closing its clients."""

import subprocess
import sys
import unittest

PROGRAM = """
import asyncio, threading
from sandgate._link import portal

started = threading.Event()

async def slow():
    started.set()
    try:
        await asyncio.sleep(1000)
    finally:
        await asyncio.sleep(0.3)
        print("ended")

async def begin():
    global task
    task = asyncio.ensure_future(slow())

portal().run(begin)
started.wait()
"""


class ExitTest(unittest.TestCase):
    def test_tasks_end_before_the_program(self) -> None:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60
        )
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "ended\n", ""))
