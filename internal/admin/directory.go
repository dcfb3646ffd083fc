package admin

import (
	"context"
	"os"
	"time"

	"github.com/sandgate/sandgate/internal/console"
	"github.com/sandgate/sandgate/internal/sandbox/gvisor"
	"github.com/sandgate/sandgate/internal/server"
)

// directory checks whether the cluster's Redis server is safe as a directory.
func (d *Doctor) directory(ctx context.Context) gvisor.Finding {
	const name = "directory"
	if os.Geteuid() != 0 && d.Config.Cluster.Password != "" {
		return finding(name, Skipped, "sudo sandgate doctor", "only root can read the password")
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	is, err := server.InspectRedis(ctx, d.Config)
	if err == nil {
		err = is.Err()
	}
	if err != nil {
		return finding(name, gvisor.Fail,
			"check cluster.redis and the server's settings: see the page Operation, section Redis",
			"%s: %s", d.Config.Cluster.Redis, console.ErrorText(err))
	}
	if risk := is.Warning(); risk != "" {
		return finding(name, gvisor.Warn,
			"set min-replicas-to-write to 1, and min-replicas-max-lag to less than cluster.lease",
			"%s", risk)
	}
	return finding(name, gvisor.OK, "", "%s: %s", d.Config.Cluster.Redis, is)
}
