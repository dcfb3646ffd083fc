"""nbclient and nbconvert execute notebooks over Jupyter Server's client of a gateway.

JUPYTER_GATEWAY_URL is the address of a Jupyter server of Sandgate, with a token in its path: these
clients send no credentials. Run with python3 -m unittest.
"""
import os
import subprocess
import sys
import tempfile
import unittest

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

MANAGER = "jupyter_server.gateway.managers.GatewayKernelManager"


def executed(*sources, kernel="python3", timeout=120, **options):
    """Returns a notebook of cells with these sources after its execution."""
    notebook = new_notebook(cells=[new_code_cell(s) for s in sources])
    NotebookClient(notebook, kernel_name=kernel, kernel_manager_class=MANAGER, timeout=timeout, **options).execute(kernel_name=kernel)
    return notebook


def text(cell):
    return "".join(o["text"] for o in cell.outputs if o.output_type == "stream")


class Notebooks(unittest.TestCase):
    def test_state_and_results(self):
        n = executed("x = 20\nprint('a')", "x + 3", "import matplotlib.pyplot as p; p.plot([1, 2]);")
        self.assertEqual(text(n.cells[0]), "a\n")
        self.assertEqual(n.cells[1].outputs[0].data["text/plain"], "23")
        self.assertEqual([c.execution_count for c in n.cells], [1, 2, 3])
        self.assertTrue(any("image/png" in o.get("data", {}) for o in n.cells[2].outputs))
        nbformat.validate(n)

    def test_error(self):
        with self.assertRaises(CellExecutionError) as caught:
            executed("print('before')", "1 / 0", "print('after')")
        self.assertIn("ZeroDivisionError", str(caught.exception))

    def test_errors_that_are_allowed(self):
        n = executed("1 / 0", "print('after')", allow_errors=True)
        self.assertEqual(n.cells[0].outputs[-1].ename, "ZeroDivisionError")
        self.assertEqual(text(n.cells[1]), "after\n")

    def test_input_is_refused(self):
        with self.assertRaises(CellExecutionError) as caught:
            executed("input('name? ')")
        self.assertIn("StdinNotImplementedError", str(caught.exception))

    def test_time_limit(self):
        with self.assertRaises(CellTimeoutError):
            executed("import time\nwhile True: time.sleep(0.1)", timeout=3)
        n = executed("import time\nwhile True: time.sleep(0.1)", "print('goes on')", timeout=3, interrupt_on_timeout=True,
                     allow_errors=True)
        self.assertEqual(n.cells[0].outputs[-1].ename, "KeyboardInterrupt")
        self.assertEqual(text(n.cells[1]), "goes on\n")

    def test_much_output(self):
        n = executed("print('0123456789' * 2_000_000)")
        self.assertEqual(text(n.cells[0]), "0123456789" * 2_000_000 + "\n")

    def test_another_language(self):
        n = executed("x=23; echo $x", "echo $((x + 1))", kernel="bash")
        self.assertEqual([text(c) for c in n.cells], ["23\n", "24\n"])

    def test_nbconvert(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "n.ipynb")
            nbformat.write(new_notebook(cells=[new_markdown_cell("# Title"), new_code_cell("print(6 * 7)")]), path)
            subprocess.run([sys.executable, "-m", "nbconvert", "--to", "notebook", "--execute", "--inplace",
                            "--ExecutePreprocessor.kernel_name=python3",
                            "--ExecutePreprocessor.kernel_manager_class=" + MANAGER, path],
                           check=True, capture_output=True, timeout=240)
            self.assertEqual(text(nbformat.read(path, 4).cells[1]), "42\n")


if __name__ == "__main__":
    unittest.main()
