package cli

import (
	"context"
	"errors"
	"flag"
	"io"
	"os"

	"github.com/sandgate/sandgate/fault"
)

func recordCommand() command {
	return command{
		name: "record", args: "SESSION CHANNEL", short: "Write a recording of a terminal or a kernel, as an asciicast",
		long: `
It holds what the server still has of the channel's output, with its times.
Whatever plays asciicasts plays it, as does the terminal's page.

  sandgate record -o session.cast s_abc t1
  sandgate record --cell 3 s_abc k1 | asciinema play -`,
		run: func(ctx context.Context, a *app, set *flag.FlagSet, args []string) error {
			conn := connectionFlags(set)
			out := set.String("o", "-", "Write to this `file`; - is the standard output.")
			cell := set.Uint("cell", 0, "Only the output of the cell with this `number`.")
			if err := parse(set, args, 2, 2); err != nil {
				return err
			}
			c, err := conn.client(a)
			if err != nil {
				return err
			}
			body, err := c.Recording(ctx, set.Arg(0), set.Arg(1), uint32(*cell))
			if err != nil {
				return err
			}
			defer func() { _ = body.Close() }()
			if *out == "-" {
				return copyRecording(a.Out, body)
			}
			f, err := os.OpenFile(*out, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
			if err != nil {
				return fault.Wrap(fault.InvalidArgument, "record.open", err)
			}
			err = copyRecording(f, body)
			return errors.Join(err, f.Close())
		},
	}
}

func copyRecording(w io.Writer, r io.Reader) error {
	if _, err := io.Copy(w, r); err != nil {
		return fault.Wrap(fault.Unavailable, "record.copy", err)
	}
	return nil
}
