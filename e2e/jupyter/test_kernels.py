"""Jupyter's own tests of kernels, for kernels of Sandgate over the bridge. SANDGATE_URL
and SANDGATE_TOKEN select the server. Run with python3 -m unittest.
"""
import json
import os
import sys
import tempfile
import unittest

import jupyter_kernel_test

HERE = os.path.dirname(os.path.abspath(__file__))


def kernel_of(language):
    """Installs the bridge as a kernel and returns its name."""
    name = "sandgate-" + language
    folder = os.path.join(DATA.name, "kernels", name)
    os.makedirs(folder)
    with open(os.path.join(folder, "kernel.json"), "w", encoding="utf-8") as f:
        json.dump({"argv": [sys.executable, os.path.join(HERE, "bridge.py"), "-f", "{connection_file}"],
                   "display_name": language, "language": language, "env": {"SANDGATE_LANGUAGE": language}}, f)
    return name


DATA = tempfile.TemporaryDirectory()
os.environ["JUPYTER_PATH"] = DATA.name


class Python(jupyter_kernel_test.KernelTests):
    kernel_name = kernel_of("python")
    language_name = "python"
    file_extension = ".py"
    code_hello_world = "print('hello, world')"
    code_stderr = "import sys; print('oops', file=sys.stderr)"
    completion_samples = [{"text": "zi", "matches": {"zip"}}, {"text": "import coll"}]
    complete_code_samples = ["1", "print('hello, world')", "def f(x):\n  return x\n\n"]
    incomplete_code_samples = ["print('''hello", "def f(x):\n  x*2"]
    invalid_code_samples = ["import = 7q"]
    code_page_something = "zip?"
    code_generate_error = "raise ValueError('on purpose')"
    code_execute_result = [{"code": "6*7", "result": "42"}, {"code": "'größe'", "result": "'größe'"}]
    code_display_data = [{"code": "from IPython.display import HTML, display; display(HTML('<b>x</b>'))", "mime": "text/html"},
                         {"code": "import matplotlib.pyplot as p; p.plot([1, 2]);", "mime": "image/png"}]
    code_history_pattern = "6?7*"
    supported_history_operations = ("tail", "range", "search")
    code_inspect_sample = "zip"
    code_clear_output = "from IPython.display import clear_output; clear_output()"


class Bash(jupyter_kernel_test.KernelTests):
    kernel_name = kernel_of("bash")
    language_name = "bash"
    file_extension = ".sh"
    code_hello_world = "echo 'hello, world'"
    code_stderr = "echo oops >&2"
    completion_samples = [{"text": "compge", "matches": {"compgen"}}]
    complete_code_samples = ["echo hi", "for i in 1; do echo $i; done"]
    incomplete_code_samples = ["for i in 1; do", "echo 'a", "cat <<E\nx"]
    invalid_code_samples = ["fi", "echo )"]
    code_generate_error = "(exit 3)"
    code_display_data = [{"code": "display --html <<< '<b>x</b>'", "mime": "text/html"}]
    code_inspect_sample = "cd"


class SQL(jupyter_kernel_test.KernelTests):
    kernel_name = kernel_of("sql")
    language_name = "sql"
    file_extension = ".sql"
    code_hello_world = ".print hello, world"
    completion_samples = [{"text": ".sche", "matches": {".schema"}}]
    complete_code_samples = ["SELECT 1;", ".tables"]
    incomplete_code_samples = ["SELECT 1", "SELECT ';"]
    code_generate_error = "SELECT nosuch"
    code_execute_result = [{"code": "SELECT 6*7 AS aa", "result": "aa\n--\n42"}, {"code": "SELECT 1 AS b", "mime": "text/html"}]
    code_history_pattern = "SELECT 6*"
    supported_history_operations = ("tail", "range", "search")
    code_inspect_sample = "replace"


if __name__ == "__main__":
    unittest.main()
