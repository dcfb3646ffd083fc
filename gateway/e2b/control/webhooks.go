package control

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/e2bname"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

const (
	// maxEventPage is the largest number of events in a list, and defaultEvents the usual one.
	maxEventPage, defaultEvents = 100, 10
	// maxEventReads is how many pages of the feed are read for one list. A feed has fewer.
	maxEventReads = 20
)

// hooks answers requests for webhooks, and for the events that they get.
type hooks struct{ *Plane }

func (s hooks) routes() []surface.Route {
	const one = "/events/webhooks/:id"
	read, manage := protocol.ScopeRead, protocol.ScopeManage
	return []surface.Route{
		row("POST", "/events/webhooks", manage, s.createWebhook),
		row("GET", "/events/webhooks", manage, s.webhooks),
		row("GET", one, manage, s.getWebhook),
		row("PATCH", one, manage, s.updateWebhook),
		row("DELETE", one, manage, s.deleteWebhook),
		row("GET", "/events/sandboxes", read, s.events),
		row("GET", "/events/sandboxes/:id", read, s.events),
	}
}

// webhookRequest is the body of a request for a new or changed webhook. Absent fields stay.
type webhookRequest struct {
	Name    *string   `json:"name"`
	URL     *string   `json:"url"`
	Enabled *bool     `json:"enabled"`
	Events  *[]string `json:"events"`
	Secret  *string   `json:"signatureSecret"`
}

// types returns the types of events as one list; nil without any. Errors: InvalidArgument.
func (p webhookRequest) types() (*string, error) {
	if p.Events == nil {
		return nil, nil
	}
	if len(*p.Events) == 0 {
		return nil, invalid("events", "a webhook needs a type of events, such as %s",
			e2bname.EventKilled)
	}
	list := strings.Join(*p.Events, ",")
	if _, err := e2bname.ParseEventTypes("e2b.webhook", list); err != nil {
		return nil, err
	}
	return &list, nil
}

// webhookBody is a webhook. Two names of the team are in use.
type webhookBody struct {
	ID      string   `json:"id"`
	TeamID  string   `json:"teamID"`
	Team    string   `json:"teamId"`
	Name    string   `json:"name"`
	Created string   `json:"createdAt"`
	Enabled bool     `json:"enabled"`
	URL     string   `json:"url"`
	Events  []string `json:"events"`
}

func webhookOf(r *http.Request, h protocol.Webhook) webhookBody {
	team := surface.CallOf(r).Who.Tenant
	b := webhookBody{
		ID: h.ID, TeamID: team, Team: team, Name: h.Description, Created: stamp(h.CreatedMS),
		Enabled: !h.Disabled, URL: h.URL, Events: e2bname.EventTypes(),
	}
	if h.Types != "" {
		b.Events = strings.Split(h.Types, ",")
	}
	return b
}

// createWebhook registers a URL for the events of the caller's sandboxes.
func (s hooks) createWebhook(w http.ResponseWriter, r *http.Request) error {
	var p webhookRequest
	if err := decode(r, &p, false); err != nil {
		return err
	}
	types, err := p.types()
	switch {
	case err != nil:
		return err
	case p.Name == nil || *p.Name == "":
		return invalid("name", "a webhook needs a name")
	case p.URL == nil:
		return invalid("url", "a webhook needs an address")
	case types == nil:
		return invalid("events", "a webhook needs types of events")
	case p.Secret == nil || *p.Secret == "":
		return invalid("signatureSecret", "a webhook needs a secret, which signs its requests")
	}
	var made protocol.NewWebhook
	if err := s.call(r, protocol.OpWebhookCreate, protocol.WebhookCreate{
		URL: *p.URL, Types: *types, Description: *p.Name, Format: protocol.WebhookE2B,
		Secret: *p.Secret, Disabled: p.Enabled != nil && !*p.Enabled,
	}, &made); err != nil {
		return err
	}
	return surface.WriteJSON(w, http.StatusCreated, webhookOf(r, made.Webhook))
}

// webhooks lists the webhooks of this API.
func (s hooks) webhooks(w http.ResponseWriter, r *http.Request) error {
	var list protocol.WebhookList
	if err := s.call(r, protocol.OpWebhookList, struct{}{}, &list); err != nil {
		return err
	}
	all := []webhookBody{}
	for _, h := range list.Webhooks {
		if h.Format == protocol.WebhookE2B {
			all = append(all, webhookOf(r, h))
		}
	}
	return surface.WriteJSON(w, http.StatusOK, all)
}

