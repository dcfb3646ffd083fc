package cells

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/frame"
	"github.com/sandgate/sandgate/protocol/message"
)

// complete requests completions. A completion is as wanted if the code ends in it, as a
// whole word, after it has been inserted: a language may complete the last name or the
// whole path to it.
func (s *Session) complete(ctx context.Context, step *Step) error {
	code, cursor := step.cursor()
	reply, err := s.kernel.Complete(ctx, code, cursor)
	if err != nil {
		return err
	}
	if reply.Status == "error" {
		return fmt.Errorf("the kernel answered: %s: %s", reply.EName, reply.EValue)
	}
	runes := []rune(code)
	if reply.Start < 0 || reply.Start > reply.End || reply.End > len(runes) {
		return fmt.Errorf("the reply replaces %d to %d of %d code points", reply.Start, reply.End,
			len(runes))
	}
	var texts []string
	has := func(want string) bool {
		for _, m := range reply.Matches {
			if placed, ok := strings.CutSuffix(string(runes[:reply.Start])+m.Text, want); ok {
				before, _ := utf8.DecodeLastRuneInString(placed)
				first, _ := utf8.DecodeRuneInString(want)
				if !isWord(before) || !isWord(first) {
					return true
				}
			}
		}
		return false
	}
	for _, m := range reply.Matches {
		texts = append(texts, m.Text)
	}
	for _, want := range step.Matches {
		if !has(string(want)) {
			err = errors.Join(err, fmt.Errorf("matches: %q is not among %s", want,
				show(strings.Join(texts, " "))))
		}
	}
	for _, not := range step.Without {
		if has(string(not)) {
			err = errors.Join(err, fmt.Errorf("without: %q is among %s", not,
				show(strings.Join(texts, " "))))
		}
	}
	return err
}

func isWord(r rune) bool {
	return r == '_' || r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r))
}

func (s *Session) inspect(ctx context.Context, step *Step) error {
	code, cursor := step.cursor()
	reply, err := s.kernel.Inspect(ctx, protocol.Complete{Code: code, Cursor: cursor})
	if err != nil {
		return err
	}
	if reply.Status == "error" {
		return fmt.Errorf("the kernel answered: %s: %s", reply.EName, reply.EValue)
	}
	if step.Found != nil && reply.Found != *step.Found {
		return fmt.Errorf("found: wanted %v, got %v", *step.Found, reply.Found)
	}
	if text := plain(dataText(reply.Data["text/plain"])); step.Text != nil &&
		!step.Text.MatchString(text) {
		return fmt.Errorf("text: wanted something like %s, got %s", step.Text, show(text))
	}
	return nil
}

// question asks about the code of a notebook, whose other cells the step has. The answer none stands
// for a question without one.
func (s *Session) question(ctx context.Context, step *Step) error {
	code, cursor := step.cursor()
	cells := []Text{}
	cells = append(append(append(cells, step.Before...), Text(code)), step.After...)
	about := map[string]any{"kind": step.Kind, "cells": cells, "at": len(step.Before)}
	if step.New != "" {
		about["new"] = step.New
	}
	body, err := json.Marshal(about)
	if err != nil {
		return err
	}
	p := protocol.Complete{Code: code, Cursor: cursor, About: body}
	reply, err := s.kernel.Inspect(ctx, p)
	if err != nil {
		return err
	}
	said := "none"
	for _, kind := range []string{"application/json", "text/plain"} {
		if data, ok := reply.Data[kind]; reply.Found && ok {
			said = string(data)
		}
	}
	if reply.Status == "error" {
		if step.Error == nil || step.Error.Value == nil ||
			!step.Error.Value.MatchString(reply.EValue) {
			return fmt.Errorf("the kernel answered: %s: %s", reply.EName, reply.EValue)
		}
		return nil
	}
	if step.Error != nil || !step.Answer.MatchString(said) {
		return fmt.Errorf("answer: wanted something else than %s", show(said))
	}
	return nil
}

