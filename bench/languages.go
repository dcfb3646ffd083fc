package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sandgate/sandgate/e2e"
	"github.com/sandgate/sandgate/protocol"
)

// language is what is measured of one language.
type language struct {
	name string
	// print prints one line, trivial is the cell that does next to nothing,
	// rich shows a table or a figure.
	print, trivial, rich string
	// loop prints a line and never ends; where it cannot print, blind is how
	// long to wait for it to be at work.
	loop  string
	blind time.Duration
}

func languageList() []language {
	return []language{
		{
			name: "python", print: "print(1)", trivial: "1+1",
			rich: "import matplotlib.pyplot as plt\nplt.plot([1, 3, 2]); plt.show()",
			loop: "print('go', flush=True)\nwhile True: pass",
		},
		{
			name: "javascript", print: "console.log(1)", trivial: "1+1",
			rich: "display.table([{ n: 1, s: 'a' }, { n: 2, s: 'b' }])",
			loop: "console.log('go'); for (;;) {}",
		},
		{
			name: "golang", print: "fmt.Println(1)", trivial: "1+1",
			rich: "display.Table([]struct{ N int; S string }{{1, \"a\"}, {2, \"b\"}})",
			loop: "fmt.Println(\"go\")\nfor {\n}",
		},
		{
			name: "java", print: "System.out.println(1)", trivial: "1+1",
			rich: "display(table(columns(\"n\", List.of(1, 2), \"s\", List.of(\"a\", \"b\"))))",
			loop: "System.out.println(\"go\"); while (true) {}",
		},
		{
			name: "php", print: "echo 1;", trivial: "1+1",
			rich: "table([['n' => 1, 's' => 'a'], ['n' => 2, 's' => 'b']]);",
			loop: "echo \"go\\n\"; while (true) {}",
		},
		{
			name: "bash", print: "echo 1", trivial: ":",
			rich: "printf 'n,s\\n1,a\\n2,b\\n' > t.csv; display t.csv",
			loop: "echo go; while :; do :; done",
		},
		{
			name: "sql", print: "select 1", trivial: "select 1",
			rich: "select 1 as n, 'a' as s union select 2, 'b'",
			loop: "with recursive t(n) as (select 1 union all select n+1 from t) select count(*) from t", blind: 300 * time.Millisecond,
		},
	}
}

// measureLanguages prints a line for each language, one after the other, each
// with a server of its own.
func measureLanguages(ctx context.Context, names string, rounds, cells int) error {
	fmt.Printf("%-11s %9s %9s %9s %9s %9s %9s %9s\n", "median, ms", "claim", "restore", "trivial", "rich", "interrupt", "cold", "idle MiB")
	for _, l := range languageList() {
		if names != "all" && !slices.Contains(strings.Split(names, ","), l.name) {
			continue
		}
		if err := measureLanguage(ctx, l, rounds, cells); err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
	}
	fmt.Println("\nclaim: from the pool to the first output. restore: the same with an empty pool, from the warm snapshot.")
	fmt.Println("trivial: 1+1 or the like, one after the other. rich: the first figure (python) or table, on its second run.")
	fmt.Println("interrupt: from sending it to the end of an endless loop. cold: a kernel started in a running sandbox, to its first reply.")
	fmt.Println("idle: memory of a warm sandbox, with gVisor's, shared pages in proportion.")
	return nil
}

func measureLanguage(ctx context.Context, l language, rounds, cells int) error {
	s, err := e2e.Start(ctx, fmt.Sprintf("pool: {size: 1, languages: [%s], memory: 0}", l.name))
	if err != nil {
		return err
	}
	defer s.Stop()
	var claim, restore, trivial, rich, interrupt, cold []float64
	var w *wire
	var session string
	for range rounds {
		if err := s.Warm(ctx); err != nil {
			return err
		}
		for _, times := range []*[]float64{&claim, &restore} {
			if session != "" {
				if err := w.call(ctx, protocol.OpSessionDelete, 0, protocol.SessionRef{Session: session}, nil); err != nil {
					return err
				}
				w.conn.CloseNow()
			}
			if w, err = dial(ctx, s); err != nil {
				return err
			}
			var r result
			if session, r, err = w.session(ctx, l.name, l.print); err != nil {
				return err
			}
			if r.first == 0 { // what it shows is no text
				r.first = r.done
			}
			*times = append(*times, ms(r.first))
		}
	}
	if err := s.Warm(ctx); err != nil {
		return err
	}
	idle, err := idleMemory(s)
	if err != nil {
		return err
	}
	for i := range cells {
		r, err := w.run(ctx, 1, fmt.Sprint("trivial", i), l.trivial)
		if err != nil {
			return err
		}
		trivial = append(trivial, ms(r.done))
	}
	for i := range 6 {
		r, err := w.run(ctx, 1, fmt.Sprint("rich", i), l.rich)
		if err != nil {
			return err
		}
		if i > 0 {
			rich = append(rich, ms(r.done))
		}
	}
	for i := range 5 {
		took, err := w.interrupt(ctx, 1, fmt.Sprint("loop", i), l.loop, l.blind)
		if err != nil {
			return err
		}
		interrupt = append(interrupt, ms(took))
	}
	for i := range 3 {
		ch := uint32(i + 2)
		start := time.Now()
		var c protocol.Channel
		if err := w.call(ctx, protocol.OpChannelOpen, 0, protocol.ChannelOpen{Session: session, Kind: "kernel", Language: l.name}, &c); err != nil {
			return err
		}
		if err := w.call(ctx, protocol.OpAttach, ch, protocol.Attach{Session: session, Channel: c.ID}, nil); err != nil {
			return err
		}
		if _, err := w.send(ctx, protocol.OpExecute, ch, protocol.Execute{Key: "cold", Code: l.trivial}); err != nil {
			return err
		}
		if _, err := w.finish(ctx, ch, start); err != nil {
			return err
		}
		cold = append(cold, ms(time.Since(start)))
	}
	w.conn.CloseNow()
	fmt.Printf("%-11s %9.1f %9.0f %9.2f %9.1f %9.1f %9.0f %9.0f\n", l.name,
		median(claim), median(restore), median(trivial), median(rich), median(interrupt), median(cold), idle)
	return nil
}

// idleMemory is what the smallest of a server's sandboxes holds, in MiB: one
// that waits in the pool. Pages that several processes share count in parts.
func idleMemory(s *e2e.Server) (float64, error) {
	parents := map[int]int{}
	var roots []int
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0, err
	}
	for _, dir := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		stat, err := os.ReadFile(dir + "/stat")
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		if f := strings.Fields(rest); len(f) > 1 {
			parents[pid], _ = strconv.Atoi(f[1])
		}
		args, _ := os.ReadFile(dir + "/cmdline")
		if strings.HasPrefix(string(args), "runsc-sandbox") && strings.Contains(string(args), s.Dir) {
			roots = append(roots, pid)
		}
	}
	least := 0.0
	for _, root := range roots {
		sum := 0.0
		for pid := range parents {
			at := pid
			for at > 1 && at != root {
				at = parents[at]
			}
			if at == root {
				sum += pss(pid)
			}
		}
		if least == 0 || sum < least {
			least = sum
		}
	}
	if least == 0 {
		return 0, fmt.Errorf("the server has no sandbox")
	}
	return least, nil
}

// pss is a process's share of memory in MiB.
func pss(pid int) float64 {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "Pss:"); ok {
			var kib float64
			fmt.Sscan(rest, &kib)
			return kib / 1024
		}
	}
	return 0
}