// webhook finds the webhook of a request. Errors: NotFound, also for one in another format.
func (s hooks) webhook(r *http.Request) (h protocol.Webhook, err error) {
	id := r.PathValue("id")
	err = s.call(r, protocol.OpWebhookGet, protocol.WebhookRef{Webhook: id}, &h)
	if err == nil && h.Format != protocol.WebhookE2B {
		err = fault.New(fault.NotFound, "e2b.webhook", "there is no webhook %.80q", id)
	}
	return h, err
}

func (s hooks) getWebhook(w http.ResponseWriter, r *http.Request) error {
	h, err := s.webhook(r)
	if err != nil {
		return err
	}
	return surface.WriteJSON(w, http.StatusOK, webhookOf(r, h))
}

func (s hooks) updateWebhook(w http.ResponseWriter, r *http.Request) error {
	var p webhookRequest
	if err := decode(r, &p, false); err != nil {
		return err
	}
	types, err := p.types()
	if err != nil {
		return err
	}
	h, err := s.webhook(r)
	if err != nil {
		return err
	}
	change := protocol.WebhookUpdate{
		Webhook: h.ID, URL: p.URL, Types: types, Description: p.Name, Secret: p.Secret,
	}
	if p.Enabled != nil {
		disabled := !*p.Enabled
		change.Disabled = &disabled
	}
	var changed protocol.Webhook
	if err := s.call(r, protocol.OpWebhookUpdate, change, &changed); err != nil {
		return err
	}
	return surface.WriteJSON(w, http.StatusOK, webhookOf(r, changed))
}

// deleteWebhook answers 200, which is the status that clients wait for.
func (s hooks) deleteWebhook(w http.ResponseWriter, r *http.Request) error {
	h, err := s.webhook(r)
	if err != nil {
		return err
	}
	if err := s.call(r, protocol.OpWebhookDelete, protocol.WebhookRef{Webhook: h.ID},
		nil); err != nil {
		return err
	}
	return surface.WriteJSON(w, http.StatusOK, struct{}{})
}

// events lists events of the caller's sandboxes, or of one, the newest first unless asked otherwise.
func (s hooks) events(w http.ResponseWriter, r *http.Request) error {
	limit, err := number(r, "limit", 1, maxEventPage)
	if err != nil {
		return err
	}
	if limit == 0 {
		limit = defaultEvents
	}
	offset, err := number(r, "offset", 0, protocol.MaxEvents*maxEventReads)
	if err != nil {
		return err
	}
	oldestFirst, err := flag(r, "orderAsc")
	if err != nil {
		return err
	}
	q := protocol.EventQuery{Types: e2bname.FeedTypes, Limit: protocol.MaxEvents}
	if r.PathValue("id") != "" {
		if q.Session, err = session(r); err != nil {
			return err
		}
	}
	all, err := s.readEvents(r, q)
	if err != nil {
		return err
	}
	if !oldestFirst {
		slices.Reverse(all)
	}
	all = all[min(int(offset), len(all)):]
	return surface.WriteJSON(w, http.StatusOK, all[:min(int(limit), len(all))])
}

// readEvents reads the events that the feed keeps, the oldest first.
func (s hooks) readEvents(r *http.Request, q protocol.EventQuery) ([]e2bname.Event, error) {
	all := []e2bname.Event{}
	tenant := surface.CallOf(r).Who.Tenant
	for range maxEventReads {
		var page protocol.EventPage
		if err := s.call(r, protocol.OpEventList, q, &page); err != nil {
			return nil, err
		}
		for _, f := range page.Events {
			if e, ok := e2bname.EventOf(tenant, f); ok {
				all = append(all, e)
			}
		}
		if page.Cursor == q.After || len(page.Events) == 0 {
			break
		}
		q.After = page.Cursor
	}
	return all, nil
}

// flag returns a parameter of the query that is true or false; false without it.
func flag(r *http.Request, name string) (bool, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return false, nil
	}
	on, err := strconv.ParseBool(text)
	if err != nil {
		return false, invalid(name, "it is true or false")
	}
	return on, nil
}
