package gateway

import (
	"strconv"

	"github.com/gofiber/fiber/v2"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/protocol"
)

func (g *Gateway) listProcesses(q *request) error {
	id, err := q.session()
	if err != nil {
		return err
	}
	return q.call(fiber.StatusOK, protocol.OpProcessList, protocol.SessionRef{Session: id}, new(protocol.ProcessList))
}

func (g *Gateway) signalProcess(q *request) error {
	id, err := q.session()
	if err != nil {
		return err
	}
	pid, err := strconv.ParseUint(q.Params("pid"), 10, 31)
	if err != nil || pid == 0 {
		return fault.Invalid("gateway.process", "pid", "a process has a number above 0")
	}
	var p protocol.Signal
	if err := q.body.decode(&p, false); err != nil {
		return err
	}
	return q.call(fiber.StatusOK, protocol.OpProcessSignal, protocol.ProcessSignal{Session: id, PID: int(pid), Signal: p.Signal}, nil)
}