func (s *Session) isComplete(ctx context.Context, step *Step) error {
	reply, err := s.kernel.IsComplete(ctx, step.code())
	if err == nil && reply.IsComplete != step.Gives {
		err = fmt.Errorf("wanted %s, got %s", step.Gives, reply.IsComplete)
	}
	return err
}

func (s *Session) variables(ctx context.Context, step *Step) error {
	list, err := s.kernel.Variables(ctx)
	if err != nil {
		return err
	}
	byName := map[string]message.Variable{}
	var names []string
	for _, v := range list {
		if _, twice := byName[v.Name]; twice {
			err = errors.Join(err, fmt.Errorf("%s is listed twice", v.Name))
		}
		if n := utf8.RuneCountInString(v.Value); n > message.MaxVariableValue ||
			strings.ContainsAny(v.Value, "\n\r") {
			err = errors.Join(err,
				fmt.Errorf("the value of %s has %d characters, or more than one line: %s", v.Name,
					n, show(v.Value)))
		}
		byName[v.Name] = v
		names = append(names, v.Name)
	}
	if len(list) > message.MaxVariables {
		err = errors.Join(err, fmt.Errorf("%d variables are listed, the limit is %d", len(list),
			message.MaxVariables))
	}
	for name, want := range step.Variables {
		got, ok := byName[name]
		if !ok {
			err = errors.Join(err, fmt.Errorf("%s is not among %s", name, strings.Join(names, " ")))
			continue
		}
		for _, field := range []struct {
			what string
			like *Pattern
			got  string
		}{
			{"type", want.Type, got.Type},
			{"value", want.Value, got.Value},
			{"size", want.Size, got.Size},
		} {
			if field.like != nil && !field.like.whole(field.got) {
				err = errors.Join(err, fmt.Errorf("%s of %s: wanted %s, got %s", field.what, name,
					field.like, show(field.got)))
			}
		}
	}
	for _, not := range step.Without {
		if _, ok := byName[string(not)]; ok {
			err = errors.Join(err, fmt.Errorf("without: %s is listed", not))
		}
	}
	return err
}

// program runs a file like `sandgate run`.
func (s *Session) program(ctx context.Context, p *Program) error {
	if _, err := s.client.Upload(ctx, s.id, p.File, 0o755,
		strings.NewReader(string(p.Content))); err != nil {
		return err
	}
	var args []string
	for _, a := range p.Args {
		args = append(args, string(a))
	}
	process, err := s.conn.Start(ctx, protocol.ChannelOpen{
		Session: s.id, Language: s.language,
		File: p.File, Args: args, Stdin: true,
	})
	if err != nil {
		return err
	}
	defer process.Close()
	if err := process.Stdin(ctx, []byte(p.Stdin)); err == nil {
		_ = process.CloseStdin(ctx) // the program may have ended without reading it
	}
	var o outcome
	for {
		r, err := process.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("%w\nthe output before it:\n%s", err, indent(o.String(), "    "))
		}
		if r.Kind == frame.KindStdout || r.Kind == frame.KindStderr {
			o.add(r)
		}
	}
	if e := process.Exit(); e == nil || e.Code != p.Exit {
		o.problem("exit: wanted %d, got %+v", p.Exit, e)
	}
	for _, f := range []struct {
		what string
		like *Pattern
		got  string
	}{{"stdout", p.Stdout, o.stdout.String()}, {"stderr", p.Stderr, o.stderr.String()}} {
		switch {
		case f.like == nil && f.got != "":
			o.problem("%s: wanted nothing, got %s", f.what, show(f.got))
		case f.like != nil && !f.like.MatchString(f.got):
			o.problem("%s: wanted something like %s, got %s", f.what, f.like, show(f.got))
		}
	}
	if len(o.problems) > 0 {
		return errors.New(strings.Join(append(o.problems, show(o.stdout.String()),
			show(o.stderr.String())), "\n"))
	}
	return nil
}
