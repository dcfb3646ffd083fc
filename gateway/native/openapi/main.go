// Command openapi prints the gateway's OpenAPI document, from which the types of
// the TypeScript client are generated.
package main

import (
	"fmt"
	"os"

	"github.com/sandgate/sandgate/gateway/native"
)

func main() {
	text, err := native.Document()
	if err == nil {
		_, err = os.Stdout.Write(text)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "openapi:", err)
		os.Exit(1)
	}
}
