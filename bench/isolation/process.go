package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
)

// The environment of an attacking process: the name of the attack, the server and the key.
const (
	attackName = "SANDGATE_BENCH_ATTACK"
	attackURL  = "SANDGATE_BENCH_URL"
	attackKey  = "SANDGATE_BENCH_KEY"
)

// startProcess begins an attack in a process of its own and returns once each worker is in its first
// turn. The attack ends when stop returns.
func startProcess(ctx context.Context, a attack, t *side) (stop func() error, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), attackName+"="+a.name, attackURL+"="+t.url, attackKey+"="+t.key)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	stop = func() error { return errors.Join(in.Close(), cmd.Wait()) }
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		return nil, errors.Join(fmt.Errorf("the attack %s did not begin: %w", a.name, err), stop())
	}
	return stop, nil
}

// attackFromOutside attacks until standard input ends.
func attackFromOutside(ctx context.Context, name string) error {
	i := slices.IndexFunc(attacks, func(a attack) bool { return a.name == name })
	if i < 0 {
		return fmt.Errorf("there is no attack %s", name)
	}
	t, err := newSide(os.Getenv(attackURL), os.Getenv(attackKey))
	if err != nil {
		return err
	}
	stop := attacks[i].start(ctx, t)
	fmt.Println("begun")
	_, err = io.Copy(io.Discard, os.Stdin)
	stop()
	return err
}
