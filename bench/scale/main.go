// Scale runs the directory, quota and placement code of a cluster with many simulated nodes against
// a real redis-server, and prints the cost of the parts that grow with the cluster. It needs
// redis-server.
//
// A simulated node has the real lease holder, the real admission with quotas for all tenants, and the
// real protocol between gateway and node. It has no sandboxes. A gateway has the real router. All
// nodes and gateways are in this process, so the times include the waits for its processors. The
// processor time of Redis does not.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"time"
)

// options are the options of one run.
type options struct {
	nodes, gateways, tenants, sessions, workers int
	lease, steady                               time.Duration
}

func main() {
	var o options
	sizes := flag.String("nodes", "10,30,100", "numbers of nodes, each for one run")
	flag.IntVar(&o.sessions, "sessions", 50_000, "number of sessions")
	flag.IntVar(&o.gateways, "gateways", 4, "number of gateways")
	flag.IntVar(&o.tenants, "tenants", 10_000, "number of tenants")
	flag.IntVar(&o.workers, "workers", 16, "concurrent requests")
	flag.DurationVar(&o.lease, "lease", 45*time.Second, "lease of the nodes")
	flag.DurationVar(&o.steady, "steady", 15*time.Second, "time of the measurement without changes")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var columns []*report
	for _, text := range strings.Split(*sizes, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 2 {
			log.Fatalf("scale: %q is not a number of nodes", text)
		}
		o.nodes = n
		r := &report{title: fmt.Sprintf("%d nodes", n)}
		if err := run(ctx, o, r); err != nil {
			log.Fatalf("scale: %v", err)
		}
		columns = append(columns, r)
	}
	printTable(os.Stdout, columns)
}

// run measures one cluster.
func run(ctx context.Context, o options, r *report) error {
	s, err := startCluster(ctx, o)
	if err != nil {
		return err
	}
	defer s.close()
	for _, phase := range []func(context.Context, *report) error{
		s.createAll, s.rest, s.lists, s.finds, s.rollout, s.failover, s.lostZone,
	} {
		if err := phase(ctx, r); err != nil {
			return err
		}
	}
	return nil
}
