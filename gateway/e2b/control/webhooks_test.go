package control

import (
	"testing"

	"github.com/sandgate/sandgate/internal/e2bname"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// TestWebhooks creates, lists, changes and deletes a webhook, and never returns its secret.
func TestWebhooks(t *testing.T) {
	g := newRig(t)
	var hook, native protocol.Webhook
	native.ID = "wh_native"
	g.node.answer[protocol.OpWebhookCreate] = func(_ noderpc.Principal, p any) (any, error) {
		c := p.(protocol.WebhookCreate)
		if c.Format != protocol.WebhookE2B || c.Secret != "a secret of the test" {
			t.Errorf("the node gets %+v", c)
		}
		hook = protocol.Webhook{
			ID: "wh_1", URL: c.URL, Types: c.Types, Description: c.Description, Format: c.Format,
			Disabled: c.Disabled,
		}
		return protocol.NewWebhook{Webhook: hook, Secret: c.Secret}, nil
	}
	g.node.answer[protocol.OpWebhookList] = func(noderpc.Principal, any) (any, error) {
		return protocol.WebhookList{Webhooks: []protocol.Webhook{native, hook}}, nil
	}
	g.node.answer[protocol.OpWebhookGet] = func(_ noderpc.Principal, p any) (any, error) {
		switch p.(protocol.WebhookRef).Webhook {
		case "wh_1":
			return hook, nil
		case "wh_native":
			return native, nil
		}
		return nil, fault.New(fault.NotFound, "test", "there is no such webhook")
	}
	g.node.answer[protocol.OpWebhookUpdate] = func(_ noderpc.Principal, p any) (any, error) {
		u := p.(protocol.WebhookUpdate)
		hook.Disabled, hook.Types = *u.Disabled, *u.Types
		return hook, nil
	}
	deleted := ""
	g.node.answer[protocol.OpWebhookDelete] = func(_ noderpc.Principal, p any) (any, error) {
		deleted = p.(protocol.WebhookRef).Webhook
		return nil, nil
	}
	const body = `{"name":"n","url":"https://example.org","enabled":false,` +
		`"events":["sandbox.lifecycle.killed"],"signatureSecret":"a secret of the test"}`
	var made map[string]any
	g.want(201, "alice", "POST", "/events/webhooks", body, &made)
	if made["id"] != "wh_1" || made["name"] != "n" || made["enabled"] != false ||
		made["teamId"] != "a" || made["signatureSecret"] != nil {
		t.Errorf("%v", made)
	}
	var all []webhookBody
	g.want(200, "alice", "GET", "/events/webhooks", "", &all)
	if len(all) != 1 || all[0].ID != "wh_1" || all[0].Events[0] != e2bname.EventKilled {
		t.Errorf("%+v", all)
	}
	var changed webhookBody
	g.want(200, "alice", "PATCH", "/events/webhooks/wh_1",
		`{"enabled":true,"events":["sandbox.lifecycle.created"]}`, &changed)
	if !changed.Enabled || changed.Events[0] != e2bname.EventCreated {
		t.Errorf("%+v", changed)
	}
	for _, method := range []string{"GET", "DELETE"} {
		g.refuse(404, "webhook", "alice", method, "/events/webhooks/wh_native", "")
		g.refuse(404, "webhook", "alice", method, "/events/webhooks/wh_2", "")
	}
	g.want(200, "alice", "DELETE", "/events/webhooks/wh_1", "", nil)
	if deleted != "wh_1" {
		t.Errorf("%q was deleted", deleted)
	}
	for message, body := range map[string]string{
		"name":            `{"url":"https://example.org","events":["sandbox.lifecycle.killed"]}`,
		"url":             `{"name":"n","events":["sandbox.lifecycle.killed"]}`,
		"events":          `{"name":"n","url":"https://example.org","signatureSecret":"x"}`,
		"no events":       `{"name":"n","url":"https://example.org","events":["killed"]}`,
		"signatureSecret": `{"name":"n","url":"x","events":["sandbox.lifecycle.killed"]}`,
	} {
		g.refuse(400, message, "alice", "POST", "/events/webhooks", body)
	}
}

// TestEvents reads the feed in pages, and lists the events of sandboxes in both orders.
func TestEvents(t *testing.T) {
	g := newRig(t)
	box := map[string]string{e2bname.LabelTemplate: "base"}
	g.node.answer[protocol.OpEventList] = func(_ noderpc.Principal, p any) (any, error) {
		q := p.(protocol.EventQuery)
		if q.Session != "" && q.Session != "s_x1" {
			t.Errorf("the node is asked for %+v", q)
		}
		event := func(id, kind string, labels map[string]string) protocol.FeedEvent {
			return protocol.FeedEvent{ID: id, Type: kind, Session: "s_x1", Labels: labels}
		}
		switch q.After {
		case "":
			return protocol.EventPage{Cursor: "2", Events: []protocol.FeedEvent{
				event("1", protocol.FeedSessionCreated, box),
				event("2", protocol.FeedSessionCreated, nil),
			}}, nil
		case "2":
			return protocol.EventPage{Cursor: "3", Events: []protocol.FeedEvent{
				event("3", protocol.FeedSessionExpired, box),
			}}, nil
		}
		return protocol.EventPage{Cursor: "3"}, nil
	}
	for path, want := range map[string][]string{
		"/events/sandboxes":                     {e2bname.EventKilled, e2bname.EventCreated},
		"/events/sandboxes/ix1?orderAsc=true":   {e2bname.EventCreated, e2bname.EventKilled},
		"/events/sandboxes?limit=1":             {e2bname.EventKilled},
		"/events/sandboxes?offset=1":            {e2bname.EventCreated},
		"/events/sandboxes?offset=7&limit=100":  {},
		"/events/sandboxes?limit=1&orderAsc=on": nil,
	} {
		var got []e2bname.Event
		if want == nil {
			g.refuse(400, "orderAsc", "alice", "GET", path, "")
			continue
		}
		g.want(200, "alice", "GET", path, "", &got)
		if len(got) != len(want) {
			t.Errorf("%s: %+v", path, got)
			continue
		}
		for i, e := range got {
			if e.Type != want[i] || e.Sandbox != "ix1" || e.Version != "v2" || e.Team != "a" {
				t.Errorf("%s: %+v", path, e)
			}
		}
	}
	g.refuse(404, "no sandbox", "alice", "GET", "/events/sandboxes/x", "")
}
