package e2e

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
	"github.com/sandgate/sandgate/protocol/message"
)

// programLanguage has programs of a language of the template programs.
type programLanguage struct {
	file string
	// echo prints its arguments, then the lines of its input in brackets, then writes "no" to
	// standard error and ends with status 3.
	echo string
	// broken does not compile, and message is a part of the compiler's messages. An interpreter
	// finds the error when the program starts.
	broken, message string
	// flood prints 4 MiB. It is empty for languages whose output takes the same way as that of others.
	flood string
}

// programLanguages are the languages of the template programs by name.
func programLanguages() map[string]programLanguage {
	return map[string]programLanguage{
		"c": {
			"echo.c", `#include <stdio.h>
#include <string.h>
int main(int n, char **a) {
  char line[100];
  for (int i = 1; i < n; i++) printf("%s;", a[i]);
  while (fgets(line, 100, stdin)) { line[strcspn(line, "\n")] = 0; printf("[%s]", line); }
  fputs("no", stderr);
  return 3;
}`, "int main(void) { return x; }", "main.c:1:25: error: ‘x’ undeclared", `#include <stdio.h>
int main(void) { for (int i = 0; i < 1 << 16; i++) printf("%063d\n", i); }`,
		},
		"c++": {
			"echo.cpp", `#include <iostream>
#include <string>
int main(int n, char **a) {
  for (int i = 1; i < n; i++) std::cout << a[i] << ';';
  for (std::string line; std::getline(std::cin, line);) std::cout << '[' << line << ']';
  std::cerr << "no";
  return 3;
}`, "int main() { return x; }", "main.cpp:1:21: error: ‘x’ was not declared", "",
		},
		"rust": {
			"echo.rs", `use std::io::{self, BufRead};
fn main() {
    for a in std::env::args().skip(1) { print!("{};", a); }
    for line in io::stdin().lock().lines() { print!("[{}]", line.unwrap()); }
    eprint!("no");
    std::process::exit(3);
}`, "fn main() { x }", "cannot find value `x`", "",
		},
		"fortran": {
			"echo.f90", `program echo
  implicit none
  character(100) :: word
  integer :: i, state
  do i = 1, command_argument_count()
    call get_command_argument(i, word)
    write (*, '(a)', advance='no') trim(word) // ';'
  end do
  do
    read (*, '(a)', iostat=state) word
    if (state /= 0) exit
    write (*, '(a)', advance='no') '[' // trim(word) // ']'
  end do
  write (0, '(a)', advance='no') 'no'
  call exit(3)
end program`, "program p\n  implicit none\n  print *, x\nend program",
			"main.f90:3:12:", "",
		},
		"d": {
			"echo.d", `import std.stdio;
import core.stdc.stdlib;
int main(string[] a) {
  foreach (x; a[1 .. $]) write(x, ";");
  foreach (line; stdin.byLine) write("[", line, "]");
  stderr.write("no");
  return 3;
}`, "void main() { x = 1; }", "main.d:1:15: error: undefined identifier", "",
		},
		"ruby": {
			"echo.rb", `ARGV.each { |a| print a, ";" }
STDIN.each_line(chomp: true) { |line| print "[", line, "]" }
STDERR.print "no"
exit 3`, "def x(", "syntax error", "",
		},
		"perl": {
			"echo.pl", `print "$_;" for @ARGV;
while (<STDIN>) { chomp; print "[$_]" }
print STDERR "no";
exit 3;`, "my $x = ;", "syntax error", "",
		},
		"lua": {
			"echo.lua", `for _, a in ipairs(arg) do io.write(a, ";") end
for line in io.lines() do io.write("[", line, "]") end
io.stderr:write("no")
os.exit(3)`, "x = = 1", "main.lua:1: unexpected symbol", `for i = 0, 65535 do print(string.format("%063d", i)) end`,
		},
	}
}

