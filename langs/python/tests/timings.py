"""Measures the figures in the README."""
import statistics
import time

import harness


def median(kernel, code, n):
    times = []
    for _ in range(n):
        begun = time.perf_counter()
        kernel.run(code)
        times.append((time.perf_counter() - begun) * 1000)
    return statistics.median(times)


def main():
    harness.Kernel().close()
    starts = []
    for _ in range(5):
        kernel = harness.Kernel()
        starts.append(kernel.start_seconds * 1000)
        kernel.close()
    print(f"start                 {statistics.median(starts):8.1f} ms")
    kernel = harness.Kernel()
    kernel.run("1 + 1")
    print(f"print(1)              {median(kernel, 'print(1)', 500):8.3f} ms")
    print(f"1 + 1                 {median(kernel, '1 + 1', 500):8.3f} ms")
    print(f"await                 {median(kernel, 'import asyncio; await asyncio.sleep(0)', 300):8.3f} ms")
    print(f"!true                 {median(kernel, '!true', 30):8.3f} ms")
    begun = time.perf_counter()
    result = kernel.run("for _ in range(500_000): print('x' * 99)", timeout=60)
    print(f"50 MB of print        {len(result.stdout) / 1e6 / (time.perf_counter() - begun):8.1f} MB/s")
    stops = [kernel.run("while True: pass", interrupt=0.05).seconds * 1000 for _ in range(10)]
    print(f"interrupt of a loop   {statistics.median(stops):8.1f} ms")
    begun = time.perf_counter()
    kernel.ask("complete", code="import os; os.pa", cursor=16)
    print(f"first completion      {(time.perf_counter() - begun) * 1000:8.1f} ms")
    kernel.close()
