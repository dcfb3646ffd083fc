package jupyter

import (
	"context"
	"errors"
	"net/http/httptest"
	"testing"

	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol/fault"
)

// failingNode is a node whose operations fail.
type failingNode struct {
	Node
	err error
}

func (n failingNode) Call(context.Context, noderpc.Principal, string, any, any) error {
	return n.err
}

// TestKernelErrors: an error that may pass is a reason to try again, not the end of a kernel.
func TestKernelErrors(t *testing.T) {
	for _, c := range []struct {
		err  error
		want fault.Kind
	}{
		{fault.New(fault.Exhausted, "node", "too many requests"), fault.Unavailable},
		{context.DeadlineExceeded, fault.Unavailable},
		{errors.New("the link ended"), fault.Unavailable},
		{fault.New(fault.Unavailable, "node", "the node has gone"), fault.Unavailable},
		{fault.New(fault.NotFound, "node", "there is no such session"), fault.NotFound},
		{fault.New(fault.PermissionDenied, "node", "not yours"), fault.PermissionDenied},
	} {
		s := &Surface{cfg: Config{Node: failingNode{err: c.err}}}
		id := kernelID("s_0123456789abcdef", "k1")
		r := requestAt(t, "/jupyter/api/kernels/"+id)
		r.SetPathValue("id", id)
		if err := s.getKernel(httptest.NewRecorder(), r); !fault.Is(err, c.want) {
			t.Errorf("%v became %v, want %s", c.err, err, c.want)
		}
	}
}