// TestPrograms runs programs of each language of the template programs, as files and as code.
func TestPrograms(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	v := debianTemplate(ctx, t, server, "programs")
	all := programLanguages()
	if len(v.Languages) != len(all) || len(v.Kernelspecs) != len(all) {
		t.Fatalf("the template's languages: %v, %+v", v.Languages, v.Kernelspecs)
	}
	s := openWith(t, server, protocol.SessionCreate{Template: "programs"})
	for _, name := range v.Languages {
		t.Run(name, func(t *testing.T) {
			p := all[name]
			t.Run("code", func(t *testing.T) { programCode(t, s, name, p) })
			t.Run("file", func(t *testing.T) { programFile(t, s, name, p) })
		})
	}
	t.Run("language of the session", programSession)
	t.Run("interrupt", func(t *testing.T) { programInterrupt(t, s) })
	t.Run("limits", func(t *testing.T) { programLimits(t, s) })
	t.Run("warnings", func(t *testing.T) { programWarnings(t, s) })
	t.Run("hibernate", func(t *testing.T) { programHibernates(t, s) })
	t.Run("command line", programCommand)
	t.Run("librechat", programsOfLibreChat)
}

// programsOfLibreChat runs programs for LibreChat, which does not name the template.
func programsOfLibreChat(t *testing.T) {
	c := &libreChat{t, deadline(t), map[string]string{"X-API-Key": server.Token}}
	for lang, code := range map[string]string{
		"cpp": "#include <fstream>\nint main() { std::ofstream(\"kept\"); puts(\"42\"); }",
		"rs":  "fn main() { std::fs::write(\"kept\", \"\").unwrap(); println!(\"42\"); }",
		"f90": "open(1, file='kept')\nclose(1)\nprint '(i0)', 42\nend",
	} {
		if r := c.run(lang, code); r.Stdout != "42\n" || *r.Code != 0 || len(r.Files) != 1 {
			t.Errorf("%s: %+v", lang, r)
		}
	}
}

// programSession runs code in a session whose language is not that of the template's warm kernel.
func programSession(t *testing.T) {
	s := openWith(t, server, protocol.SessionCreate{Template: "programs", Language: "ruby"})
	code, r := runREST(t, s.ctx, "/v1/sessions/"+s.id+"/run", map[string]any{"code": "puts 6 * 7"})
	if code != 200 || r.Stdout != "42\n" {
		t.Errorf("code of the session's language: %d %+v", code, r)
	}
	v, err := s.client.Session(s.ctx, s.id)
	check(t, err)
	if v.Language != "ruby" || v.Channels[0].Language != "c" {
		t.Errorf("the session has %s, and its warm kernel %s", v.Language, v.Channels[0].Language)
	}
}

// programCode runs code of a language with POST /v1/sessions/{id}/run.
func programCode(t *testing.T, s *session, name string, p programLanguage) {
	path := "/v1/sessions/" + s.id + "/run"
	run := func(body map[string]any) protocol.RunResult {
		body["language"] = name
		body["timeout_ms"] = 300_000 // the default is too short for 4 MiB on a busy machine
		code, r := runREST(t, s.ctx, path, body)
		if code != 200 {
			t.Fatalf("status %d: %+v", code, r)
		}
		return r
	}
	r := run(map[string]any{"code": p.echo, "stdin": "one\ntwo\n"})
	if r.Stdout != "[one][two]" || r.Stderr != "no" || r.Status != "error" || r.ExitCode == nil ||
		*r.ExitCode != 3 || r.Error != nil || len(r.Results) != 0 {
		t.Errorf("a program with input: %+v, %+v", r, r.Error)
	}
	r = run(map[string]any{"code": p.broken})
	if r.Stdout != "" || r.Status != "error" || r.ExitCode == nil || *r.ExitCode == 0 {
		t.Errorf("a broken program: %+v", r)
	}
	said := r.Stderr // an interpreter has no phase of its own
	if r.Error != nil {
		if r.Error.EName != "CompileError" || r.Stderr != "" {
			t.Errorf("a broken program: %+v, %+v", r, r.Error)
		}
		said = strings.Join(r.Error.Traceback, "\n")
	}
	contains(t, said, p.message)
	if r.Error != nil && strings.Contains(said, "/tmp/") {
		t.Errorf("the messages have the driver's folder: %s", said)
	}
	if p.flood == "" {
		return
	}
	r = run(map[string]any{"code": p.echo})
	if r.Stdout != "" || r.ExitCode == nil || *r.ExitCode != 3 {
		t.Errorf("a program without input: %+v", r)
	}
	r = run(map[string]any{"code": p.flood, "max_output_bytes": 8 << 20})
	if len(r.Stdout) != 4<<20 || !strings.HasSuffix(r.Stdout, "065535\n") || r.Status != "ok" ||
		r.ExitCode == nil || *r.ExitCode != 0 {
		t.Errorf("a program with 4 MiB of output: %d bytes, %q", len(r.Stdout), r.Status)
	}
}

