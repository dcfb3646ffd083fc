package gateway

import (
	"strings"

	"github.com/gofiber/fiber/v2"

	"github.com/sandgate/sandgate/internal/tenant"
	"github.com/sandgate/sandgate/protocol"
)

// changeKeys asks the node for a change of the key table, and answers once this gateway has
// received it.
func (q *request) changeKeys(status int, op string, params, result any, version *uint64) error {
	if err := q.ask(op, params, result); err != nil {
		return err
	}
	if err := q.g.auth.Keys.Await(q.g.base, *version); err != nil {
		return err
	}
	return q.json(status, result)
}

// tenantName returns the tenant in the path. "*" means all tenants without a quota of their own.
func (q *request) tenantName() (string, error) {
	name := strings.ReplaceAll(q.Params("id"), "%2A", "*")
	if name == "*" {
		return name, nil
	}
	return name, tenant.CheckName("gateway.tenant", name)
}

func (c *credentialAPI) setQuota(q *request) error {
	name, err := q.tenantName()
	if err != nil {
		return err
	}
	var p protocol.Quota
	if err := q.body.decode(&p, false); err != nil {
		return err
	}
	var state protocol.KeyState
	return q.changeKeys(fiber.StatusOK, protocol.OpTenantQuota,
		protocol.TenantQuota{Tenant: name, Quota: &p}, &state, &state.Version)
}

func (c *credentialAPI) clearQuota(q *request) error {
	name, err := q.tenantName()
	if err != nil {
		return err
	}
	var state protocol.KeyState
	return q.changeKeys(fiber.StatusOK, protocol.OpTenantQuota, protocol.TenantQuota{Tenant: name},
		&state, &state.Version)
}
