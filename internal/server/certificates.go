package server

import (
	"context"
	"time"

	"github.com/sandgate/sandgate/internal/certificate"
)

// certificateEvery is the time between two looks at the files of the certificates.
const certificateEvery = 5 * time.Second

// followCertificates sends the certificates to the gateway again after their files have changed,
// until ctx ends. Files that do not belong together change nothing: a program may be writing them.
func (r *reloader) followCertificates(ctx context.Context) {
	seen := certificate.State(r.certificates())
	tick := time.NewTicker(certificateEvery)
	defer tick.Stop()
	last := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		items := r.certificates()
		state := certificate.State(items)
		if state == seen {
			continue
		}
		if err := r.refresh(ctx); err != nil {
			if text := err.Error(); text != last {
				r.log.Error("certificates have changed and could not be read again", "error", err)
				last = text
			}
			continue
		}
		seen, last = state, ""
		r.log.Info("certificates were read again", "files", items)
	}
}

func (r *reloader) certificates() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cfg.TLS.Certificates
}

// refresh applies the present settings, with the present content of the files that they name.
func (r *reloader) refresh(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, 2*reloadLimit)
	defer cancel()
	return r.apply(ctx, r.cfg)
}
