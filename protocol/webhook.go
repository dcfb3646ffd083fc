package protocol

// The operations on webhooks. Clients use them over HTTP.
const (
	OpWebhookCreate     = "webhook.create"
	OpWebhookList       = "webhook.list"
	OpWebhookGet        = "webhook.get"
	OpWebhookUpdate     = "webhook.update"
	OpWebhookDelete     = "webhook.delete"
	OpWebhookTest       = "webhook.test"
	OpWebhookRotate     = "webhook.rotate"
	OpWebhookDeliveries = "webhook.deliveries"
	OpWebhookResend     = "webhook.resend"
	// Gateways take the deliveries that are due, and report their outcomes.
	OpWebhookTake = "webhook.take"
	OpWebhookDone = "webhook.done"
)

// WebhookCreate registers a URL that gets the events of the tenant from now on.
type WebhookCreate struct {
	// URL begins with https:// or http://.
	URL string `json:"url"`
	// Types and Session select events, as in EventQuery.
	Types       string `json:"types,omitempty"`
	Session     string `json:"session,omitempty"`
	Description string `json:"description,omitempty"`
	// Format is the form of the requests: empty for that of Sandgate, or e2b. With e2b, Types are
	// E2B's, such as sandbox.lifecycle.created, and only sandboxes of its interface have events.
	Format string `json:"format,omitempty"`
	// Secret signs the requests: 8 to 256 bytes. Empty means a random one. The format of Sandgate
	// has random ones only.
	Secret string `json:"secret,omitempty"`
	// Disabled creates a webhook to which nothing is sent.
	Disabled bool `json:"disabled,omitempty"`
}

// WebhookE2B is the format of webhooks of E2B.
const WebhookE2B = "e2b"

// Webhook is a URL that gets events.
type Webhook struct {
	ID          string `json:"id"`
	URL         string `json:"url"`
	Types       string `json:"types,omitempty"`
	Session     string `json:"session,omitempty"`
	Description string `json:"description,omitempty"`
	Format      string `json:"format,omitempty"`
	CreatedMS   int64  `json:"created_ms"`
	// Disabled is true while nothing is sent. Events wait as long as the feed keeps them.
	Disabled bool `json:"disabled,omitempty"`
	// Waiting counts deliveries that are due or will be retried, Dead those that were given up.
	Waiting int `json:"waiting"`
	Dead    int `json:"dead"`
	// Gaps counts how often events were not kept until they could be sent.
	Gaps int64 `json:"gaps,omitempty"`
	// PreviousMS is when the previous secret ends to sign, after a rotation.
	PreviousMS int64 `json:"previous_until_ms,omitempty"`
}

// NewWebhook is a webhook with its secret. No other reply has the secret.
type NewWebhook struct {
	Webhook
	Secret string `json:"secret"`
}

// WebhookList lists the webhooks of a tenant, oldest first.
type WebhookList struct {
	Webhooks []Webhook `json:"webhooks"`
}

// WebhookRef names a webhook.
type WebhookRef struct {
	Webhook string `json:"webhook"`
}

// WebhookUpdate changes a webhook. Absent fields stay.
type WebhookUpdate struct {
	Webhook     string  `json:"webhook"`
	URL         *string `json:"url,omitempty"`
	Types       *string `json:"types,omitempty"`
	Session     *string `json:"session,omitempty"`
	Description *string `json:"description,omitempty"`
	Disabled    *bool   `json:"disabled,omitempty"`
	// Secret replaces the secret of a webhook in the format e2b.
	Secret *string `json:"secret,omitempty"`
}

// WebhookRotate gives a webhook a new secret.
type WebhookRotate struct {
	Webhook string `json:"webhook"`
	// KeepSeconds is how long requests are signed with the previous secret too, at most 7 days.
	KeepSeconds int64 `json:"keep_seconds,omitempty"`
}

// DeliveryQuery asks for deliveries of a webhook.
type DeliveryQuery struct {
	Webhook string `json:"webhook"`
	// State is waiting, delivered or dead; empty means all.
	State string `json:"state,omitempty"`
}

// The states of a delivery.
const (
	DeliveryWaiting   = "waiting"
	DeliveryDelivered = "delivered"
	DeliveryDead      = "dead"
)

// Delivery is an event on its way to a webhook.
type Delivery struct {
	ID    string `json:"id"`
	State string `json:"state"`
	Event string `json:"event"` // its id in the feed
	Type  string `json:"type"`
	// Attempts counts requests to the URL.
	Attempts int `json:"attempts"`
	// NextMS is when the next attempt is due.
	NextMS int64 `json:"next_ms,omitempty"`
	LastMS int64 `json:"last_ms,omitempty"`
	// Status is the last HTTP status. Error says why there was none.
	Status int    `json:"status,omitempty"`
	Error  string `json:"error,omitempty"`
}

// DeliveryList lists the deliveries that wait and were given up, and the last ones that arrived.
type DeliveryList struct {
	Deliveries []Delivery `json:"deliveries"`
}

// WebhookResend sends dead deliveries again.
type WebhookResend struct {
	Webhook string `json:"webhook"`
	// Delivery is the id of one delivery; empty means all dead ones.
	Delivery string `json:"delivery,omitempty"`
}

// Resent answers WebhookResend.
type Resent struct {
	Count int `json:"count"`
}

// WebhookTake asks for deliveries that are due.
type WebhookTake struct {
	// Limit is the maximum number of deliveries.
	Limit int `json:"limit"`
	// WaitSeconds is how long the reply waits for one.
	WaitSeconds int `json:"wait_seconds,omitempty"`
}

// WebhookJob is a delivery that a gateway has taken. No other gateway gets it until its lease ends.
type WebhookJob struct {
	Webhook  string `json:"webhook"`
	Tenant   string `json:"tenant"`
	Delivery string `json:"delivery"`
	// Lease identifies this attempt.
	Lease string `json:"lease"`
	Type  string `json:"type"`
	URL   string `json:"url"`
	// Body is the event as JSON, with the bytes that were signed.
	Body string `json:"body"`
	// Signature is the value of the header Sandgate-Signature, or e2b-signature in the format e2b.
	Signature string `json:"signature"`
	Format    string `json:"format,omitempty"`
}

// WebhookJobs answers WebhookTake.
type WebhookJobs struct {
	Jobs []WebhookJob `json:"jobs"`
}

// WebhookOutcome is the outcome of an attempt.
type WebhookOutcome struct {
	Webhook  string `json:"webhook"`
	Delivery string `json:"delivery"`
	Lease    string `json:"lease"`
	// Status is the HTTP status; 0 with Error if there was none.
	Status int    `json:"status,omitempty"`
	Error  string `json:"error,omitempty"`
}

// WebhookOutcomes reports outcomes.
type WebhookOutcomes struct {
	Outcomes []WebhookOutcome `json:"outcomes"`
}
