"""After a restore: renews everything that must differ between sandboxes of one snapshot."""
import os
import sys
import time


def reseed(_shell, request):
    """Seed every loaded generator with new randomness, and update the environment."""
    seed = bytes.fromhex(request.get("seed") or "") or os.urandom(32)
    modules = sys.modules
    if "random" in modules:
        modules["random"].seed(seed)
    if "numpy.random" in modules:
        words = [int.from_bytes(seed[i:i + 4], "big") for i in range(0, len(seed), 4)]
        modules["numpy.random"].seed(words)
    if "torch" in modules:
        modules["torch"].manual_seed(int.from_bytes(seed[:8], "big"))
    if "tempfile" in modules:
        modules["tempfile"]._name_sequence = None
    if "uuid" in modules:
        modules["uuid"]._node = modules["uuid"]._last_timestamp = None
    if "ssl" in modules:
        modules["ssl"].RAND_add(seed, 32.0)
    if "multiprocessing.process" in modules:
        modules["multiprocessing.process"].current_process().authkey = os.urandom(32)
    env = request.get("env") or {}
    os.environ.update(env)
    if "TZ" in env:
        time.tzset()
    if "PYTHONPATH" in env:
        sys.path[1:1] = [p for p in env["PYTHONPATH"].split(os.pathsep) if p and p not in sys.path]
    return {}
