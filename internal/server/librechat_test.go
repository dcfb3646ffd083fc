package server

import (
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/config"
)

// TestLibreChatSettings: files are not kept longer than a session may be idle.
func TestLibreChatSettings(t *testing.T) {
	cfg := config.Default()
	if got := libreChat(cfg, nil); got.Retention != 24*time.Hour || got.Runs != 20 ||
		got.MaxLifetime != 0 {
		t.Errorf("%+v", got)
	}
	cfg.Sessions.IdleDelete = config.Duration(time.Hour)
	cfg.Sessions.MaxLifetime = config.Duration(time.Minute)
	if got := libreChat(cfg, nil); got.Retention != time.Hour || got.MaxLifetime != time.Minute {
		t.Errorf("%+v", got)
	}
}
