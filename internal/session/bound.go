package session

import (
	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
)

// forOne are the operations of credentials that are for one session, such as a
// link for viewing. What is not here is refused, also what is added later. Each
// finds its session by Manager.find, which knows of no other for them; adopting
// and listing hold to it themselves.
var forOne = map[string]bool{
	protocol.OpHello: true, protocol.OpSessionGet: true, protocol.OpSessionList: true, protocol.OpSessionWatch: true,
	protocol.OpChannelList: true, protocol.OpAttach: true, protocol.OpDetach: true, protocol.OpFollow: true, protocol.OpHistory: true,
	protocol.OpFileStat: true, protocol.OpFileList: true, protocol.OpFileRead: true, protocol.OpTreeRead: true, protocol.OpFileWatch: true,
	protocol.OpAdopt: true, protocol.OpParked: true,
}

// sees reports whether a session of the tenant is there for the principal.
func sees(p noderpc.Principal, tenant, id string) bool {
	return p.Tenant == tenant && (p.Session == "" || p.Session == id)
}

// within refuses what is no matter of the one session that the link's
// credentials are for.
func (c *linkHandler) within(r protocol.Request) error {
	if c.principal.Session == "" || forOne[r.Op] {
		return nil
	}
	return fault.New(fault.PermissionDenied, "link.request", "these credentials are for looking at one session")
}
