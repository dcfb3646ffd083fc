package gateway

import (
	"context"
	"strings"

	"github.com/gofiber/fiber/v2"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/gateway/auth"
	"github.com/sandgate/sandgate/gateway/run"
	"github.com/sandgate/sandgate/internal/kernelclient"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
)

// A run that is interactive asks for input by an input_request event. The
// answer is a request of its own, as is an interrupt. They name the run by
// what its start event said, so that any gateway can take them.

// runInput is the body of POST /v1/run/{id}/input.
type runInput struct {
	Channel string `json:"channel"`
	Cell    uint32 `json:"cell"`
	Value   string `json:"value"`
	EOF     bool   `json:"eof"`
}

// runStop is the body of POST /v1/run/{id}/interrupt.
type runStop struct {
	Channel string `json:"channel"`
}

func (g *Gateway) feedRun(q *request) error {
	var p runInput
	if err := q.body.decode(&p, false); err != nil {
		return err
	}
	return q.tellRun(p.Channel, protocol.OpInput, protocol.InputReply{Cell: p.Cell, Value: p.Value, EOF: p.EOF})
}

func (g *Gateway) interruptRun(q *request) error {
	var p runStop
	if err := q.body.decode(&p, false); err != nil {
		return err
	}
	return q.tellRun(p.Channel, protocol.OpInterrupt, protocol.Interrupt{GraceMS: 2000})
}

// asRunner is somebody as the driver of a run, with no right beside it: the node
// makes a viewer of who may read and not write.
func asRunner(who noderpc.Principal) noderpc.Principal {
	who.Scopes = []string{string(ScopeRun)}
	return who
}

// tellRun asks one thing of a run's kernel, over a link of its own.
func (q *request) tellRun(channel, op string, params any) error {
	const name = "gateway.run"
	id, err := q.session()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(q.base(), q.g.cfg.Times.Call)
	defer cancel()
	var s protocol.Session
	if err := q.g.node.Call(ctx, q.who, protocol.OpSessionGet, protocol.SessionRef{Session: id}, &s); err != nil {
		return err
	}
	ours := s.Name == run.SessionName || strings.HasPrefix(s.Name, run.SessionName+" ") || auth.Allows(q.who, ScopeWrite)
	if q.runToken != nil {
		ours = s.Name == runSessionName(q.runToken)
	}
	if !ours {
		return fault.New(fault.NotFound, name, "there is no such run, or it has ended")
	}
	link, err := q.g.open(ctx, asRunner(q.who))
	if err != nil {
		return err
	}
	k, err := kernelclient.Attach(ctx, link, kernelclient.Target{Session: id, Channel: channel, Offset: -1})
	if err != nil {
		return err
	}
	defer k.Close()
	defer context.AfterFunc(ctx, k.Close)()
	if err := k.Request(op, params, nil); err != nil {
		return err
	}
	return q.json(fiber.StatusOK, struct{}{})
}
