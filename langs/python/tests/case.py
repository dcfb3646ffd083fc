"""A kernel for the tests of a class."""
import os
import tempfile
import unittest

import harness


class KernelCase(unittest.TestCase):
    """Starts one kernel for all tests of the class, in its own folder."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.kernel = harness.Kernel(env={"HOME": cls.folder.name, "PYTHONUNBUFFERED": "1"}, cwd=cls.folder.name)

    @classmethod
    def tearDownClass(cls):
        cls.kernel.close()
        cls.folder.cleanup()

    def run_cell(self, code, **options):
        """Run a cell and check that its output carries its number."""
        return self.kernel.run(code, **options)

    def path(self, name):
        return os.path.join(self.folder.name, name)