// programFile runs a file of a language as a process with arguments and input.
func programFile(t *testing.T, s *session, name string, p programLanguage) {
	_, err := s.client.Upload(s.ctx, s.id, p.file, 0o644, strings.NewReader(p.echo))
	check(t, err)
	proc, err := s.conn.Start(s.ctx, protocol.ChannelOpen{
		Session: s.id, Kind: "process", File: p.file, Args: []string{"a b", "c"}, Stdin: true,
	})
	check(t, err)
	check(t, proc.Stdin(s.ctx, []byte("one\ntwo")))
	check(t, proc.CloseStdin(s.ctx))
	var out, errs bytes.Buffer
	for {
		r, err := proc.Next(s.ctx)
		if err != nil {
			break
		}
		switch r.Kind {
		case frame.KindStdout:
			out.Write(r.Payload)
		case frame.KindStderr:
			errs.Write(r.Payload)
		}
	}
	if out.String() != "a b;c;[one][two]" || errs.String() != "no" || proc.Exit() == nil ||
		proc.Exit().Code != 3 {
		t.Errorf("%s printed %q, %q, %+v", p.file, out.String(), errs.String(), proc.Exit())
	}
}

// programInterrupt interrupts a program, a program that ignores interrupts, and a compiler.
func programInterrupt(t *testing.T, s *session) {
	ignoring := "#include <signal.h>\n#include <stdio.h>\n#include <unistd.h>\n" +
		"int main() { signal(SIGINT, SIG_IGN); puts(\"begun\"); fflush(stdout); for (;;) pause(); }"
	for name, code := range map[string]string{
		"waiting":  strings.Replace(ignoring, "signal(SIGINT, SIG_IGN);", "", 1),
		"ignoring": ignoring,
	} {
		asked := false
		out := s.collect(s.begin(code), func(r frame.Record) {
			if r.Kind == frame.KindStdout && !asked {
				asked = true
				check(t, s.kernel.Interrupt(s.ctx, time.Minute))
			}
		})
		if out.reply.EName != "Interrupted" || out.stdout != "begun\n" {
			t.Errorf("%s: %+v", name, out)
		}
	}
	if out := s.run("ok", "#include <stdio.h>\nint main() { puts(\"next\"); }"); out.stdout != "next\n" {
		t.Errorf("the next program: %+v", out)
	}
}

