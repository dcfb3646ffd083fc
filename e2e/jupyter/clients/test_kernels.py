"""Jupyter's own tests of kernels, over Jupyter Server's client of a gateway.

JUPYTER_GATEWAY_URL is the address of a Jupyter server of Sandgate, with a token in its path. Run
with python3 -m unittest. All classes are unmodified; this file has the samples of each language.
"""
import unittest

import jupyter_kernel_test
from jupyter_client.utils import run_sync
from jupyter_server.gateway.managers import GatewayKernelManager


class Patient:
    """A channel whose messages may be late. The tests wait for some of them for only 0.1 s."""

    def __init__(self, channel):
        self._channel = channel

    async def get_msg(self, timeout=None):
        if timeout is not None:
            timeout = max(timeout, 60)
        return await self._channel.get_msg(timeout=timeout)

    def __getattr__(self, name):
        return getattr(self._channel, name)


class Client:
    """The gateway's client, with methods that block as those of the tests' usual client do."""

    def __init__(self, client):
        self._client = client
        self.iopub_channel, self.shell_channel = Patient(client.iopub_channel), Patient(client.shell_channel)

    def get_shell_msg(self, timeout=None):
        return run_sync(self.shell_channel.get_msg)(timeout=timeout)

    def __getattr__(self, name):
        return getattr(self._client, name)


class KernelTests(jupyter_kernel_test.KernelTests):
    """The tests, with a kernel that a gateway starts."""

    @classmethod
    def setUpClass(cls):
        if cls is KernelTests:
            raise unittest.SkipTest("the tests of each language are in its class")
        cls.km = GatewayKernelManager(kernel_name=cls.kernel_name)
        run_sync(cls.km.start_kernel)(kernel_name=cls.kernel_name)
        client = cls.km.client()
        run_sync(client.start_channels)()
        run_sync(client.wait_for_ready)(timeout=120)
        cls.kc = Client(client)

    @classmethod
    def tearDownClass(cls):
        cls.kc.stop_channels()
        run_sync(cls.km.shutdown_kernel)(now=True)

    def flush_channels(self):
        """Reads until the end of another request: it comes after all that is still on its way.

        The original reads until nothing has come for 0.1 s. The last state of a request may come
        later than that, and the next test would take it for its own.
        """
        asked = self.kc.kernel_info()

        def ends(message):
            return message["parent_header"].get("msg_id") == asked and (
                message["msg_type"] == "kernel_info_reply" or
                message["content"].get("execution_state") == "idle")

        for channel in self.kc.shell_channel, self.kc.iopub_channel:
            ended = False
            while not ended:
                message = run_sync(channel.get_msg)(timeout=60)
                jupyter_kernel_test.validate_message(message)
                ended = ends(message)


class Python(KernelTests):
    kernel_name = "python3"
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


class Bash(KernelTests):
    kernel_name = "bash"
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


class SQL(KernelTests):
    kernel_name = "sql"
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


class JavaScript(KernelTests):
    kernel_name = "javascript"
    language_name = "javascript"
    file_extension = ".js"
    code_hello_world = "console.log('hello, world')"
    code_stderr = "console.error('oops')"
    completion_samples = [{"text": "parseF", "matches": {"parseFloat"}}]
    complete_code_samples = ["1", "function f() { return 1 }"]
    incomplete_code_samples = ["function f() {", "`a"]
    invalid_code_samples = ["let = = 3"]
    code_generate_error = "throw new Error('on purpose')"
    code_execute_result = [{"code": "6*7", "result": "42"}]
    code_display_data = [{"code": "display.html('<b>x</b>'); undefined", "mime": "text/html"}]
    code_history_pattern = "6?7*"
    supported_history_operations = ("tail", "range", "search")
    code_inspect_sample = "parseFloat"


class Go(KernelTests):
    kernel_name = "go"
    language_name = "go"
    file_extension = ".go"
    code_hello_world = 'fmt.Println("hello, world")'
    code_stderr = 'println("oops")'
    completion_samples = [{"text": "strings.ToUpp", "matches": {"ToUpper", "ToUpperSpecial"}}]
    complete_code_samples = ["1", "func f() int { return 1 }"]
    incomplete_code_samples = ["func f() {", "x := `a"]
    invalid_code_samples = ["x := )"]
    code_generate_error = 'panic("on purpose")'
    code_execute_result = [{"code": "6*7", "result": "42"}]
    code_history_pattern = "6?7*"
    supported_history_operations = ("tail", "range", "search")
    code_inspect_sample = "strings.ToUpper"


class Java(KernelTests):
    kernel_name = "java"
    language_name = "java"
    file_extension = ".java"
    code_hello_world = 'System.out.println("hello, world");'
    code_stderr = 'System.err.println("oops");'
    complete_code_samples = ["1", "int f() { return 1; }"]
    incomplete_code_samples = ["int f() {"]
    code_generate_error = 'throw new RuntimeException("on purpose");'
    code_execute_result = [{"code": "6*7", "result": "42"}]
    code_display_data = [{"code": 'display(html("<b>x</b>"));', "mime": "text/html"}]
    code_history_pattern = "6?7*"
    supported_history_operations = ("tail", "range", "search")
    code_inspect_sample = "String"


class PHP(KernelTests):
    kernel_name = "php"
    language_name = "php"
    file_extension = ".php"
    code_hello_world = 'echo "hello, world\\n";'
    code_stderr = 'fwrite(STDERR, "oops\\n");'
    completion_samples = [{"text": "array_fli", "matches": {"array_flip"}}]
    complete_code_samples = ["1;", "function f() { return 1; }"]
    incomplete_code_samples = ["function f() {", "echo 'a"]
    code_generate_error = "throw new Exception('on purpose');"
    code_execute_result = [{"code": "6*7", "result": "42"}]
    code_display_data = [{"code": "html('<b>x</b>');", "mime": "text/html"}]
    code_history_pattern = "6?7*"
    supported_history_operations = ("tail", "range", "search")
    code_inspect_sample = "array_flip"


if __name__ == "__main__":
    unittest.main()
