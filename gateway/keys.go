package gateway

import (
	"strings"

	"github.com/gofiber/fiber/v2"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/tenant"
	"github.com/sandgate/sandgate/protocol"
)

// changeKeys asks the node for a change, and answers once this gateway knows
// of it.
func (q *request) changeKeys(status int, op string, params, result any, version *uint64) error {
	if err := q.ask(op, params, result); err != nil {
		return err
	}
	if err := q.g.auth.Keys.Await(q.g.base, *version); err != nil {
		return err
	}
	return q.json(status, result)
}

func (g *Gateway) createKey(q *request) error {
	var p protocol.KeyCreate
	if err := q.body.decode(&p, false); err != nil {
		return err
	}
	var made protocol.NewKey
	return q.changeKeys(fiber.StatusCreated, protocol.OpKeyCreate, p, &made, &made.Version)
}

func (g *Gateway) listKeys(q *request) error {
	p := protocol.KeyQuery{Tenant: q.Query("tenant"), All: q.Query("all") == "true"}
	return q.call(fiber.StatusOK, protocol.OpKeyList, p, new(protocol.KeyList))
}

// key returns the key's id in the path. A wrong form could not be one.
func (q *request) key() (string, error) {
	id := q.Params("id")
	if !validID(id) {
		return "", &fault.Error{Kind: fault.NotFound, Op: "gateway.key", Field: "id", Message: "there is no such key"}
	}
	return id, nil
}

func (g *Gateway) rotateKey(q *request) error {
	id, err := q.key()
	if err != nil {
		return err
	}
	var p protocol.KeyRotate
	if err := q.body.decode(&p, true); err != nil {
		return err
	}
	if p.ID != "" && p.ID != id {
		return fault.Invalid("gateway.key", "id", "the body names another key than the path")
	}
	p.ID = id
	var made protocol.NewKey
	return q.changeKeys(fiber.StatusOK, protocol.OpKeyRotate, p, &made, &made.Version)
}

func (g *Gateway) revokeKey(q *request) error {
	id, err := q.key()
	if err != nil {
		return err
	}
	var state protocol.KeyState
	return q.changeKeys(fiber.StatusOK, protocol.OpKeyRevoke, protocol.KeyRef{ID: id}, &state, &state.Version)
}

func (g *Gateway) listTenants(q *request) error {
	return q.call(fiber.StatusOK, protocol.OpTenantList, struct{}{}, new(protocol.TenantList))
}

// tenantName returns the tenant in the path; "*" is all that have no quota of
// their own.
func (q *request) tenantName() (string, error) {
	name := strings.ReplaceAll(q.Params("id"), "%2A", "*")
	if name == "*" {
		return name, nil
	}
	return name, tenant.CheckName("gateway.tenant", name)
}

func (g *Gateway) setQuota(q *request) error {
	name, err := q.tenantName()
	if err != nil {
		return err
	}
	var p protocol.Quota
	if err := q.body.decode(&p, false); err != nil {
		return err
	}
	var state protocol.KeyState
	return q.changeKeys(fiber.StatusOK, protocol.OpTenantQuota, protocol.TenantQuota{Tenant: name, Quota: &p}, &state, &state.Version)
}

func (g *Gateway) clearQuota(q *request) error {
	name, err := q.tenantName()
	if err != nil {
		return err
	}
	var state protocol.KeyState
	return q.changeKeys(fiber.StatusOK, protocol.OpTenantQuota, protocol.TenantQuota{Tenant: name}, &state, &state.Version)
}
