// Corpus runs programs that other people wrote in the kernels, and prints how many behave as
// they do without a kernel. README.md says where the programs come from.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/e2e"
)

func main() {
	names := strings.Join(slices.Sorted(maps.Keys(corpora())), ", ")
	var s settings
	flag.StringVar(&s.corpus, "corpus", "", "which one: "+names)
	flag.StringVar(&s.dir, "dir", "", "the folder with its programs")
	flag.StringVar(&s.match, "match", "", "a pattern for the names of programs")
	flag.IntVar(&s.every, "every", 1, "run one of so many programs")
	flag.StringVar(&s.details, "details", "", "a file for what failed, as JSON lines")
	flag.BoolVar(&s.list, "list", false, "only list the programs, with their numbers of cells")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, s)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "corpus:", err)
		os.Exit(1)
	}
}

// settings are the flags of the command.
type settings struct {
	corpus, dir, match, details string
	every                       int
	list                        bool
}

// run runs one corpus and prints its table.
func run(ctx context.Context, s settings) error {
	source, ok := corpora()[s.corpus]
	if !ok || s.dir == "" {
		return errors.New("give the flags -corpus and -dir; see -help")
	}
	match, err := regexp.Compile(s.match)
	if err != nil {
		return err
	}
	dir, err := filepath.Abs(s.dir)
	if err != nil {
		return err
	}
	all, err := source.read(dir)
	if err != nil {
		return err
	}
	var programs []*program
	for i, p := range all {
		if i%max(1, s.every) == 0 && match.MatchString(p.name) {
			programs = append(programs, p)
		}
	}
	if s.list {
		for _, p := range programs {
			fmt.Println(p.name, len(p.cells))
		}
		return nil
	}
	c, stop, err := server(ctx, source.language)
	if err != nil {
		return err
	}
	defer stop()
	r := &runner{client: c, source: source, known: reasons()[s.corpus], began: time.Now()}
	if s.details != "" {
		f, err := os.Create(s.details)
		if err != nil {
			return err
		}
		defer f.Close()
		r.details = json.NewEncoder(f)
	}
	// An interrupted run prints its table too.
	defer func() { r.report.print(os.Stdout, s.corpus) }()
	if err := r.references(ctx, programs); err != nil {
		return err
	}
	for _, p := range programs {
		if err := r.program(ctx, p); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

// server returns a client of the server that SANDGATE_URL and SANDGATE_TOKEN name, or of one that
// it starts, and a function that stops it.
func server(ctx context.Context, language string) (*wire.Client, func(), error) {
	url, token := os.Getenv("SANDGATE_URL"), os.Getenv("SANDGATE_TOKEN")
	stop := func() {}
	if url == "" {
		s, err := e2e.Start(ctx, fmt.Sprintf(
			"pool: {size: 1, languages: [%s], memory: 0}\nlimits: {memory: 2GiB}", language))
		if err != nil {
			return nil, nil, err
		}
		url, token, stop = s.URL, s.Token, func() { _ = s.Stop() }
	}
	c, err := wire.New(url, token, wire.Options{})
	return c, stop, err
}
