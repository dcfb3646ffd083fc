"""Prints its progress as it works, and exits with the number of words."""
import sys
import time

words = sys.argv[1:] or ["hello", "from", "a", "sandbox"]
for word in words:
    print(word, flush=True)
    time.sleep(0.2)
sys.exit(0 if words == ["hello", "from", "a", "sandbox"] else len(words))
