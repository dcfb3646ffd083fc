package session

import (
	"context"
	"encoding/json"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/protocol"
)

func opComm(ctx context.Context, c *linkHandler, r protocol.Request) (any, error) {
	m, err := params[kernel.Message](r)
	if err == nil {
		err = checkComm(m)
	}
	if err != nil {
		return nil, err
	}
	q, end, err := c.kernelAt(ctx, r)
	if err != nil {
		return nil, err
	}
	defer end()
	return nothing{}, q.Comm(ctx, m)
}

func checkComm(m kernel.Message) error {
	const op = protocol.OpComm
	switch m.Type {
	case kernel.CommOpenType, kernel.CommMsgType, kernel.CommCloseType:
	default:
		return fault.Invalid(op, "msg_type", "%.40q is not comm_open, comm_msg or comm_close", m.Type)
	}
	var content kernel.Comm
	if json.Unmarshal(m.Content, &content) != nil {
		return fault.Invalid(op, "content", "the content is not that of a comm message")
	}
	if content.ID == "" || len(content.ID) > protocol.MaxKey {
		return fault.Invalid(op, "content.comm_id", "a comm's id has between 1 and %d bytes", protocol.MaxKey)
	}
	return nil
}
