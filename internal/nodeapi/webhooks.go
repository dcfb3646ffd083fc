package nodeapi

import (
	"context"

	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/webhook"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// webhooks returns the webhooks. Errors: Unsupported without them.
func (c *call) webhooks() (*webhook.Manager, error) {
	if c.server.cfg.Webhooks == nil {
		return nil, fault.New(fault.Unsupported, c.op(), "this node has no webhooks")
	}
	return c.server.cfg.Webhooks, nil
}

// withWebhooks calls do with the webhooks and the caller's tenant.
func withWebhooks[P, R any](
	do func(m *webhook.Manager, ctx context.Context, tenant string, p P) (R, error),
) func(context.Context, *call, P) (R, error) {
	return func(ctx context.Context, c *call, p P) (R, error) {
		m, err := c.webhooks()
		if err != nil {
			var zero R
			return zero, err
		}
		return do(m, ctx, c.principal.Tenant, p)
	}
}

func webhookHandlers() []handler {
	return []handler{
		handle(protocol.OpEventList, eventList),
		handle(protocol.OpWebhookCreate, withWebhooks((*webhook.Manager).Create)),
		handle(protocol.OpWebhookList, webhookList),
		handle(protocol.OpWebhookGet, webhookGet),
		handle(protocol.OpWebhookUpdate, withWebhooks((*webhook.Manager).Update)),
		handle(protocol.OpWebhookDelete, webhookDelete),
		handle(protocol.OpWebhookTest, webhookTest),
		handle(protocol.OpWebhookRotate, withWebhooks((*webhook.Manager).Rotate)),
		handle(protocol.OpWebhookDeliveries, withWebhooks((*webhook.Manager).Deliveries)),
		handle(protocol.OpWebhookResend, withWebhooks((*webhook.Manager).Resend)),
		handle(protocol.OpWebhookTake, webhookTake),
		handle(protocol.OpWebhookDone, webhookDone),
		handle(protocol.OpUsageReport, report(Reports.Usage)),
		handle(protocol.OpAuditList, report(Reports.Audit)),
		handle(protocol.OpUsageStored, report(Reports.StoredUsage)),
		handle(protocol.OpAuditStored, report(Reports.StoredAudit)),
	}
}

func webhookList(ctx context.Context, c *call, _ none) (protocol.WebhookList, error) {
	m, err := c.webhooks()
	if err != nil {
		return protocol.WebhookList{}, err
	}
	return m.List(ctx, c.principal.Tenant)
}

func webhookGet(ctx context.Context, c *call, p protocol.WebhookRef) (protocol.Webhook, error) {
	m, err := c.webhooks()
	if err != nil {
		return protocol.Webhook{}, err
	}
	return m.Get(ctx, c.principal.Tenant, p.Webhook)
}

func webhookDelete(ctx context.Context, c *call, p protocol.WebhookRef) (none, error) {
	m, err := c.webhooks()
	if err != nil {
		return none{}, err
	}
	return none{}, m.Delete(ctx, c.principal.Tenant, p.Webhook)
}

func webhookTest(ctx context.Context, c *call, p protocol.WebhookRef) (protocol.Delivery, error) {
	m, err := c.webhooks()
	if err != nil {
		return protocol.Delivery{}, err
	}
	return m.Test(ctx, c.principal.Tenant, p.Webhook)
}

// gatewayWebhooks returns the webhooks for a gateway's own principal.
func (c *call) gatewayWebhooks() (*webhook.Manager, error) {
	if c.principal.Tenant != noderpc.GatewayTenant {
		return nil, fault.New(fault.PermissionDenied, c.op(), "only a gateway sends deliveries")
	}
	return c.webhooks()
}

func webhookTake(
	ctx context.Context, c *call, p protocol.WebhookTake,
) (protocol.WebhookJobs, error) {
	m, err := c.gatewayWebhooks()
	if err != nil {
		return protocol.WebhookJobs{}, err
	}
	return m.TakeDue(ctx, p)
}

func webhookDone(ctx context.Context, c *call, p protocol.WebhookOutcomes) (none, error) {
	m, err := c.gatewayWebhooks()
	if err != nil {
		return none{}, err
	}
	return none{}, m.Done(ctx, p)
}

func eventList(ctx context.Context, c *call, q protocol.EventQuery) (protocol.EventPage, error) {
	if c.server.cfg.Events == nil {
		return protocol.EventPage{}, fault.New(fault.Unsupported, c.op(), "this node has no events")
	}
	return c.server.cfg.Events.Read(ctx, c.principal.Tenant, q)
}
