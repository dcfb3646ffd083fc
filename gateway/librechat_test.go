package gateway

import (
	"testing"

	"github.com/sandgate/sandgate/gateway/auth"
	"github.com/sandgate/sandgate/gateway/librechat"
	"github.com/sandgate/sandgate/gateway/librechat/usertoken"
	"github.com/sandgate/sandgate/protocol/fault"
)

// TestTenantOfLibreChat: the users of tokens cannot belong to the operator's tenant, and a gateway
// with keys that it cannot read does not start.
func TestTenantOfLibreChat(t *testing.T) {
	for tenant, field := range map[string]string{
		auth.OperatorTenant: "librechat.jwt_tenant", "": "librechat.jwt_tenant",
		"users": "librechat.jwt_keys",
	} {
		_, err := New(Config{LibreChat: LibreChat{
			Settings: librechat.Settings{Tenant: tenant},
			Tokens:   usertoken.Config{Keys: []byte("no key")},
		}}, Remote(nil), nil)
		if fault.PublicOf(err).Field != field {
			t.Errorf("%q: %v", tenant, err)
		}
	}
}