// programLimits exceeds the time of a run in both phases, and its output.
func programLimits(t *testing.T, s *session) {
	path := "/v1/sessions/" + s.id + "/run"
	for name, code := range map[string]string{
		"program": "int main() { for (;;); }",
		// Each of these templates makes two others.
		"compiler": "template<int N, int M> struct S { static const int v = S<N-1, 2*M>::v + S<N-1, 2*M+1>::v; };\n" +
			"template<int M> struct S<0, M> { static const int v = M; };\nint main() { return S<28, 0>::v; }",
	} {
		_, r := runREST(t, s.ctx, path, map[string]any{
			"code": code, "language": "c++", "timeout_ms": 1500,
		})
		if r.Status != "timeout" || r.Error == nil || r.Error.EName != "Interrupted" {
			t.Errorf("%s: %+v, %+v", name, r, r.Error)
		}
	}
	var problem struct {
		Error fault.Public `json:"error"`
	}
	status, err := server.JSON(s.ctx, "POST", "/v1/run",
		map[string]any{"code": "1", "language": "cobol", "template": "programs"}, &problem)
	check(t, err)
	if status != 400 {
		t.Errorf("an unknown language: status %d", status)
	}
	contains(t, problem.Error.Message, "cobol", "c, c++, rust, fortran, d, ruby, perl, lua")
	_, r := runREST(t, s.ctx, path, map[string]any{
		"code": "int main() { *(volatile int *)0 = 1; }", "language": "c",
	})
	if r.ExitCode == nil || *r.ExitCode != 139 || r.Error == nil || r.Error.EValue != "SIGSEGV" {
		t.Errorf("a segmentation fault: %+v, %+v", r, r.Error)
	}
}

// programWarnings shows what a compiler says about a program that it accepts.
func programWarnings(t *testing.T, s *session) {
	out := s.run("ok", "#include <stdio.h>\nint main() { int unused; puts(\"out\"); }")
	shown := out.messages[message.DisplayDataType]
	if out.stdout != "out\n" || out.stderr != "" || len(shown) != 1 {
		t.Fatalf("a program with a warning: %+v", out)
	}
	contains(t, text(t, shown[0], "text/plain"), "main.c:2:18: warning: unused variable")
}

// programHibernates hibernates the session while a program runs and waits for input.
func programHibernates(t *testing.T, s *session) {
	hibernated := false
	cell := s.begin("#include <stdio.h>\nint main() { int x; printf(\"x?\"); fflush(stdout);" +
		" if (scanf(\"%d\", &x) == 1) printf(\"%d\", x + 1); return 0; }")
	out := s.collect(cell, func(r frame.Record) {
		if r.Kind != frame.KindMessage || hibernated ||
			!bytes.Contains(r.Payload, []byte(message.InputRequestType)) {
			return
		}
		hibernated = true
		_, err := s.client.HibernateSession(s.ctx, s.id)
		check(t, err)
		_, err = s.client.ResumeSession(s.ctx, s.id)
		check(t, err)
		check(t, s.kernel.Input(s.ctx, protocol.InputReply{Cell: cell.Number(), Value: "41"}))
	})
	if out.stdout != "x?42" || !hibernated {
		t.Errorf("a program over hibernation: %+v", out)
	}
}

// programCommand runs a file and pasted code with the command line.
func programCommand(t *testing.T) {
	ctx := deadline(t)
	file := filepath.Join(t.TempDir(), "echo.c")
	check(t, os.WriteFile(file, []byte(programLanguages()["c"].echo), 0o600))
	for name, c := range map[string]struct {
		args        []string
		stdin       string
		out, errors string
		status      int
	}{
		"file":   {[]string{file, "a"}, "line", "a;[line]", "no", 3},
		"pasted": {[]string{"-l", "cpp", "-c", "int main(int n, char **) { return n; }", "a", "b"}, "", "", "", 3},
		"broken": {[]string{"-l", "c", "-c", "int main(void) { return x; }"}, "", "", "main.c:1:25: error: ‘x’ undeclared", 1},
	} {
		cmd := sandgate(t, ctx, append([]string{"run", "--template", "programs"}, c.args...)...)
		var out, errs bytes.Buffer
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(c.stdin), &out, &errs
		err := cmd.Run()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != c.status || out.String() != c.out ||
			!strings.Contains(errs.String(), c.errors) {
			t.Errorf("%s: %v, %q, %q", name, err, out.String(), errs.String())
		}
	}
}
