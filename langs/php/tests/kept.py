"""Tests variables that outlive their kernel: python3 tests/kept.py."""
import os
import stat
import tempfile

from harness import Kernel


def ask(kernel, op, **keep):
    return kernel.wait(kernel.send(op, keep=keep))


def value(kernel, code):
    """Return the output of a cell."""
    before = len(kernel.events)
    reply = kernel.run(code)
    assert reply["status"] == "ok", reply
    return "".join(e.body.decode() for e in kernel.events[before:] if e.kind == 4)


def values(folder):
    file = f"{folder}/kept/k1"
    kernel = Kernel(cwd="/tmp")
    first = ask(kernel, "keep", file=file)
    assert (first["written"], first["kept"], first["lost"]) == (False, [], []), first
    value(kernel, """$x = 41; $text = "é\\0"; $list = [1, 'a' => [2.5, null]]; $shared = new ArrayObject([1]); $same = $shared;
$when = new DateTimeImmutable('2020-01-02'); $ref = &$list['a']; const LIMIT = 7; define('OTHER', [1]);
$self = new stdClass; $self->self = $self; chdir('/usr');""")
    value(kernel, """class Point { public $x = 1; function __serialize(): array { echo 'run'; return []; } } function f() { return 1; }
$p = new Point; $points = [1, [$p]]; $add = fn($n) => $n + 1; $open = fopen('php://memory', 'r'); $numbers = (function () { yield 1; })();
$closed = fopen('php://memory', 'r'); fclose($closed); $nested = []; $nested['self'] = &$nested;""")
    kept = ask(kernel, "keep", file=file, bytes=1 << 20, seconds=20)
    assert kept["status"] == "ok", kept
    assert sorted(kept["lost"]) == sorted(["Point", "f", "p", "points", "add", "open", "numbers", "closed", "nested"]), kept
    assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
    assert value(kernel, "echo $x;") == "41"
    kernel.close()

    kernel = Kernel(cwd="/tmp")
    restored = ask(kernel, "restore", file=file, seconds=20)
    assert sorted(restored["kept"]) == sorted(kept["kept"]) and restored["lost"] == [], (restored, kept)
    assert os.listdir(f"{folder}/kept") == []
    said = value(kernel, """$ref[] = 'more'; echo json_encode([$x, strlen($text), $list, $shared === $same, $when->format('Y'), LIMIT, OTHER,
    $self->self === $self, getcwd()]);""")
    assert said == '[41,3,{"0":1,"a":[2.5,null,"more"]},true,"2020",7,[1],true,"\\/usr"]', said
    again = ask(kernel, "keep", file=file)
    assert again["kept_count"] == kept["kept_count"] and again["lost"] == [], again
    kernel.close()


def limits(folder):
    file = f"{folder}/kept/k1"
    kernel = Kernel(cwd="/tmp")
    value(kernel, "$large = str_repeat('x', 2 << 20); $one = 1; $many = range(1, 3_000_000); for ($i = 0; $i < 50; $i++) { ${\"v$i\"} = fn() => $i; }")
    kept = ask(kernel, "keep", file=file, bytes=1 << 20, seconds=20)
    assert sorted(kept["kept"]) == ["i", "one"] and len(kept["lost"]) == 20 and kept["lost_count"] == 52, kept
    for bad in ({}, {"file": 7}, {"file": "/proc/none/k1"}):
        assert ask(kernel, "keep", **bad)["status"] == "error", bad
    os.remove(file)
    for text in (None, b"", b"x", b"i:1;", b'a:1:{s:6:"values";i:1;}'):
        if text is not None:
            with open(file, "wb") as f:
                f.write(text)
        assert ask(kernel, "restore", file=file)["status"] == "error", text
    assert value(kernel, "echo 6 * 7;") == "42"
    kernel.close()


def main():
    for check in (values, limits):
        with tempfile.TemporaryDirectory() as folder:
            check(folder)
        print(check.__name__, "ok")


if __name__ == "__main__":
    main()
