// Meshctl sells idle GPU time, or uses it.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"idlemesh/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The second Ctrl-C ends a command that does not heed the first.
	context.AfterFunc(ctx, stop)
	code := cli.Run(ctx, os.Args, os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
