package control

import (
	"errors"
	"strings"

	"github.com/sandgate/sandgate/protocol/fault"
)

// fields are the names that this API has for fields of operations.
var fields = map[string]string{
	"env":                      "envVars",
	"labels":                   "metadata",
	"label":                    "metadata",
	"lifetime_seconds":         "timeout",
	"volumes":                  "volumeMounts",
	"template":                 "templateID",
	"template.session_network": "templateID",
	"network.allow":            "network.allowOut",
	"cursor":                   "nextToken",
	"types":                    "events",
	"secret":                   "signatureSecret",
}

// translate returns the error of an operation in the terms of this API. A sandbox that was
// lost does not exist any more.
func translate(err error) error {
	known, ok := errors.AsType[*fault.Error](err)
	if !ok {
		return err
	}
	e := *known
	if name, ok := fields[e.Field]; ok {
		e.Field = name
	}
	e.Message = strings.ReplaceAll(e.Message, "there is no such session", "there is no such sandbox")
	if e.Kind == fault.SandboxLost {
		e.Kind, e.Cause, e.Advice = fault.NotFound, "", ""
	}
	return &e
}

// unsupported returns the error for a part of a request that this server does not offer.
func unsupported(field, format string, args ...any) error {
	e := fault.New(fault.Unsupported, "e2b.control", format, args...)
	e.Field = field
	return e
}

// invalid returns the error for a value that is not allowed.
func invalid(field, format string, args ...any) error {
	return fault.Invalid("e2b.control", field, format, args...)
}
