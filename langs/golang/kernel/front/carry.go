package front

import (
	"fmt"
	"go/types"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// carriage is the set of declarations that a cell repeats because it adds a method to a type of an
// earlier cell: the type with all its methods, the types and functions that mention it, and the
// variables whose types mention it, with their values.
type carriage struct {
	decls []*decl
	vars  []moved
}

type moved struct {
	name, typ, from string // from is the import name of its present cell
}

// carries reports whether a variable is declared again.
func (d *draft) carries(name string) bool {
	return d.carry != nil && slices.ContainsFunc(d.carry.vars,
		func(m moved) bool { return m.name == name })
}

// carryTypes finds the declarations that must be repeated because of methods. With functions it
// includes functions that call one which the cell declares again.
func (d *draft) carryTypes(functions bool) {
	names := map[string]bool{}
	for _, m := range d.u.methods {
		if t := d.s.decls[m.recv]; t != nil && t.isType && !d.own[m.recv] {
			names[m.recv] = true
		}
	}
	d.grow(names, func(*decl) bool { return true })
	if functions {
		callers := map[string]bool{}
		for n := range d.own {
			if old := d.s.decls[n]; old != nil && !old.isType {
				callers[n] = true
			}
		}
		d.grow(callers, func(e *decl) bool { return !e.isType })
		for n := range callers {
			if !d.own[n] {
				names[n] = true
			}
		}
	}
	if len(names) == 0 {
		return
	}
	c := &carriage{}
	for _, n := range slices.Sorted(maps.Keys(names)) {
		old := d.s.decls[n]
		e := *old
		e.methods = slices.Clone(old.methods)
		for _, m := range d.u.methods {
			if m.recv == n {
				e.methods = slices.DeleteFunc(e.methods,
					func(o *decl) bool { return o.name == m.name })
			}
		}
		c.decls = append(c.decls, &e)
		d.own[n] = true
		d.u.decls = append(d.u.decls, &e)
	}
	d.carry = c
	d.carryVars(names)
}

// grow adds the declarations that mention one of names and that may accepts.
func (d *draft) grow(names map[string]bool, may func(*decl) bool) {
	for grew := len(names) > 0; grew; {
		grew = false
		for _, e := range d.s.decls {
			if names[e.name] || d.own[e.name] || !may(e) {
				continue
			}
			uses := maps.Clone(e.uses)
			for _, m := range e.methods {
				maps.Copy(uses, m.uses)
			}
			for n := range names {
				if uses[n] {
					names[e.name], grew = true, true
					break
				}
			}
		}
	}
}

// carryVars finds the variables to carry. Their memory is read as the new type, so its layout must
// be unchanged: every part of a carried type must still be the same.
func (d *draft) carryVars(names map[string]bool) {
	isCarried := func(o *types.TypeName) bool {
		return names[o.Name()] && o.Pkg() != nil && d.s.latest[o.Name()] != nil &&
			o.Pkg() == d.s.latest[o.Name()].pkg
	}
	if !d.sameParts(names) {
		return
	}
	for n, u := range d.s.latest {
		v, ok := u.pkg.Scope().Lookup(n).(*types.Var)
		if !ok || d.own[n] || slices.Contains(d.hoist, n) || !mentions(v.Type(), isCarried) {
			continue
		}
		text, what := d.typeText(v.Type())
		if what != "" {
			continue
		}
		for c := range names {
			own := d.s.latest[c]
			text = regexp.MustCompile(`\bc`+fmt.Sprint(own.Seq)+`__\.`+c+
				`\b`).ReplaceAllString(text, c)
		}
		d.carry.vars = append(d.carry.vars, moved{n, text, d.qualifier(u.pkg)})
		d.vars[n] = text
	}
	slices.SortFunc(d.carry.vars, func(a, b moved) int { return strings.Compare(a.name, b.name) })
	if len(d.carry.vars) > 0 {
		d.extra["unsafe"] = "unsafe__"
	}
}

// sameParts reports whether every type that a carried type contains is still the latest of its
// name.
func (d *draft) sameParts(names map[string]bool) bool {
	for n := range names {
		o, ok := d.s.object(n).(*types.TypeName)
		if !ok {
			continue
		}
		stale := mentions(o.Type().Underlying(), func(p *types.TypeName) bool {
			if p.Pkg() == nil || !strings.HasPrefix(p.Pkg().Path(), "cells/") ||
				p.Parent() != p.Pkg().Scope() {
				return false
			}
			return d.own[p.Name()] && !names[p.Name()] || d.s.latest[p.Name()] == nil ||
				d.s.latest[p.Name()].pkg != p.Pkg()
		})
		if stale {
			return false
		}
	}
	return true
}

func (c *carriage) source() string {
	if c == nil {
		return ""
	}
	var b strings.Builder
	for _, e := range c.decls {
		if e.isType {
			b.WriteString("type ")
		}
		b.WriteString(e.mark + e.text + "\n")
		for _, m := range e.methods {
			b.WriteString(m.mark + m.text + "\n")
		}
	}
	return b.String()
}

// moves returns the statements that give the variables their values.
func (c *carriage) moves() string {
	if c == nil {
		return ""
	}
	var b strings.Builder
	for _, m := range c.vars {
		fmt.Fprintf(&b, "%s = *(*%s)(unsafe__.Pointer(&%s.%s))\n", m.name, m.typ, m.from, m.name)
	}
	return b.String()
}

// declarations returns the declarations of the variables, for the first pass.
func (c *carriage) declarations() string {
	if c == nil {
		return ""
	}
	var b strings.Builder
	for _, m := range c.vars {
		fmt.Fprintf(&b, "var %s %s\n", m.name, m.typ)
	}
	return b.String()
}
