// Command sandgate is the server and its command line client.
package main

import (
	"context"
	"os"

	"github.com/sandgate/sandgate/internal/cli"
	"github.com/sandgate/sandgate/internal/console"
)

// version is set by the build.
var version = "dev"

func main() {
	os.Exit(cli.Main(context.Background(), &console.Invocation{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: os.Environ(), Version: version,
	}, os.Args[1:]))
}
