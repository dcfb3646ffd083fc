package noderouter

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// metricsLimit is how long a node may take to send its metrics. A node that cannot be reached must not
// delay the metrics of the others.
const metricsLimit = 2 * time.Second

// metrics joins the metrics of the nodes that answer. Each series gets the label node.
func (r *Router) metrics(ctx context.Context, who noderpc.Principal, _ json.RawMessage) (
	json.RawMessage, error,
) {
	ctx, cancel := context.WithTimeout(ctx, metricsLimit)
	defer cancel()
	answers, err := r.ask(ctx, who, protocol.OpMetrics, struct{}{})
	if err != nil {
		return nil, err
	}
	var j joined
	nodes := map[string]bool{}
	for _, a := range answers {
		var m protocol.Metrics
		sent := a.err == nil && json.Unmarshal(a.raw, &m) == nil
		nodes[string(a.of.id)] = sent
		if sent {
			j.add(string(a.of.id), m.Text)
		}
	}
	out, err := json.Marshal(protocol.Metrics{Text: j.text(), Nodes: nodes})
	return out, fault.Wrap(fault.Internal, "noderouter.metrics", err)
}

// joined is the text of several nodes in the Prometheus format. All series of a family
// must follow its description.
type joined struct {
	order    []string
	families map[string]*family
}

type family struct {
	about  []string
	series []string
}

func (j *joined) add(name, text string) {
	if j.families == nil {
		j.families = map[string]*family{}
	}
	var now *family
	mine := false // this node's text began the family, and describes it
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "# ") {
			words := strings.SplitN(line, " ", 4)
			if len(words) < 3 {
				continue
			}
			of := words[2]
			if now == nil || j.families[of] != now {
				now, mine = j.families[of], false
				if now == nil {
					now, mine = &family{}, true
					j.families[of] = now
					j.order = append(j.order, of)
				}
			}
			if mine {
				now.about = append(now.about, line)
			}
			continue
		}
		if now == nil || strings.TrimSpace(line) == "" {
			continue
		}
		now.series = append(now.series, labelled(line, name))
	}
}

// labelled adds the label node to a series. A node's name has nothing that
// would have to be escaped.
func labelled(line, name string) string {
	label := `node="` + name + `"`
	end := strings.IndexAny(line, "{ ")
	if end < 0 {
		return line
	}
	if line[end] == '{' {
		return line[:end+1] + label + "," + line[end+1:]
	}
	return line[:end] + "{" + label + "}" + line[end:]
}

func (j *joined) text() string {
	var b strings.Builder
	for _, of := range j.order {
		for _, line := range j.families[of].about {
			b.WriteString(line)
		}
		for _, line := range j.families[of].series {
			b.WriteString(line)
		}
	}
	return b.String()
}
