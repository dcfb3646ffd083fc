// Package surface is the contract between the gateway and its protocol
// surfaces. A surface is a package that speaks one protocol, such as
// POST /v1/run or the proxy to the ports of sandboxes. It consists of standard
// http.Handlers. The gateway routes, authorizes, limits and logs its requests.
package surface

import "github.com/sandgate/sandgate/fault"

// PublicOf returns what a client may know of err. It adds a time to retry after
// to the kinds of error that pass by themselves, so that no client retries in a
// tight loop.
func PublicOf(err error) fault.Public {
	p := fault.PublicOf(err)
	if p.RetryAfter == 0 {
		switch p.Kind {
		case fault.Exhausted, fault.Unavailable, fault.Restarting:
			p.RetryAfter = 1
		}
	}
	return p
}
