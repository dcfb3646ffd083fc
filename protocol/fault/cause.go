package fault

// Cause says within a kind what has to change before the request can succeed. An error of a kind
// whose causes need different advice names its cause. Causes are part of every public interface.
// They are only added, never renamed.
type Cause string

// The causes. Causes describes each of them.
const (
	CauseScope          Cause = "scope"
	CauseReadOnly       Cause = "read_only"
	CauseRestricted     Cause = "restricted_credentials"
	CauseOrigin         Cause = "origin"
	CauseHost           Cause = "host_name"
	CauseEgress         Cause = "egress"
	CauseSessionNetwork Cause = "session_network"
	CauseFileMode       Cause = "file_permission"
	CauseSignIn         Cause = "sign_in"
	CauseOperator       Cause = "operator"

	CauseTemplateBuild Cause = "template_build"
	CauseNameTaken     Cause = "name_taken"
	CauseExists        Cause = "exists"
	CauseChanged       Cause = "changed"
	CauseInUse         Cause = "in_use"
	CauseEnded         Cause = "ended"
	CauseNotRunning    Cause = "not_running"
	CauseSuspended     Cause = "suspended"
	CauseVersion       Cause = "version"

	CauseQuota Cause = "quota"
	CauseLimit Cause = "limit"
)

// CauseRow describes one cause.
type CauseRow struct {
	Cause Cause
	// Kind is the kind of all errors with this cause.
	Kind Kind
	// Advice replaces the advice of the kind.
	Advice string
}

// Causes returns one row for each cause, in the order of their declaration.
func Causes() []CauseRow {
	return []CauseRow{
		{
			CauseScope, PermissionDenied,
			"Use credentials that have the scope which the message names, or ask the issuer of yours for it.",
		},
		{
			CauseReadOnly, PermissionDenied,
			"These credentials only watch; ask the owner for access, or use a session of your own.",
		},
		{
			CauseRestricted, PermissionDenied,
			"These credentials are for one purpose only; use an API key, or sign in.",
		},
		{
			CauseOrigin, PermissionDenied,
			"Ask the operator to add the page's origin to allowed_origins, or send the request from a server.",
		},
		{
			CauseHost, PermissionDenied,
			"Use a name of the server that it knows, or ask the operator to add this one to allowed_hosts.",
		},
		{
			CauseEgress, PermissionDenied,
			"Ask the operator to allow it in egress.allow or egress.tenants; packages can also come from a template or from files.",
		},
		{
			CauseSessionNetwork, PermissionDenied,
			"Create a session whose network allows this host.",
		},
		{
			CauseFileMode, PermissionDenied,
			"Use a path that the user of the sandbox may change, such as one below its home folder.",
		},
		{
			CauseSignIn, PermissionDenied,
			"Ask the operator to give your account a tenant and a role at the identity provider.",
		},
		{
			CauseOperator, PermissionDenied,
			"Only the operator may do this, on the server itself and as root.",
		},
		{
			CauseTemplateBuild, Conflict,
			"Read the output of the build with sandgate template get, correct the template and build it again.",
		},
		{CauseNameTaken, Conflict, "Choose another name, or use or delete what has it."},
		{CauseExists, Conflict, "Choose another destination, or remove what is there first."},
		{CauseChanged, Conflict, "Read it again and repeat the request for its present state."},
		{CauseInUse, Conflict, "End what uses it, or wait until that has ended."},
		{CauseEnded, Conflict, "It has ended and stays so; open or start a new one."},
		{CauseNotRunning, Conflict, "Execute code first, which starts the kernel."},
		{CauseSuspended, Conflict, "Resume the session with session.resume first."},
		{
			CauseVersion, Conflict,
			"It was saved by another version of the server or its image; create it again.",
		},
		{
			CauseQuota, Exhausted,
			"Delete something of yours, try again after the time given, or ask the operator for a larger quota.",
		},
		{CauseLimit, Exhausted, "Close or delete some of them first."},
	}
}

// Row returns the cause's row, and false for an unknown cause.
func (c Cause) Row() (CauseRow, bool) {
	for _, r := range Causes() {
		if r.Cause == c {
			return r, true
		}
	}
	return CauseRow{}, false
}

// DocPath is the path of the page about errors, which every gateway serves.
const DocPath = "/docs/errors"

// Doc returns the path of the documentation of an error, with a fragment.
func Doc(kind Kind, cause Cause) string {
	if _, known := cause.Row(); known {
		return DocPath + "#" + string(cause)
	}
	return DocPath + "#" + string(kind.Row().Kind)
}
