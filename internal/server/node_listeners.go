package server

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/internal/config"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol/fault"
)

// serveLinks serves the gateway of this machine on ln and other machines on abroad, which may be
// nil. When one listener fails both end.
func serveLinks(ctx context.Context, ln, abroad net.Listener, h noderpc.Handler,
	log *slog.Logger,
) error {
	if abroad == nil {
		return noderpc.Serve(ctx, ln, h, log)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	other := make(chan error, 1)
	go func() {
		defer cancel()
		other <- noderpc.Serve(ctx, abroad, h, log)
	}()
	err := noderpc.Serve(ctx, ln, h, log)
	cancel()
	return errors.Join(err, <-other)
}

// listenNode opens the socket and gives it to the gateway's user.
func listenNode(cfg *config.Config) (net.Listener, error) {
	const op = "node.listen"
	path := cfg.NodeSocket()
	who, _, err := GatewayUser(cfg)
	if err != nil {
		return nil, err
	}
	// The runtime's lock proves that no other node runs here. An existing socket was left by a
	// killed node.
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fault.Wrap(fault.Host, op, err)
	}
	// No process may open it before its owner is set.
	part := filepath.Join(filepath.Dir(path), ".node.sock")
	_ = os.Remove(part)
	l, err := listenPrivately(part)
	if err != nil {
		return nil, fault.Wrap(fault.Host, op, err)
	}
	l.SetUnlinkOnClose(false)
	err = os.Lchown(part, int(who.Uid), int(who.Gid))
	if err == nil {
		err = os.Rename(part, path)
	}
	if err != nil {
		_ = l.Close()
		_ = os.Remove(part)
		return nil, fault.Wrap(fault.Host, op, err)
	}
	return l, nil
}

// listenPrivately opens a socket to which only its owner may connect, from the first moment. Linux
// gives the file the mode that the socket has when it is bound. The process's umask does not
// change, since a process that starts meanwhile would inherit it.
func listenPrivately(path string) (*net.UnixListener, error) {
	private := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		if failed := c.Control(func(fd uintptr) {
			err = unix.Fchmod(int(fd),
				0o600)
		}); failed != nil {
			return failed
		}
		return err
	}}
	l, err := private.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, err
	}
	return l.(*net.UnixListener), nil
}

// listenCluster opens the listener for the gateways of the cluster, with the node's identity; nil
// without one.
func listenCluster(cfg *config.Config, identity *noderpc.Credentials, log *slog.Logger) (
	net.Listener, error,
) {
	if identity == nil {
		return nil, nil
	}
	ln, err := net.Listen("tcp", cfg.Cluster.Listen)
	if err != nil {
		return nil, &fault.Error{Kind: fault.Host, Op: "node.listen", Message: "cannot listen on " +
			cfg.Cluster.Listen, Err: err}
	}
	return identity.Secure(ln, log), nil
}

// openNodeIdentity reads the identity of the node in its cluster, which can be renewed; nil if no
// listener for gateways is configured.
func openNodeIdentity(cfg *config.Config) (*noderpc.Credentials, error) {
	if cfg.Cluster.Listen == "" {
		return nil, nil
	}
	if cfg.Cluster.Redis == "" {
		return nil, fault.Invalid("node.listen", "cluster.listen",
			"gateways of other machines find the node through cluster.redis, which is empty")
	}
	id, err := readNodeIdentity(cfg)
	if err != nil {
		return nil, err
	}
	return noderpc.NewCredentials(id)
}

// readNodeIdentity reads the identity of the node in its cluster. An identity that gateways would
// refuse is an error: all lists of the cluster would wait for a node that nobody can reach.
func readNodeIdentity(cfg *config.Config) (noderpc.Identity, error) {
	name, err := nodeName(cfg)
	if err != nil {
		return noderpc.Identity{}, err
	}
	id, err := noderpc.ReadIdentity(cfg.ClusterDir(), noderpc.RoleNode)
	if err != nil {
		return id, err
	}
	return id, id.Check(noderpc.RoleNode, string(name))
}
