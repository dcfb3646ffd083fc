package tenant

import "github.com/sandgate/sandgate/protocol"

// DescribeLink returns a link as clients see it.
func DescribeLink(l Link) protocol.Link {
	return protocol.Link{
		ID: l.ID, CreatedBy: l.By, CreatedMS: millis(l.Created),
		ExpiresMS: millis(l.Expires),
	}
}

// DescribePortLink returns a preview link as clients see it, without its address.
func DescribePortLink(l PortLink) protocol.PortLink {
	visibility := protocol.VisibilityPrivate
	if l.Public {
		visibility = protocol.VisibilityPublic
	}
	return protocol.PortLink{
		ID: l.ID, Session: l.Session, Port: l.Port, Visibility: visibility,
		Password: l.Password != "", ExpiresMS: millis(l.Expires), CreatedMS: millis(l.Created),
		CreatedBy: l.By, Origins: l.Origins, FrameAncestors: l.FrameAncestors,
		WaitSeconds: l.WaitSeconds, Label: l.Label,
	}
}
