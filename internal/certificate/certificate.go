// Package certificate reads the certificates with which a gateway speaks TLS.
package certificate

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/sandgate/sandgate/protocol/fault"
)

// maxFile is the largest file that is read, in bytes.
const maxFile = 1 << 20

// Pair is a certificate with those that signed it, and its key, each as PEM.
type Pair struct {
	Chain []byte `json:"chain"`
	Key   []byte `json:"key"`
}

// Files returns the two files that an item of the settings names: "chain.pem:key.pem", or one file
// with both.
func Files(item string) (chain, key string) {
	chain, key, ok := strings.Cut(item, ":")
	if !ok {
		key = chain
	}
	return chain, key
}

// Read reads the files of an item, and checks that they belong together.
func Read(item string) (Pair, error) {
	const op = "certificate.read"
	chain, key := Files(item)
	var p Pair
	for _, f := range []struct {
		path string
		to   *[]byte
	}{{chain, &p.Chain}, {key, &p.Key}} {
		info, err := os.Stat(f.path)
		if err == nil && info.Size() > maxFile {
			return p, fault.New(fault.Host, op, "%s has more than %d bytes", f.path, maxFile)
		}
		if err == nil {
			*f.to, err = os.ReadFile(f.path)
		}
		if err != nil {
			return p, &fault.Error{
				Kind: fault.Host, Op: op, Message: "cannot read " + f.path, Err: err,
			}
		}
	}
	if _, err := p.Certificate(); err != nil {
		return p, &fault.Error{
			Kind: fault.Host, Op: op, Err: err,
			Message: fmt.Sprintf("%s and %s are not a certificate with its key", chain, key),
		}
	}
	return p, nil
}

// ReadAll reads all items.
func ReadAll(items []string) ([]Pair, error) {
	var all []Pair
	for _, item := range items {
		p, err := Read(item)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// Certificate parses the pair.
func (p Pair) Certificate() (tls.Certificate, error) { return tls.X509KeyPair(p.Chain, p.Key) }

// Certificates parses all pairs.
func Certificates(pairs []Pair) ([]tls.Certificate, error) {
	var all []tls.Certificate
	for _, p := range pairs {
		c, err := p.Certificate()
		if err != nil {
			return nil, fault.Wrap(fault.Host, "certificate.parse", err)
		}
		all = append(all, c)
	}
	return all, nil
}

// Covers reports whether one of the certificates is for a host, and returns it.
func Covers(all []tls.Certificate, host string) (*x509.Certificate, bool) {
	for _, c := range all {
		if c.Leaf != nil && c.Leaf.VerifyHostname(host) == nil {
			return c.Leaf, true
		}
	}
	return nil, false
}

// State describes the present files of all items. It differs after one was replaced or written.
func State(items []string) string {
	var b strings.Builder
	for _, item := range items {
		chain, key := Files(item)
		for _, path := range []string{chain, key} {
			info, err := os.Stat(path)
			if err != nil {
				fmt.Fprintf(&b, "%v\n", err)
				continue
			}
			fmt.Fprint(&b, path, " ", info.Size(), info.ModTime().Format(time.RFC3339Nano))
			if s, ok := info.Sys().(*syscall.Stat_t); ok {
				fmt.Fprint(&b, " ", s.Ino, s.Ctim)
			}
			fmt.Fprintln(&b)
		}
	}
	return b.String()
}
