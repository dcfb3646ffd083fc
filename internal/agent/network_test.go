package agent

import "testing"

// An error of the network is explained once for each cell of a session without network.
func TestErrorsOfTheNetworkAreExplained(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.kernel(1, "test")
	const failure = "curl: (6) Could not resolve host: a.example"
	for i, x := range []struct{ code, want string }{
		{"raw " + failure, failure + noNetwork},
		{"out npm error code EAI_AGAIN", "npm error code EAI_AGAIN" + noNetwork},
		{"out dial tcp: lookup a\nout dial tcp: lookup b", "dial tcp: lookup adial tcp: lookup b" + noNetwork},
		{"sh printf 'Could not reso'; sleep 0.05; printf 'lve host'", "Could not resolve host" + noNetwork},
		{"out resolved", "resolved"},
	} {
		if got, _ := r.run(1, uint32(i+1), x.code); got != x.want {
			t.Errorf("%q: got %q, want %q", x.code, got, x.want)
		}
	}
	r.outside()
	if got, _ := r.run(1, 9, "raw "+failure); got != failure {
		t.Errorf("with a network: %q", got)
	}
}
