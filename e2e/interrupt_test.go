package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/frame"
	"github.com/sandgate/sandgate/protocol/message"
)

// endless has cells of a language that run until they are interrupted.
type endless struct {
	keep  string   // sets a value that must survive the interrupts
	kept  string   // fails when the value is lost
	cells []string // each runs forever
}

// endlessly has the cells by language. Each language has a loop that computes, a
// loop that sleeps, and other ways to wait, with a child process among them. An
// interrupt that is sent early finds each of them in another state.
var endlessly = map[string]endless{
	"python": {
		"kept = 41", "assert kept == 41",
		[]string{
			"import time\nwhile True: time.sleep(1)",
			"while True: pass",
			"import asyncio\nawait asyncio.sleep(1000)",
			"import subprocess\nsubprocess.run(['sleep', '1000'])",
			"!sleep 1000",
			"input()",
		},
	},
	"javascript": {
		"let kept = 41", "if (kept !== 41) throw new Error('lost')",
		[]string{
			"while (true) { await new Promise((done) => setTimeout(done, 1000)) }",
			"while (true) {}",
			"await new Promise(() => {})",
			"Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)",
			"require('node:child_process').execSync('sleep 1000')",
			"prompt()",
		},
	},
	"golang": {
		"kept := 41", "if kept != 41 { panic(\"lost\") }",
		[]string{
			"for { time.Sleep(time.Second) }",
			"for { kept = 41 }",
			"select {}",
			"exec.Command(\"sleep\", \"1000\").Run()",
		},
	},
	"java": {
		"int kept = 41;", "if (kept != 41) throw new IllegalStateException();",
		[]string{
			"while (true) Thread.sleep(1000);",
			"while (true) { kept = 41; }",
			"new java.util.concurrent.CountDownLatch(1).await();",
			"new ProcessBuilder(\"sleep\", \"1000\").start().waitFor();",
			"System.in.read();",
		},
	},
	"php": {
		"$kept = 41;", "if ($kept !== 41) throw new Exception('lost');",
		[]string{
			"while (true) sleep(1);",
			"while (true) {}",
			"stream_select($r, $w, $e, 1000);",
			"shell_exec('sleep 1000');",
			"readline();",
		},
	},
	"bash": {
		"kept=41", "[[ $kept == 41 ]] || exit 9",
		[]string{
			"sleep 1000",
			"while :; do :; done",
			"while :; do sleep 0.01; done",
			"sleep 1000 | cat",
			"(sleep 1000)",
			"x=$(sleep 1000)",
			"sleep 1000 & wait",
			"while :; do /bin/true; done",
			"read line",
		},
	},
	"r": {
		"kept <- 41", "stopifnot(kept == 41)",
		[]string{
			"repeat Sys.sleep(1)",
			"repeat kept <- 41",
			"invisible(system('sleep 1000'))",
			"readline()",
		},
	},
	"sql": {
		"CREATE TABLE kept (n)", "INSERT INTO kept VALUES (41)",
		[]string{
			"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n",
			"SELECT sleep(1000)",
			"SELECT :asked",
		},
	},
}

// interruptLimit is how long a cell may take to end. It is far above the promise,
// because these tests search for interrupts that are lost.
const interruptLimit = 3 * time.Minute

// runInterrupts interrupts cells 0 to 20 ms after they were sent: before the driver
// has read them, while they begin, and right before they wait. The first cell of a
// kernel is among them, and each kernel's last cell checks the state.
func runInterrupts(t *testing.T, c *wire.Client, language, template string) {
	e, ok := endlessly[language]
	if !ok {
		t.Fatal("there are no endless cells of this language")
	}
	fresh, rounds := 3, 18
	// More cells, to search for a failure that is rare.
	if n, err := strconv.Atoi(os.Getenv("INTERRUPT_ROUNDS")); err == nil && n > 0 {
		fresh, rounds = max(1, n/6), n
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	for range fresh {
		made, err := c.CreateSession(ctx, protocol.SessionCreate{
			Language: language, Template: template,
		})
		check(t, err)
		conn, err := c.Connect(ctx)
		check(t, err)
		k, err := conn.Kernel(ctx, made.ID, made.Channels[0].ID)
		check(t, err)
		for i := range rounds / fresh {
			if i == 1 { // the first cell of a kernel is interrupted
				finish(t, ctx, k, e.keep)
			}
			interruptEarly(t, ctx, k, e.cells[rand.IntN(len(e.cells))],
				time.Duration(rand.IntN(20_000))*time.Microsecond)
		}
		finish(t, ctx, k, e.kept)
		check(t, k.Close())
		check(t, conn.Close())
		check(t, c.DeleteSession(ctx, made.ID))
		if t.Failed() {
			return
		}
	}
}

func finish(t *testing.T, ctx context.Context, k *wire.Kernel, code string) {
	t.Helper()
	cell, err := k.Execute(ctx, code, wire.ExecuteOptions{})
	check(t, err)
	reply, err := waitLogged(ctx, t, cell)
	check(t, err)
	if reply.Status != "ok" {
		t.Errorf("%q: %+v", code, reply)
	}
}

// interruptEarly sends a cell, interrupts it after the pause, and waits for its
// end: with the language's error, aborted if it had not begun, or by itself if the
// interrupt ended the child process that it was waiting for.
func interruptEarly(t *testing.T, ctx context.Context, k *wire.Kernel, code string,
	pause time.Duration,
) {
	t.Helper()
	cell, err := k.Execute(ctx, code, wire.ExecuteOptions{})
	check(t, err)
	time.Sleep(pause) // the pause is the moment that is tested
	sent := time.Now()
	check(t, k.Interrupt(ctx, 0))
	limited, cancel := context.WithTimeout(ctx, interruptLimit)
	reply, err := waitLogged(limited, t, cell)
	cancel()
	if err != nil {
		t.Errorf("interrupted %v after it was sent, it did not end in %v: %q", pause,
			interruptLimit, code)
		err := fmt.Errorf("lost after %v: %s", pause, code)
		fails.add(t.Name(), err)
		check(t, k.Restart(ctx))
		return
	}
	t.Logf("%-8v then %-8v %s %s: %q", pause, time.Since(sent).Round(time.Millisecond),
		reply.Status, reply.EName, code)
}

// waitLogged waits for the cell's end and logs what the kernel reports of its own state.
func waitLogged(ctx context.Context, t *testing.T, cell *wire.Cell) (message.ExecuteReply, error) {
	t.Helper()
	for {
		r, err := cell.Next(ctx)
		if err == io.EOF {
			return *cell.Reply(), nil
		}
		if err != nil {
			return message.ExecuteReply{}, err
		}
		var m message.Message
		if r.Kind == frame.KindEvent || r.Kind == frame.KindMessage &&
			json.Unmarshal(r.Payload, &m) == nil && m.Type == message.KernelEventType {
			t.Logf("the kernel reports %s", r.Payload)
		}
	}
}
