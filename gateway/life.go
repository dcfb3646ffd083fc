package gateway

import (
	"github.com/gofiber/fiber/v2"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/protocol"
)

func (g *Gateway) updateSession(q *request) error {
	id, err := q.session()
	if err != nil {
		return err
	}
	var p protocol.SessionUpdate
	if err := q.body.decode(&p, false); err != nil {
		return err
	}
	if p.Session != "" && p.Session != id {
		return fault.Invalid("gateway.session", "session", "the body names another session than the path")
	}
	p.Session = id
	return q.call(fiber.StatusOK, protocol.OpSessionUpdate, p, new(protocol.Session))
}

func (g *Gateway) pauseSession(q *request) error {
	id, err := q.session()
	if err != nil {
		return err
	}
	return q.call(fiber.StatusOK, protocol.OpSessionPause, protocol.SessionRef{Session: id}, new(protocol.Session))
}

func (g *Gateway) keepSession(q *request) error {
	id, err := q.session()
	if err != nil {
		return err
	}
	var p protocol.SessionKeepalive
	if err := q.body.decode(&p, true); err != nil {
		return err
	}
	p.Session = id
	return q.call(fiber.StatusOK, protocol.OpSessionKeepalive, p, new(protocol.Session))
}

// template is the name in the path. The node decides whether it exists.
func (q *request) template() (protocol.TemplateRef, error) {
	name := q.Params("id")
	if !validID(name) {
		return protocol.TemplateRef{}, &fault.Error{Kind: fault.NotFound, Op: "gateway.template", Field: "name", Message: "there is no such template"}
	}
	return protocol.TemplateRef{Name: name}, nil
}

func (g *Gateway) listTemplates(q *request) error {
	return q.call(fiber.StatusOK, protocol.OpTemplateList, struct{}{}, new(protocol.TemplateList))
}

func (g *Gateway) getTemplate(q *request) error {
	ref, err := q.template()
	if err != nil {
		return err
	}
	return q.call(fiber.StatusOK, protocol.OpTemplateGet, ref, new(protocol.Template))
}

func (g *Gateway) deleteTemplate(q *request) error {
	ref, err := q.template()
	if err != nil {
		return err
	}
	return q.call(fiber.StatusOK, protocol.OpTemplateDelete, ref, nil)
}

// buildTemplate answers when the template is stored; its snapshot is made
// behind that.
func (g *Gateway) buildTemplate(q *request) error {
	name := q.Params("id")
	if !validID(name) {
		return fault.Invalid("gateway.template", "name", "a template's name has letters, digits and hyphens")
	}
	var t protocol.Template
	if err := g.upload(q.base(), q.who, protocol.OpTemplateBuild, protocol.TemplateRef{Name: name}, q.body, &t); err != nil {
		return err
	}
	return q.json(fiber.StatusOK, t)
}
